// NEON: four lanes; vectors of eight are two registers.
#pragma once

#include <arm_neon.h>

#include "simd/memory.inl.h"

namespace cg {
namespace {

template <class V> static INLINE V kept(V v) { return v; }

static INLINE v8 fma8(v8 a, v8 b, v8 c) {
    union {
        v8 v;
        float32x4_t q[2];
    } x{a}, y{b}, z{c};
    z.q[0] = vfmaq_f32(z.q[0], x.q[0], y.q[0]);
    z.q[1] = vfmaq_f32(z.q[1], x.q[1], y.q[1]);
    return z.v;
}
static INLINE vf fma(vf a, vf b, vf c) { return (vf)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b); }

static INLINE float fma1(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static INLINE double fma1(double a, double b, double c) { return __builtin_fma(a, b, c); }

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
    union {
        v8 v;
        float32x4_t q[2];
    } r;
    const float16x8_t h = vreinterpretq_f16_u16((uint16x8_t)halves);
    r.q[0] = vcvt_f32_f16(vget_low_f16(h));
    r.q[1] = vcvt_high_f32_f16(h);
    return r.v;
}

static INLINE void to_half8(uint16_t* p, v8 v) {
    union {
        v8 v;
        float32x4_t q[2];
    } r{v};
    vst1q_u16(p, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(r.q[0]), r.q[1])));
}

// No instruction multiplies pairs of bfloat16.
enum { HAS_PAIRS = 0 };
static INLINE vf pair_operand(const float* p) { return broadcast(*p); }
static INLINE vf pair_multiply_add(vf a, vf b, vf c) { return fma(a, b, c); }

}  // namespace
}  // namespace cg
