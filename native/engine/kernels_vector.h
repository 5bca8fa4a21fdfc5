// The vector layer: the only place that knows an instruction set. Two vector types are used:
//   vf  float x LANES   the widest registers, in the matrix kernels (no result depends on the number of lanes)
//   v8  float x 8       everywhere else, whatever the machine, so that sums over lanes come out the same
// A multiply-add is written as such and never left to the compiler: which loop got contracted would show in the bits.
#pragma once

#define INLINE inline __attribute__((always_inline))
#define OUTLINE __attribute__((noinline))
#define UNROLL _Pragma("GCC unroll 16")

typedef float vf __attribute__((vector_size(LANES * 4)));
typedef uint32_t uf __attribute__((vector_size(LANES * 4)));
typedef float vf_unaligned __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef float v8 __attribute__((vector_size(32)));
typedef float v8_unaligned __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t i8 __attribute__((vector_size(32)));
typedef uint32_t u8 __attribute__((vector_size(32)));
typedef uint16_t h8 __attribute__((vector_size(16)));
typedef uint16_t h8_unaligned __attribute__((vector_size(16), aligned(2), may_alias));
typedef double d4 __attribute__((vector_size(32)));

static INLINE vf load(const float* p) { return *(const vf_unaligned*)p; }
static INLINE void store(float* p, vf v) { *(vf_unaligned*)p = v; }
static INLINE v8 load8(const float* p) { return *(const v8_unaligned*)p; }
static INLINE void store8(float* p, v8 v) { *(v8_unaligned*)p = v; }
static INLINE v8 load_four(const float* p) {  // and zeros
    typedef float v4 __attribute__((vector_size(16), aligned(4), may_alias));
    const v4 v = *(const v4*)p;
    return __builtin_shufflevector(v, v4{}, 0, 1, 2, 3, 4, 5, 6, 7);
}
static INLINE v8 load_four_pairs(const float* p, index_t apart) {
    typedef uint64_t pairs __attribute__((vector_size(32)));
    uint64_t v[4];
    UNROLL for (int i = 0; i < 4; ++i) __builtin_memcpy(&v[i], p + i * apart, 8);
    return (v8)pairs{v[0], v[1], v[2], v[3]};
}
static INLINE vf broadcast(float x) { return x - vf{}; }
// Loaded once and kept: the compiler would rather load again for each use, and half of such loads cross a cache line.
template <class V> static INLINE V kept(V v) {
#if defined(__AVX__)
    asm("" : "+x"(v));
#endif
    return v;
}
static INLINE v8 load8_once(const float* p) { return kept(load8(p)); }
static INLINE vf load_once(const float* p) { return kept(load(p)); }
static INLINE v8 broadcast8(float x) { return x - v8{}; }

static INLINE v8 fma8(v8 a, v8 b, v8 c) {
#if defined(__FMA__)
    return (v8)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__aarch64__)
    union { v8 v; float32x4_t q[2]; } x{a}, y{b}, z{c};
    z.q[0] = vfmaq_f32(z.q[0], x.q[0], y.q[0]);
    z.q[1] = vfmaq_f32(z.q[1], x.q[1], y.q[1]);
    return z.v;
#else
    return a * b + c;
#endif
}

static INLINE vf fma(vf a, vf b, vf c) {
#if LANES == 16
    return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif LANES == 8
    return fma8(a, b, c);
#elif defined(__aarch64__)
    return (vf)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    return a * b + c;
#endif
}

// ---- pairs of bfloat16 -----------------------------------------------------------------------------------------
//
// A word of 32 bits holds two of them, the first in its upper half: where float32 has it. One instruction multiplies and
// adds both, the upper ones first, each rounded as a float32 multiply-add is: the very bits of two of those, as long as
// no number is subnormal (it takes them for zero), see PairCheck.
#if defined(__AVX512BF16__)
enum { HAS_PAIRS = 1 };
#else
enum { HAS_PAIRS = 0 };
#endif

template <bool PAIRS> static INLINE vf operand(const float* p) {  // the same in every lane
#if defined(__AVX512BF16__)
    if (PAIRS) {
        int32_t bits;
        __builtin_memcpy(&bits, p, 4);
        return (vf)_mm512_set1_epi32(bits);
    }
#endif
    return broadcast(*p);
}

