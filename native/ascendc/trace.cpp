#include "trace.h"

#include <cstdio>
#include <cstdlib>

#include "cores.h"

namespace convgrad {
namespace tile {
namespace {

std::FILE* file() {
    static std::FILE* one = [] {
        const char* path = std::getenv("CONVGRAD_TILE_TRACE");
        return path && *path ? std::fopen(path, "w") : nullptr;
    }();
    return one;
}

std::string quoted(const char* words) {
    std::string result = "\"";
    for (const char* at = words ? words : ""; *at; ++at) {
        if (*at == '"' || *at == '\\') result += '\\';
        result += static_cast<unsigned char>(*at) < ' ' ? ' ' : *at;
    }
    return result + "\"";
}

}  // namespace

bool tracing() { return file() != nullptr; }

void trace_launch(const char* name, uint32_t blocks) {
    if (!tracing()) return;
    std::fprintf(file(), "{\"launch\": %s, \"blocks\": %u}\n", quoted(name).c_str(), blocks);
    std::fflush(file());
}

void trace_call(int object, const char* call, const std::string& arguments, cgt_where where) {
    if (!tracing()) return;
    std::fprintf(file(),
                 "{\"core\": %lld, \"role\": \"%s\", \"object\": %d, \"call\": %s, \"args\": [%s], \"file\": %s, "
                 "\"line\": %d}\n",
                 static_cast<long long>(core_number()), on_vector_core() ? "vector" : "cube", object,
                 quoted(call).c_str(), arguments.c_str(), quoted(where.file).c_str(), where.line);
    std::fflush(file());
}

}  // namespace tile
}  // namespace convgrad
