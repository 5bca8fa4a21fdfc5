// AVX2: eight lanes.
#pragma once

#include "simd/x86_eight.inl.h"

namespace cg {
namespace {

static INLINE vf fma(vf a, vf b, vf c) { return fma8(a, b, c); }

static INLINE uf smaller(uf a, uf b) {
    const uf mask = (uf)(a < b);
    return (mask & a) | (~mask & b);
}

// No instruction multiplies pairs of bfloat16.
enum { HAS_PAIRS = 0 };
static INLINE vf pair_operand(const float* p) { return broadcast(*p); }
static INLINE vf pair_multiply_add(vf a, vf b, vf c) { return fma(a, b, c); }

}  // namespace
}  // namespace cg