template <bool PAIRS> static INLINE vf multiply_add(vf a, vf b, vf c) {
#if defined(__AVX512BF16__)
    if (PAIRS) return (vf)_mm512_dpbf16_ps((__m512)c, (__m512bh)a, (__m512bh)b);
#endif
    return fma(a, b, c);
}

template <bool PAIRS> static INLINE vf multiply(vf a, vf b) { return PAIRS ? multiply_add<PAIRS>(a, b, vf{}) : a * b; }

// One element, rounded like the vectors of this instruction set.
static INLINE float fma1(float a, float b, float c) {
#if defined(__FMA__) || defined(__aarch64__)
    return __builtin_fmaf(a, b, c);
#else
    return a * b + c;
#endif
}
static INLINE double fma1(double a, double b, double c) {
#if defined(__FMA__) || defined(__aarch64__)
    return __builtin_fma(a, b, c);
#else
    return a * b + c;
#endif
}

static INLINE uf smaller(uf a, uf b) {
#if LANES == 16
    return (uf)_mm512_maskz_min_epu32(__mmask16(-1), (__m512i)a, (__m512i)b);  // the plain one warns in GCC's header
#else
    const uf mask = (uf)(a < b);
    return (mask & a) | (~mask & b);
#endif
}

static INLINE u8 larger8(u8 a, u8 b) {  // both below 2^31
#if defined(__AVX2__)
    return (u8)_mm256_max_epu32((__m256i)a, (__m256i)b);
#else
    const u8 mask = (u8)((i8)a > (i8)b);
    return (mask & a) | (~mask & b);
#endif
}

static INLINE u8 select8(u8 mask, u8 yes, u8 no) { return (mask & yes) | (~mask & no); }

static INLINE float sum8(v8 v) {
    return ((v[0] + v[4]) + (v[1] + v[5])) + ((v[2] + v[6]) + (v[3] + v[7]));
}

// Sums of eight numbers at a time in double precision. (GCC converts four floats in two steps and puts them together.)
struct DoubleSum {
    d4 low = d4{}, high = d4{};
    INLINE void add(v8 v) {
#if defined(__AVX__)
        low += (d4)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)v));
        high += (d4)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)v, 1));
#else
        low += __builtin_convertvector(__builtin_shufflevector(v, v, 0, 1, 2, 3), d4);
        high += __builtin_convertvector(__builtin_shufflevector(v, v, 4, 5, 6, 7), d4);
#endif
    }
    INLINE double total() const {
        const d4 sum = low + high;
        return (sum[0] + sum[2]) + (sum[1] + sum[3]);
    }
};

