// Vectors of eight with AVX2, FMA and F16C.
#pragma once

#include <immintrin.h>

#include "simd/memory.inl.h"

namespace cg {
namespace {

// Loaded once and kept: the compiler would rather load again for each use, and half of such loads cross a cache line.
template <class V> static INLINE V kept(V v) {
    asm("" : "+x"(v));
    return v;
}

static INLINE v8 fma8(v8 a, v8 b, v8 c) { return (v8)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }

static INLINE float fma1(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static INLINE double fma1(double a, double b, double c) { return __builtin_fma(a, b, c); }

static INLINE u8 larger8(u8 a, u8 b) { return (u8)_mm256_max_epu32((__m256i)a, (__m256i)b); }  // both below 2^31

// (GCC converts four floats in two steps and puts them together.)
template <int HALF> static INLINE d4 widened(v8 v) {
    return HALF == 0 ? (d4)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)v))
                     : (d4)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)v, 1));
}

static INLINE v8 from_half8(h8 halves) { return (v8)_mm256_cvtph_ps((__m128i)halves); }

static INLINE void to_half8(uint16_t* p, v8 v) {
    _mm_storeu_si128((__m128i*)p, _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT));
}

}  // namespace
}  // namespace cg
