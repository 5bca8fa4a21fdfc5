// What the plans of all contractions are made of. Sizes only: no plan touches data or assumes an instruction set.
//
// Two rules keep results independent of the number of threads. What orders a sum (tap groups, channels per K block,
// runs of pixels of the weight contraction) is computed from the problem alone. What does not (pixel blocks of a
// gather, chunks of output channels, splits of a task) may follow the number of threads.
#pragma once

#include "arithmetic.h"

namespace cg {

// Floats. A task holds a tile, a packed block and an output block in a 512 KiB L2 plus some L3.
const index_t TILE_FLOATS = 64 << 10;
const index_t ACCUMULATOR_FLOATS = 256 << 10;
const index_t SHARED_FLOATS = 1100 << 10;    // packed weights, or partial weight gradients, of all threads

// Of the tile along one axis, over every class of a set, for the widest tap group.
struct Spread {
    index_t slots, span, taps;
};

bool outweighs_chains(const cg_tensor& result);
index_t gcd(index_t a, index_t b);
index_t even_part(index_t extent, index_t limit, index_t multiple);
AxisClass fine_class(const cg_problem& p, int axis, index_t residue, index_t first_try = 0);
AxisTaps coarse_taps(const cg_problem& p, int axis);
index_t classes_with_taps(const cg_problem& p, int axis);
Spread axis_spread(const ClassSet& set, int axis, index_t groups, index_t scale);
index_t tile_floats(const Blocks& b, const Spread spread[3]);
bool cut_window(const ClassSet& set, const index_t scale[3], const Blocks& blocks, index_t tile_limit,
                index_t tap_limit, index_t groups[3], Spread spread[3]);
int rows_of_two_vectors(int lanes);
size_t floats(index_t count);  // bytes of a piece of scratch memory, see Scratch

}  // namespace cg
