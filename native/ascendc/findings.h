// What was found: one finding per rule and launch, with the first text, core and place, and how often it came up.
#pragma once

#include <cstdint>
#include <string>

#include "convgrad_tile.h"

namespace convgrad {
namespace tile {

// Thrown inside the library where a core cannot go on; the C ABI answers CGT_STOP.
struct StopCore {};

// A refusal on the core that runs. Rules that begin with "note." do not fail a program.
void found(const std::string& rule, const std::string& text, cgt_where where);
// Something about the whole launch, or about the core that an element was last touched by.
void found_on_core(const std::string& rule, const std::string& text, int64_t core, cgt_where where);
constexpr int64_t kNoCore = -1;

[[noreturn]] void stop(const std::string& rule, const std::string& text, cgt_where where);

// A launch begins and ends: findings of rules seen before count anew; what came up is printed under the head line, and
// in strict mode the process ends.
void begin_findings();
void end_findings(const std::string& head);

}  // namespace tile
}  // namespace convgrad
