// Taps of a group of a window.
#pragma once

#include "blocking/taps.h"
#include "simd/vector.inl.h"

namespace cg {
namespace {

static INLINE index_t tap_count(const AxisTaps taps[3]) { return taps[0].count * taps[1].count * taps[2].count; }

// Part `number` of a window cut into groups of taps.
static INLINE void tap_group(const AxisTaps all[3], const index_t groups[3], index_t number, AxisTaps taps[3]) {
    for (int a = 2; a >= 0; --a) {
        taps[a] = group_taps(all[a], groups[a], number % groups[a]);
        number /= groups[a];
    }
}

}  // namespace
}  // namespace cg
