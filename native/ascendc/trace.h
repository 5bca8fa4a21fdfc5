// CONVGRAD_TILE_TRACE=file: launches, regions of memory, each call, meetings and findings as lines of JSON. The Python
// model replays them: calls stand in the order in which the cores made them, refused ones too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convgrad_tile.h"

namespace convgrad {
namespace tile {

bool tracing();
void trace_launch(const char* name, uint32_t blocks);
void trace_region(int number, const std::string& name, size_t bytes, size_t zeros);
// `object` 0: a call of no object. `arguments` is the inside of a JSON list; `first` the flag ctx.isFirstIter_ before
// it.
void trace_call(int object, const char* call, const std::string& arguments, cgt_where where, bool first = false);
// The running core has met others: what it has heard of, by core.
void trace_heard(const std::vector<uint16_t>& clocks);
void trace_finding(const std::string& rule, const std::string& text, int64_t core, const std::string& place,
                   uint64_t count);

}  // namespace tile
}  // namespace convgrad
