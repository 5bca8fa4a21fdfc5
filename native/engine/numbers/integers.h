// Whole numbers and strides. Internal linkage, for sources that are compiled once per instruction set: an inline
// function with external linkage would be merged by the linker, which could keep the AVX-512 copy on a machine without
// AVX-512.
#pragma once

#include "convgrad.h"

namespace cg {

typedef int64_t index_t;

namespace {

#define CG_SMALL [[maybe_unused]] inline __attribute__((always_inline))
CG_SMALL index_t min(index_t a, index_t b) { return a < b ? a : b; }
CG_SMALL index_t max(index_t a, index_t b) { return a > b ? a : b; }
CG_SMALL index_t magnitude(index_t a) { return a < 0 ? -a : a; }
CG_SMALL index_t clamp(index_t v, index_t low, index_t high) { return max(low, min(v, high)); }
CG_SMALL index_t ceil_div(index_t a, index_t b) { return (a + b - 1) / b; }
CG_SMALL index_t floor_div(index_t a, index_t b) { return a / b - (a % b < 0 ? 1 : 0); }
CG_SMALL index_t modulo(index_t a, index_t b) { return a - floor_div(a, b) * b; }
CG_SMALL index_t round_up(index_t a, index_t b) { return ceil_div(a, b) * b; }

[[maybe_unused]] inline index_t gcd(index_t a, index_t b) {
    while (b != 0) {
        const index_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

// Whether the channels of a cell lie side by side, and the cells of a row do not.
CG_SMALL bool channels_touch(const cg_tensor& t) { return t.stride[1] == 1 && t.stride[4] != 1; }
#undef CG_SMALL

}  // namespace
}  // namespace cg
