// Transposes of eight numbers by eight and by four.
#pragma once

#include "simd/vector.inl.h"

namespace cg {
namespace {

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

}  // namespace
}  // namespace cg
