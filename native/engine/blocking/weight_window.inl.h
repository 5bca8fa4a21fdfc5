// Where the taps of a window lie in a weight tensor.
#pragma once

#include "problem.h"

namespace cg {
namespace {

// Whether the taps of a window follow each other in memory; the stride of a single tap means nothing.
static bool dense_window(const cg_problem& p) {
    index_t next = 1;
    for (int a = 2; a >= 0; --a) {
        if (p.window[a] > 1 && p.to_weight.stride[a + 2] != next) return false;
        next *= p.window[a];
    }
    return true;
}

// Where a tap of the window is in a weight tensor of these strides, from the first one.
static index_t tap_place(const cg_problem& p, index_t tap, const index_t* st) {
    const index_t x = tap % p.window[2], y = tap / p.window[2] % p.window[1];
    return tap / (p.window[2] * p.window[1]) * st[2] + y * st[3] + x * st[4];
}

}  // namespace
}  // namespace cg
