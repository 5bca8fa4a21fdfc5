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

void trace_region(int number, const std::string& name, size_t bytes, size_t zeros) {
    if (!tracing()) return;
    std::fprintf(file(), "{\"region\": %d, \"name\": %s, \"bytes\": %zu, \"zeros\": %zu}\n", number,
                 quoted(name.c_str()).c_str(), bytes, zeros);
}

void trace_call(int object, const char* call, const std::string& arguments, cgt_where where, bool first) {
    if (!tracing()) return;
    std::fprintf(file(),
                 "{\"core\": %lld, \"thread\": %d, \"role\": \"%s\", \"object\": %d, \"call\": %s, \"args\": [%s], "
                 "\"first\": %s, \"file\": %s, \"line\": %d}\n",
                 static_cast<long long>(core_number()), thread_number(), on_vector_core() ? "vector" : "cube", object,
                 quoted(call).c_str(), arguments.c_str(), first ? "true" : "false", quoted(where.file).c_str(),
                 where.line);
    std::fflush(file());  // a kernel that crashes leaves its last call
}

void trace_heard(const std::vector<uint16_t>& clocks) {
    if (!tracing()) return;
    std::string list;
    for (const uint16_t clock : clocks) list += (list.empty() ? "" : ", ") + std::to_string(clock);
    std::fprintf(file(), "{\"heard\": [%s], \"thread\": %d}\n", list.c_str(), thread_number());
}

void trace_finding(const std::string& rule, const std::string& text, int64_t core, const std::string& place,
                   uint64_t count) {
    if (!tracing()) return;
    std::fprintf(file(), "{\"finding\": %s, \"text\": %s, \"core\": %lld, \"place\": %s, \"count\": %llu}\n",
                 quoted(rule.c_str()).c_str(), quoted(text.c_str()).c_str(), static_cast<long long>(core),
                 quoted(place.c_str()).c_str(), static_cast<unsigned long long>(count));
    std::fflush(file());
}

}  // namespace tile
}  // namespace convgrad
