// The cores of a launch. One thread each; a baton lets exactly one of them run, in core order, until it ends or waits.
// So a run has the same bits every time, kernel code needs no locks, and a deadlock is seen instead of suffered.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "convgrad_tile.h"

namespace convgrad {
namespace tile {

// The block that runs, or 0 outside of a launch.
int64_t core_number();
// The place of the running core among all cores of the launch, vector cores included; 0 outside of a launch.
int thread_number();
bool on_vector_core();
// True when the running core was stopped by a refusal and is only unwinding.
bool core_is_stopping();
void mark_core_stopping();
// The block of a core by its place.
int64_t block_of_thread(int thread);

// Meetings and flags order what cores do: an action is (core, number of its synchronisations so far), and it came
// before everything a core does that has heard of it since. The clock of the running core:
uint16_t core_clock();
// Whether what core `thread` did at `clock` came before what the running core does now.
bool happened_before(int thread, uint16_t clock);

// Operands of a tile while it is computed. Only one core of a launch runs, so all take the same memory.
struct Scratch {
    std::vector<float> a, b, rows;
};
Scratch& scratch();

}  // namespace tile
}  // namespace convgrad
