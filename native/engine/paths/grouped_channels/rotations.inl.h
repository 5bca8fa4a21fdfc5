// Groups of two or four channels that lie side by side in memory: a vector holds whole groups, and the products of
// every channel with every other of its group are those of a vector with each rotation of another within the groups.
//
//   data    out[i] += sum over r of  source[i + r] * weight[r][i],  weight[r][i] being the one that ties the two
//   weight  sum[r][f] += fine[f] * coarse[f + r]                    i + r and f + r counted round in the group
//
// As with one channel per group (depthwise_channels) only tied cells are read.
#pragma once

#include <utility>

#include "paths/depthwise_channels/channels.inl.h"

namespace cg {
namespace {

enum { GROUPED_CELLS = 8, GROUPED_TAPS = 3 };    // summed at a time: chains of multiply-adds stay short
enum { GROUPED_PITCH = LANES > 8 ? LANES : 8 };  // weights lie in units of a vector: [tap][rotation][channel]

// Lane i becomes lane i + R of its group of G.
template <int G, int R, class V, int... I> static INLINE V rotate_lanes(V v, std::integer_sequence<int, I...>) {
    return __builtin_shufflevector(v, v, (I / G * G + (I % G + R) % G)...);
}
template <class Channels, int G, int R> static INLINE typename Channels::vector rotated(const float* p) {
    return rotate_lanes<G, R>(Channels::read(p), std::make_integer_sequence<int, Channels::COUNT>());
}

// The same address, for all the compiler knows another: what was loaded from it is not kept in a register.
static INLINE const float* anew(const float* p) {
    asm volatile("" : "+r"(p));
    return p;
}

}  // namespace
}  // namespace cg
