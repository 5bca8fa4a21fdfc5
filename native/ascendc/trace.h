// CONVGRAD_TILE_TRACE=file: each call as one line of JSON, which the Python model can replay.
#pragma once

#include <cstdint>
#include <string>

#include "convgrad_tile.h"

namespace convgrad {
namespace tile {

bool tracing();
void trace_launch(const char* name, uint32_t blocks);
// `object` 0: a call of no object. `arguments` is the inside of a JSON list.
void trace_call(int object, const char* call, const std::string& arguments, cgt_where where);

}  // namespace tile
}  // namespace convgrad
