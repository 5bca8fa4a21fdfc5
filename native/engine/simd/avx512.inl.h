// AVX-512: sixteen lanes; where the processor has AVX512_BF16, pairs of bfloat16.
#pragma once

#include "simd/x86_eight.inl.h"

namespace cg {
namespace {

static INLINE vf fma(vf a, vf b, vf c) { return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }

static INLINE uf smaller(uf a, uf b) {
    return (uf)_mm512_maskz_min_epu32(__mmask16(-1), (__m512i)a, (__m512i)b);  // the plain one warns in GCC's header
}

#if defined(__AVX512BF16__)
enum { HAS_PAIRS = 1 };
static INLINE vf pair_operand(const float* p) {
    int32_t bits;
    __builtin_memcpy(&bits, p, 4);
    return (vf)_mm512_set1_epi32(bits);
}
static INLINE vf pair_multiply_add(vf a, vf b, vf c) {
    return (vf)_mm512_dpbf16_ps((__m512)c, (__m512bh)a, (__m512bh)b);
}
#else
// No instruction multiplies pairs of bfloat16.
enum { HAS_PAIRS = 0 };
static INLINE vf pair_operand(const float* p) { return broadcast(*p); }
static INLINE vf pair_multiply_add(vf a, vf b, vf c) { return fma(a, b, c); }
#endif

}  // namespace
}  // namespace cg
