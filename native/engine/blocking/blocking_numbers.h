// Every number that decides how loops are cut, with its reason. All planners read them here.
#pragma once

#include "numbers/integers.h"

namespace cg {

// Floats. A task holds a tile, a packed block and an output block in a 512 KiB L2 plus some L3.
const index_t TILE_FLOATS = 64 << 10;
const index_t ACCUMULATOR_FLOATS = 256 << 10;
const index_t SHARED_FLOATS = 1100 << 10;  // packed weights, or partial weight gradients, of all threads

enum { CACHE_LINE = 16 };  // floats

// gemm_data
const index_t LOCAL_WEIGHT_FLOATS = 45000;  // weights a task walks through per packed block: 180 KB of L2
const index_t REDUCTION_BLOCK = 240;        // KC, steps of a K block: a panel of 240 x 16 floats stays in L1
const double IN_PLACE_PIXELS = 256;         // up to so many pixels weights are read in place: packing would cost more

// MR, rows of a register tile two vectors wide: with two vectors and a broadcast they take 15 of 16 registers, and 19
// of the 32 of AVX-512, where whole panels of eight leave no rest of the usual numbers of channels.
enum { MR_OF_16_REGISTERS = 6, MR_OF_32_REGISTERS = 8, MAX_MR = 8 };

// Multiply-adds in a row before a sum is spilled to memory: its error grows with the square root of this.
enum { CHAIN = 72, SHORT_CHAIN = 12 };

namespace {

[[maybe_unused]] inline int mr_of_two_vectors(int lanes) {
    return lanes == 16 ? MR_OF_32_REGISTERS : MR_OF_16_REGISTERS;
}

// Pitch of the accumulators, floats from one row of sums to the next: an odd number of cache lines, or no whole number,
// so that the rows a microkernel has at hand do not fall on a few sets of the cache.
[[maybe_unused]] inline index_t sums_pitch(index_t columns) {
    return columns % (2 * CACHE_LINE) == 0 ? columns + CACHE_LINE : columns;
}

}  // namespace
}  // namespace cg
