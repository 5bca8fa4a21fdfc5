// The vector layer: the only place that knows an instruction set. What differs between them is in one file each, with
// the same names in all of them:
//
//   fma8, fma           a*b + c, of eight numbers and of LANES
//   fma1                of one number, rounded as the vectors are
//   kept                a vector that is not loaded again
//   smaller, larger8    of unsigned integers
//   widened             eight floats as doubles
//   from_half8, to_half8
//   HAS_PAIRS, pair_operand, pair_multiply_add    pairs of bfloat16
//
// A multiply-add is written as such and never left to the compiler: which loop got contracted would show in the bits.
#pragma once

#include "simd/types.inl.h"

#if LANES == 16
#include "simd/avx512.inl.h"
#elif LANES == 8
#include "simd/avx2.inl.h"
#elif defined(__aarch64__)
#include "simd/neon.inl.h"
#else
#include "simd/baseline.inl.h"
#endif

namespace cg {
namespace {

static INLINE vf load_once(const float* p) { return kept(load(p)); }
static INLINE v8 load8_once(const float* p) { return kept(load8(p)); }

// ---- pairs of bfloat16 -----------------------------------------------------------------------------------------
//
// A 32-bit element holds two of them, the first in its upper half: where float32 has it. One instruction multiplies and
// adds both, the upper ones first, each rounded as a float32 multiply-add is: the very bits of two of those, as long as
// no number is subnormal (it takes them for zero), see PairCheck.
template <bool PAIRS> static INLINE vf operand(const float* p) {  // the same in every lane
    return PAIRS ? pair_operand(p) : broadcast(*p);
}

template <bool PAIRS> static INLINE vf multiply_add(vf a, vf b, vf c) {
    return PAIRS ? pair_multiply_add(a, b, c) : fma(a, b, c);
}

template <bool PAIRS> static INLINE vf multiply(vf a, vf b) { return PAIRS ? multiply_add<PAIRS>(a, b, vf{}) : a * b; }

static INLINE float sum8(v8 v) { return ((v[0] + v[4]) + (v[1] + v[5])) + ((v[2] + v[6]) + (v[3] + v[7])); }

// Sums of eight numbers at a time in double precision.
struct DoubleSum {
    d4 low = d4{}, high = d4{};
    INLINE void add(v8 v) {
        low += widened<0>(v);
        high += widened<1>(v);
    }
    INLINE double total() const {
        const d4 sum = low + high;
        return (sum[0] + sum[2]) + (sum[1] + sum[3]);
    }
};

// ---- bfloat16 --------------------------------------------------------------------------------------------------

static INLINE v8 from_bfloat8(h8 halves) { return (v8)(__builtin_convertvector(halves, u8) << 16); }

//  s eeeeeeee fffffff dddddddddddddddd   keep 16 bits; half of the last kept bit, less one, plus that bit: ties to even
static INLINE u8 bfloat_bits(v8 v) {
    const u8 bits = (u8)v;
    const u8 rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const u8 nan = (u8)((bits & 0x7fffffffu) > 0x7f800000u);
    return select8(nan, (bits >> 16) | 0x40u, rounded);
}

static INLINE void to_bfloat8(uint16_t* p, v8 v) {
    *(h8_unaligned*)p = __builtin_convertvector(bfloat_bits(v), h8_unaligned);
}

// ---- hf32: float32 with fewer fraction bits ------------------------------------------------------------------------

//  s eeeeeeee kkkkkkkkkkk dddddddddddd   add half of the last kept bit and cut: ties away from zero; inf stays inf.
// Cutting could make a NaN a number: where it is kept all of its bits are set.
template <int DROPPED, bool KEEPS_NAN> static INLINE v8 shorten8(v8 v) {
    const u8 cut = ((u8)v + (1u << (DROPPED - 1))) & ~((1u << DROPPED) - 1u);
    return KEEPS_NAN ? (v8)(cut | (u8)(v != v)) : (v8)cut;
}

}  // namespace
}  // namespace cg
