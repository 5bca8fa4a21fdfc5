// From float32 to stored elements, in rows, planes and transposes; any strides.
#pragma once

#include "numbers/formats.h"
#include "simd/transpose.inl.h"

namespace cg {
namespace {

template <int KIND> struct Storer {
    char* data;
    const uint8_t* codes;
    int dtype, cast;

    INLINE void one(index_t i, float v) const {
        if (KIND == STORE_F32) ((float*)data)[i] = v;
        else if (KIND == STORE_F64) ((double*)data)[i] = v;
        else if (KIND == STORE_BYTE) {
            uint32_t bits;
            __builtin_memcpy(&bits, &v, 4);
            ((uint8_t*)data)[i] = codes[bits >> 16 | ((bits & 0xffffu) != 0)];
        } else if (KIND == STORE_BF16) {
            ((uint16_t*)data)[i] = uint16_t(bfloat_bits(broadcast8(v))[0]);
        } else if (KIND == STORE_F16) {
            alignas(32) uint16_t half[8];
            to_half8(half, broadcast8(v));
            ((uint16_t*)data)[i] = half[0];
        } else {
            store_from_double(data, i, dtype, round_to(cast, v));
        }
    }
    INLINE void eight(index_t i, v8 v) const {
        if (KIND == STORE_F32) store8((float*)data + i, v);
        else if (KIND == STORE_F16) to_half8((uint16_t*)data + i, v);
        else if (KIND == STORE_BF16) to_bfloat8((uint16_t*)data + i, v);
        else UNROLL for (int j = 0; j < 8; ++j) one(i + j, v[j]);
    }
    INLINE void four(index_t i, v8 v) const {  // the lower half
        if (KIND == STORE_F32) {
            __builtin_memcpy((float*)data + i, &v, 16);
        } else if (KIND == STORE_F16 || KIND == STORE_BF16) {
            alignas(16) uint16_t half[8];
            KIND == STORE_F16 ? to_half8(half, v) : to_bfloat8(half, v);
            __builtin_memcpy((uint16_t*)data + i, half, 8);
        } else {
            UNROLL for (int j = 0; j < 4; ++j) one(i + j, v[j]);
        }
    }
};

struct Target {
    const cg_tensor* tensor;
    const uint8_t* codes;
    int kind;
    // element(at + r*row + c*column) = from[r*from_row + c]
    void (*rows)(const Target&, index_t at, index_t rows, index_t row, index_t columns, index_t column,
                 const float* from, index_t from_row);
    // element(at + c*column + r) = from[r*from_row + c]: rows become the unit-stride axis
    void (*transposed)(const Target&, index_t at, index_t rows, index_t columns, index_t column, const float* from,
                       index_t from_row);
};

template <int KIND> static INLINE Storer<KIND> storer(const Target& t) {
    return Storer<KIND>{(char*)t.tensor->data, t.codes, t.tensor->dtype, t.tensor->cast};
}

template <int KIND>
static void store_rows(const Target& t, index_t at, index_t rows, index_t row, index_t columns, index_t column,
                       const float* from, index_t from_row) {
    const Storer<KIND> to = storer<KIND>(t);
    if (rows > 1 && column == 1 && row == columns && from_row == columns) {  // one run
        columns *= rows;
        rows = 1;
    }
    for (index_t r = 0; r < rows; ++r, at += row, from += from_row) {
        index_t c = 0;
        if (column == 1) {
            for (; c + 8 <= columns; c += 8) to.eight(at + c, load8(from + c));
            if (c < columns && columns >= 8) {
                to.eight(at + columns - 8, load8(from + columns - 8));
                continue;
            }
        }
        for (; c < columns; ++c) to.one(at + c * column, from[c]);
    }
}

template <int KIND>
static void store_transposed(const Target& t, index_t at, index_t rows, index_t columns, index_t column,
                             const float* from, index_t from_row) {
    const Storer<KIND> to = storer<KIND>(t);
    index_t c = 0;
    // Last groups of eight overlap the ones before: they store the same again.
    for (; columns >= 8 && c < columns; c += 8) {
        if (c + 8 > columns) c = columns - 8;
        index_t r = 0;
        for (; rows >= 8 && r < rows; r += 8) {
            if (r + 8 > rows) r = rows - 8;
            v8 v[8];
            UNROLL for (int k = 0; k < 8; ++k) v[k] = load8(from + (r + k) * from_row + c);
            transpose8(v);
            UNROLL for (int k = 0; k < 8; ++k) to.eight(at + (c + k) * column + r, v[k]);
        }
        for (; r + 4 <= rows; r += 4) {
            v8 v[4], rows8[8];
            UNROLL for (int k = 0; k < 4; ++k) v[k] = load8(from + (r + k) * from_row + c);
            transpose4x8(v, rows8);
            UNROLL for (int k = 0; k < 8; ++k) to.four(at + (c + k) * column + r, rows8[k]);
        }
        for (; r < rows; ++r)
            for (int k = 0; k < 8; ++k) to.one(at + (c + k) * column + r, from[r * from_row + c + k]);
    }
    for (; c < columns; ++c)
        for (index_t r = 0; r < rows; ++r) to.one(at + c * column + r, from[r * from_row + c]);
}

template <int KIND> static void choose_stores(Target* t) {
    t->rows = store_rows<KIND>;
    t->transposed = store_transposed<KIND>;
}

static Target make_target(const cg_tensor& tensor) {
    Target t;
    t.tensor = &tensor;
    t.codes = byte_codes(tensor.dtype);
    t.kind = store_kind(tensor);
    switch (t.kind) {
    case STORE_F32: choose_stores<STORE_F32>(&t); break;
    case STORE_F16: choose_stores<STORE_F16>(&t); break;
    case STORE_BF16: choose_stores<STORE_BF16>(&t); break;
    case STORE_BYTE: choose_stores<STORE_BYTE>(&t); break;
    case STORE_F64: choose_stores<STORE_F64>(&t); break;
    default: choose_stores<STORE_ANY>(&t); break;
    }
    return t;
}

}  // namespace
}  // namespace cg
