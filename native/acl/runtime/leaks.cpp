#include "runtime/leaks.h"

#include "operators/executor.h"
#include "runtime/memory.h"
#include "runtime/objects.h"
#include "runtime/runtime.h"
#include "runtime/strict.h"

namespace convgrad {
namespace {

void list_count(const char* what, size_t count) {
    if (count) strict::report("leak: %zu %s%s", count, what, count == 1 ? "" : "s");
}

}  // namespace

void list_leaks() {
    for (const auto& block : live_blocks())
        strict::report("leak: %s block #%llu, %zu bytes", block->side == Side::Device ? "device" : "pinned host",
                       static_cast<unsigned long long>(block->number), block->asked);
    Runtime& state = runtime();
    const size_t own_streams = state.streams.size(), defaults = state.contexts.size();
    list_count("stream", own_streams > defaults ? own_streams - defaults : 0);
    list_count("context", defaults - (state.default_context ? 1 : 0));
    list_count("event", state.events.size());
    Objects& all = objects();
    list_count("tensor", all.tensors.size());
    list_count("scalar", all.scalars.size());
    list_count("int array", all.int_arrays.size());
    list_count("float array", all.float_arrays.size());
    list_count("bool array", all.bool_arrays.size());
    list_count("tensor list", all.tensor_lists.size());
    list_count("scalar list", all.scalar_lists.size());
    list_count("executor", executors().size());
}

}  // namespace convgrad
