// Any processor: four lanes, no multiply-add that rounds once.
#pragma once

#include "simd/memory.inl.h"

namespace cg {
namespace {

template <class V> static INLINE V kept(V v) { return v; }

static INLINE v8 fma8(v8 a, v8 b, v8 c) { return a * b + c; }
static INLINE vf fma(vf a, vf b, vf c) { return a * b + c; }
static INLINE float fma1(float a, float b, float c) { return a * b + c; }
static INLINE double fma1(double a, double b, double c) { return a * b + c; }

static INLINE uf smaller(uf a, uf b) {
    const uf mask = (uf)(a < b);
    return (mask & a) | (~mask & b);
}

static INLINE u8 larger8(u8 a, u8 b) {  // both below 2^31
    const u8 mask = (u8)((i8)a > (i8)b);
    return (mask & a) | (~mask & b);
}

template <int HALF> static INLINE d4 widened(v8 v) {
    return HALF == 0 ? __builtin_convertvector(__builtin_shufflevector(v, v, 0, 1, 2, 3), d4)
                     : __builtin_convertvector(__builtin_shufflevector(v, v, 4, 5, 6, 7), d4);
}

static INLINE v8 from_half8(h8 halves) {
    //  s eeeee ffffffffff  ->  the exponent and fraction moved up, times 2^112: exact, subnormals too
    const u8 h = __builtin_convertvector(halves, u8);
    const u8 rest = (h & 0x7fffu) << 13;
    const u8 scaled = (u8)((v8)rest * 0x1p112f);
    const u8 special = (u8)(rest >= 0x0f800000u);
    return (v8)(((h & 0x8000u) << 16) | select8(special, rest | 0x7f800000u, scaled));
}

static INLINE void to_half8(uint16_t* p, v8 v) {
    const u8 bits = (u8)v, size = bits & 0x7fffffffu;
    // Below 2^-14 the quantum is fixed: adding 0.5 lets the addition round at 2^-24.
    const u8 small = (u8)((v8)size + broadcast8(0.5f)) - 0x3f000000u;
    const u8 normal = (size + ((size >> 13) & 1u) + 0xfffu - (112u << 23)) >> 13;
    u8 r = select8((u8)(size < 0x38800000u), small, normal);
    r = select8((u8)(size >= 0x47800000u), (size & 0u) + 0x7c00u, r);
    r = select8((u8)(size > 0x7f800000u), (size & 0u) + 0x7e00u, r);
    *(h8_unaligned*)p = __builtin_convertvector(r | ((bits >> 16) & 0x8000u), h8_unaligned);
}

// No instruction multiplies pairs of bfloat16.
enum { HAS_PAIRS = 0 };
static INLINE vf pair_operand(const float* p) { return broadcast(*p); }
static INLINE vf pair_multiply_add(vf a, vf b, vf c) { return fma(a, b, c); }

}  // namespace
}  // namespace cg
