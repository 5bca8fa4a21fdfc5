// Vectors from memory and back, the same for every instruction set.
#pragma once

#include "simd/types.inl.h"

namespace cg {
namespace {

static INLINE vf load(const float* p) { return *(const vf_unaligned*)p; }
static INLINE void store(float* p, vf v) { *(vf_unaligned*)p = v; }
static INLINE v8 load8(const float* p) { return *(const v8_unaligned*)p; }
static INLINE void store8(float* p, v8 v) { *(v8_unaligned*)p = v; }
static INLINE v8 load_four(const float* p) {  // and zeros
    typedef float v4 __attribute__((vector_size(16), aligned(4), may_alias));
    const v4 v = *(const v4*)p;
    return __builtin_shufflevector(v, v4{}, 0, 1, 2, 3, 4, 5, 6, 7);
}
static INLINE v8 load_four_pairs(const float* p, index_t stride) {
    typedef uint64_t pairs __attribute__((vector_size(32)));
    uint64_t v[4];
    UNROLL for (int i = 0; i < 4; ++i) __builtin_memcpy(&v[i], p + i * stride, 8);
    return (v8)pairs{v[0], v[1], v[2], v[3]};
}
static INLINE vf broadcast(float x) { return x - vf{}; }
static INLINE v8 broadcast8(float x) { return x - v8{}; }

// Eight numbers of 16 bits, or four and zeros, or sixteen as bf16 pairs.
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

static INLINE u8 select8(u8 mask, u8 yes, u8 no) { return (mask & yes) | (~mask & no); }

}  // namespace
}  // namespace cg
