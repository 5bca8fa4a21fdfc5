// A source copied into a zero-padded tile, split by residue so that neighbouring outputs read neighbours:
//   source index = scale*(low + position) + residue(slot)
#pragma once

#include "blocking/blocks.h"
#include "blocking/taps.h"

namespace cg {

struct TileAxis {
    index_t scale, low, span;    // span = largest minus smallest quotient
    index_t slots, first, step;  // residue(slot) = (first + slot*step) mod scale
};

// Of the tile along one axis, over every class of a set, for the widest tap group.
struct Spread {
    index_t slots, span, taps;
};

TileAxis tile_axis(const AxisTaps& taps, index_t scale);
Spread axis_spread(const ClassSet& set, int axis, index_t groups, index_t scale);
index_t tile_floats(const Blocks& b, const Spread spread[3]);
bool cut_window(const ClassSet& set, const index_t scale[3], const Blocks& blocks, index_t tile_limit,
                index_t tap_limit, index_t groups[3], Spread spread[3]);

}  // namespace cg