// Rows become columns.
static INLINE void transpose8(v8 r[8]) {
    v8 a[8], b[8];
    UNROLL for (int k = 0; k < 8; k += 2) {
        a[k] = __builtin_shufflevector(r[k], r[k + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        a[k + 1] = __builtin_shufflevector(r[k], r[k + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    UNROLL for (int k = 0; k < 8; k += 4) {
        UNROLL for (int e = 0; e < 2; ++e) {
            b[k + e * 2] = __builtin_shufflevector(a[k + e], a[k + 2 + e], 0, 1, 8, 9, 4, 5, 12, 13);
            b[k + e * 2 + 1] = __builtin_shufflevector(a[k + e], a[k + 2 + e], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    }
    UNROLL for (int k = 0; k < 4; ++k) {
        r[k] = __builtin_shufflevector(b[k], b[k + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        r[k + 4] = __builtin_shufflevector(b[k], b[k + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

// 4 x 4 in each half.
static INLINE void transpose_halves(const v8 r[4], v8 c[4]) {
    const v8 a = __builtin_shufflevector(r[0], r[1], 0, 8, 1, 9, 4, 12, 5, 13);
    const v8 b = __builtin_shufflevector(r[0], r[1], 2, 10, 3, 11, 6, 14, 7, 15);
    const v8 d = __builtin_shufflevector(r[2], r[3], 0, 8, 1, 9, 4, 12, 5, 13);
    const v8 e = __builtin_shufflevector(r[2], r[3], 2, 10, 3, 11, 6, 14, 7, 15);
    c[0] = __builtin_shufflevector(a, d, 0, 1, 8, 9, 4, 5, 12, 13);
    c[1] = __builtin_shufflevector(a, d, 2, 3, 10, 11, 6, 7, 14, 15);
    c[2] = __builtin_shufflevector(b, e, 0, 1, 8, 9, 4, 5, 12, 13);
    c[3] = __builtin_shufflevector(b, e, 2, 3, 10, 11, 6, 7, 14, 15);
}

// The lower halves of eight rows of four become four columns of eight, and back.
static INLINE void transpose8x4(const v8 r[8], v8 c[4]) {
    v8 a[4];
    UNROLL for (int k = 0; k < 4; ++k) a[k] = __builtin_shufflevector(r[k], r[k + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    transpose_halves(a, c);
}
static INLINE void transpose4x8(const v8 c[4], v8 r[8]) {
    v8 a[4];
    transpose_halves(c, a);
    UNROLL for (int k = 0; k < 4; ++k) {
        r[k] = a[k];
        r[k + 4] = __builtin_shufflevector(a[k], a[k], 4, 5, 6, 7, 4, 5, 6, 7);
    }
}

// ---- float16 ---------------------------------------------------------------------------------------------------

// Eight numbers of 16 bits, or four and zeros, or sixteen as words of two.
static INLINE h8 load_halves(const uint16_t* p) { return *(const h8_unaligned*)p; }
static INLINE u8 load_words(const uint16_t* p) {
    typedef uint32_t words __attribute__((vector_size(32), aligned(2), may_alias));
    return *(const words*)p;
}
static INLINE h8 load_four_halves(const uint16_t* p) {
    typedef uint64_t two __attribute__((vector_size(16)));
    uint64_t four;
    __builtin_memcpy(&four, p, 8);
    return (h8)two{four, 0};
}

static INLINE v8 from_half8(h8 halves) {
#if defined(__F16C__)
    return (v8)_mm256_cvtph_ps((__m128i)halves);
#elif defined(__aarch64__)
    union { v8 v; float32x4_t q[2]; } r;
    const float16x8_t h = vreinterpretq_f16_u16((uint16x8_t)halves);
    r.q[0] = vcvt_f32_f16(vget_low_f16(h));
    r.q[1] = vcvt_high_f32_f16(h);
    return r.v;
#else
    //  s eeeee ffffffffff  ->  the exponent and fraction moved up, times 2^112: exact, subnormals too
    const u8 h = __builtin_convertvector(halves, u8);
    const u8 rest = (h & 0x7fffu) << 13;
    const u8 scaled = (u8)((v8)rest * 0x1p112f);
    const u8 special = (u8)(rest >= 0x0f800000u);
    return (v8)(((h & 0x8000u) << 16) | select8(special, rest | 0x7f800000u, scaled));
#endif
}

static INLINE void to_half8(uint16_t* p, v8 v) {
#if defined(__F16C__)
    _mm_storeu_si128((__m128i*)p, _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__aarch64__)
    union { v8 v; float32x4_t q[2]; } r{v};
    vst1q_u16(p, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(r.q[0]), r.q[1])));
#else
    const u8 bits = (u8)v, size = bits & 0x7fffffffu;
    // Below 2^-14 the quantum is fixed: adding 0.5 lets the addition round at 2^-24.
    const u8 small = (u8)((v8)size + broadcast8(0.5f)) - 0x3f000000u;
    const u8 normal = (size + ((size >> 13) & 1u) + 0xfffu - (112u << 23)) >> 13;
    u8 r = select8((u8)(size < 0x38800000u), small, normal);
    r = select8((u8)(size >= 0x47800000u), (size & 0u) + 0x7c00u, r);
    r = select8((u8)(size > 0x7f800000u), (size & 0u) + 0x7e00u, r);
    *(h8_unaligned*)p = __builtin_convertvector(r | ((bits >> 16) & 0x8000u), h8_unaligned);
#endif
}

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
