// From stored elements to float32, in rows, planes and transposes; any strides.
#pragma once

#include "numbers/checks.inl.h"
#include "numbers/formats.h"
#include "simd/transpose.inl.h"

namespace cg {
namespace {

constexpr bool is_hf32(int kind) { return kind == LOAD_HF32_11 || kind == LOAD_HF32_10; }

// Bytes of a stored element; of LOAD_ANY it is the dtype that tells.
constexpr size_t stored_bytes(int kind) {
    return kind == LOAD_F64 ? 8 : kind == LOAD_BYTE ? 1 : kind == LOAD_BF16 || kind == LOAD_F16 ? 2 : 4;
}

// The smallest magnitude, as float32 has it, that narrowing makes inf.
constexpr uint32_t becomes_inf(int kind) {
    return kind == LOAD_HF32_11       ? INF_BITS - (1u << 11)
           : kind == LOAD_HF32_10     ? INF_BITS - (1u << 12)
           : kind == LOAD_F32_AS_BF16 ? INF_BITS - (1u << 15)
           : kind == LOAD_F32_AS_F16  ? 0x477ff000u  // 65520, halfway to 2^16
                                      : INF_BITS;
}

// Elements as float32 has them (`stored`), and narrowed to the operand's format. HF32 without KEEPS_NAN takes half the
// steps, but makes numbers of NaNs: for whoever looks for them.
template <int KIND, bool KEEPS_NAN = true> struct Loader {
    const char* data;
    const float* table;
    int dtype, cast;

    INLINE float one(index_t i) const { return narrowed(stored_one(i)); }
    INLINE v8 eight(index_t i) const { return narrowed(stored_eight(i)); }

    INLINE float stored_one(index_t i) const {
        if (KIND == LOAD_F64) return float(((const double*)data)[i]);
        if (KIND == LOAD_BYTE) return table[((const uint8_t*)data)[i]];
        if (KIND == LOAD_ANY) return float(round_to(cast, load_as_double(data, i, dtype)));
        if (KIND == LOAD_BF16) {
            const uint32_t bits = uint32_t(((const uint16_t*)data)[i]) << 16;
            float v;
            __builtin_memcpy(&v, &bits, 4);
            return v;
        }
        if (KIND == LOAD_F16) return from_half8(h8{((const uint16_t*)data)[i]})[0];
        return ((const float*)data)[i];
    }
    INLINE float narrowed(float v) const { return narrowed(broadcast8(v))[0]; }
    INLINE v8 narrowed(v8 v) const {
        if (KIND == LOAD_HF32_11) return shorten8<12, KEEPS_NAN>(v);
        if (KIND == LOAD_HF32_10) return shorten8<13, KEEPS_NAN>(v);
        if (KIND == LOAD_F32_AS_BF16) return (v8)(bfloat_bits(v) << 16);
        if (KIND == LOAD_F32_AS_F16) {
            alignas(32) uint16_t half[8];
            to_half8(half, v);
            return from_half8(load_halves(half));
        }
        return v;
    }
    INLINE v8 stored_eight(index_t i) const {
        if (KIND == LOAD_F16) return from_half8(load_halves((const uint16_t*)data + i));
        if (KIND == LOAD_BF16) return from_bfloat8(load_halves((const uint16_t*)data + i));
        if (KIND == LOAD_F32 || KIND == LOAD_HF32_11 || KIND == LOAD_HF32_10 || KIND == LOAD_F32_AS_F16 ||
            KIND == LOAD_F32_AS_BF16)
            return load8((const float*)data + i);
        v8 v;
        UNROLL for (int j = 0; j < 8; ++j) v[j] = stored_one(i + j);
        return v;
    }
    // Sixteen from element i on: those in even places and those in odd ones.
    INLINE void stored_pairs(index_t i, v8* even, v8* odd) const {
        if (KIND == LOAD_BF16) {
            const u8 words = load_words((const uint16_t*)data + i);  // of two numbers
            *even = (v8)(words << 16);
            *odd = (v8)(words & 0xffff0000u);
        } else {
            const v8 low = stored_eight(i), high = stored_eight(i + 8);
            // In two steps that are one instruction each: within halves, then pairs across them.
            const v8 evens = __builtin_shufflevector(low, high, 0, 2, 8, 10, 4, 6, 12, 14);
            const v8 odds = __builtin_shufflevector(low, high, 1, 3, 9, 11, 5, 7, 13, 15);
            *even = __builtin_shufflevector(evens, evens, 0, 1, 4, 5, 2, 3, 6, 7);
            *odd = __builtin_shufflevector(odds, odds, 0, 1, 4, 5, 2, 3, 6, 7);
        }
    }
    INLINE v8 stored_four(index_t i) const {  // and zeros
        if (KIND == LOAD_F16) return from_half8(load_four_halves((const uint16_t*)data + i));
        if (KIND == LOAD_BF16) return from_bfloat8(load_four_halves((const uint16_t*)data + i));
        if (KIND == LOAD_BYTE || KIND == LOAD_F64 || KIND == LOAD_ANY)
            return v8{stored_one(i), stored_one(i + 1), stored_one(i + 2), stored_one(i + 3), 0, 0, 0, 0};
        return load_four((const float*)data + i);
    }
};

// A tensor with its conversions chosen.
struct Source {
    const cg_tensor* tensor;
    const float* table;
    int kind;
    // to[r*to_row + c] = element(at + r*row + c*column); says whether all values were finite
    bool (*rows)(const Source&, index_t at, index_t rows, index_t row, index_t columns, index_t column, float* to,
                 index_t to_row);
    // to[c*to_row + r] = element(at + r*row + c): the unit-stride axis of the source becomes the slow one
    bool (*transposed)(const Source&, index_t at, index_t rows, index_t row, index_t columns, float* to,
                       index_t to_row);
    // even[r*to_row + c] = element(at + r*row + 2*c), odd[...] = the one after it; what lies `next` elements from there
    // is prefetched meanwhile
    bool (*pairs)(const Source&, index_t at, index_t rows, index_t row, index_t columns, float* even, float* odd,
                  index_t to_row, index_t next);
    float (*one)(const Source&, index_t at);
};

template <int KIND, bool KEEPS_NAN = true> static INLINE Loader<KIND, KEEPS_NAN> loader(const Source& s) {
    return Loader<KIND, KEEPS_NAN>{(const char*)s.tensor->data, s.table, s.tensor->dtype, s.tensor->cast};
}

// What a copy reads: narrowed, and checked as it was stored. One that met a NaN it does not keep is made again.
template <int KIND, bool KEEPS_NAN> struct Copier {
    const Loader<KIND, KEEPS_NAN> source;
    FiniteCheck check;

    explicit Copier(const Source& s) : source(loader<KIND, KEEPS_NAN>(s)) {}
    INLINE v8 copied(v8 stored) {
        check.see(stored);
        return source.narrowed(stored);
    }
    INLINE v8 eight(index_t i) { return copied(source.stored_eight(i)); }
    INLINE v8 four(index_t i) { return copied(source.stored_four(i)); }
    INLINE float one(index_t i) { return copied(broadcast8(source.stored_one(i)))[0]; }
    INLINE bool lost_nan() const { return !KEEPS_NAN && !check.below(INF_BITS + 1u); }
    INLINE bool finite() const { return check.below(becomes_inf(KIND)); }
};

// Software prefetch of what lies `next` elements after element i. Hardware prefetchers follow a row, and only within a
// page of memory; they do not find the next row.
template <int KIND> static INLINE void prefetch_after(const Source& s, index_t i, index_t next) {
    const size_t at = size_t(i + next) * stored_bytes(KIND);
    if (KIND != LOAD_ANY) __builtin_prefetch((const void*)((uintptr_t)s.tensor->data + at));
}

enum { LONG_ROW = 128 };  // elements: is worth prefetching while the one before it is copied

template <int KIND, bool KEEPS_NAN = !is_hf32(KIND)>
static bool load_rows(const Source& s, index_t at, index_t rows, index_t row, index_t columns, index_t column,
                      float* to, index_t to_row) {
    Copier<KIND, KEEPS_NAN> from(s);
    if (rows > 1 && column == 1 && row == columns && to_row == columns) {  // one run
        columns *= rows;
        rows = 1;
    }
    const bool long_rows = rows > 1 && column == 1 && columns >= LONG_ROW;
    for (index_t r = 0; r < rows; ++r) {
        const index_t line = at + r * row;
        float* out = to + r * to_row;
        index_t c = 0;
        if (column == 1) {
            for (; long_rows && r + 1 < rows && c + 16 <= columns; c += 16) {
                prefetch_after<KIND>(s, line + c, row);
                store8(out + c, from.eight(line + c));
                store8(out + c + 8, from.eight(line + c + 8));
            }
            for (; c + 8 <= columns; c += 8) store8(out + c, from.eight(line + c));
            if (c < columns && columns >= 8) {  // overlap the last vector instead of a scalar tail
                store8(out + columns - 8, from.eight(line + columns - 8));
                continue;
            }
            for (; columns >= 4 && c < columns; c += 4) {
                if (c + 4 > columns) c = columns - 4;
                const v8 v = from.four(line + c);
                __builtin_memcpy(out + c, &v, 16);
            }
        } else if (column == 2) {
            // Sixteen neighbours from two loads that share one element, so as not to pass the last one.
            for (; columns >= 8 && c < columns; c += 8) {
                if (c + 8 > columns) c = columns - 8;
                const v8 low = from.source.stored_eight(line + 2 * c),
                         high = from.source.stored_eight(line + 2 * c + 7);
                store8(out + c, from.copied(__builtin_shufflevector(low, high, 0, 2, 4, 6, 9, 11, 13, 15)));
            }
        }
        for (; c < columns; ++c) out[c] = from.one(line + c * column);
    }
    if (from.lost_nan()) return load_rows<KIND, true>(s, at, rows, row, columns, column, to, to_row);
    return from.finite();
}

template <int KIND, bool KEEPS_NAN = !is_hf32(KIND)>
static bool load_transposed(const Source& s, index_t at, index_t rows, index_t row, index_t columns, float* to,
                            index_t to_row) {
    Copier<KIND, KEEPS_NAN> from(s);
    const auto transpose_at = [&](index_t r, index_t c) {
        v8 v[8];
        UNROLL for (int k = 0; k < 8; ++k) v[k] = from.eight(at + (r + k) * row + c);
        transpose8(v);
        UNROLL for (int k = 0; k < 8; ++k) store8(to + (c + k) * to_row + r, v[k]);
    };
    // Last groups overlap the ones before instead of going one by one.
    index_t r = 0;
    if (rows == to_row && rows % 8 == 0 && columns >= 8) {  // what is written is one run: from its beginning to its end
        for (index_t c = 0; c < columns; c += 8) {
            c = min(c, columns - 8);
            for (r = 0; r < rows; r += 8) transpose_at(r, c);
        }
    }
    for (; rows >= 8 && r < rows; r += 8) {
        if (r + 8 > rows) r = rows - 8;
        index_t c = 0;
        for (; columns >= 8 && c < columns; c += 8) {
            if (c + 8 > columns) c = columns - 8;
            transpose_at(r, c);
        }
        for (; columns >= 4 && c < columns; c += 4) {
            if (c + 4 > columns) c = columns - 4;
            v8 v[8], columns8[4];
            UNROLL for (int k = 0; k < 8; ++k) v[k] = from.four(at + (r + k) * row + c);
            transpose8x4(v, columns8);
            UNROLL for (int k = 0; k < 4; ++k) store8(to + (c + k) * to_row + r, columns8[k]);
        }
        for (; c < columns; ++c)
            for (int k = 0; k < 8; ++k) to[c * to_row + r + k] = from.one(at + (r + k) * row + c);
    }
    for (; r < rows; ++r) {
        index_t c = 0;
        for (; c + 8 <= columns; c += 8) {
            const v8 v = from.eight(at + r * row + c);
            UNROLL for (int k = 0; k < 8; ++k) to[(c + k) * to_row + r] = v[k];
        }
        for (; c < columns; ++c) to[c * to_row + r] = from.one(at + r * row + c);
    }
    if (from.lost_nan()) return load_transposed<KIND, true>(s, at, rows, row, columns, to, to_row);
    return from.finite();
}

template <int KIND, bool KEEPS_NAN = !is_hf32(KIND)>
static bool load_pairs(const Source& s, index_t at, index_t rows, index_t row, index_t columns, float* even, float* odd,
                       index_t to_row, index_t next) {
    Copier<KIND, KEEPS_NAN> from(s);
    for (index_t r = 0; r < rows; ++r) {
        const index_t line = at + r * row, out = r * to_row;
        index_t c = 0;
        for (; columns >= 8 && c < columns; c += 8) {
            if (c + 8 > columns) c = columns - 8;  // overlap the last vectors instead of a scalar tail
            if (next != 0) prefetch_after<KIND>(s, line + 2 * c, next);
            v8 evens, odds;
            from.source.stored_pairs(line + 2 * c, &evens, &odds);
            store8(even + out + c, from.copied(evens));
            store8(odd + out + c, from.copied(odds));
        }
        for (; c < columns; ++c) {
            even[out + c] = from.one(line + 2 * c);
            odd[out + c] = from.one(line + 2 * c + 1);
        }
    }
    if (from.lost_nan()) return load_pairs<KIND, true>(s, at, rows, row, columns, even, odd, to_row, next);
    return from.finite();
}

template <int KIND> static float load_one(const Source& s, index_t at) { return loader<KIND>(s).one(at); }

template <int KIND> static void choose_loads(Source* s) {
    s->rows = load_rows<KIND>;
    s->transposed = load_transposed<KIND>;
    s->pairs = load_pairs<KIND>;
    s->one = load_one<KIND>;
}

static Source make_source(const cg_tensor& t) {
    Source s;
    s.tensor = &t;
    s.table = byte_values(t.dtype);
    s.kind = load_kind(t);
    switch (s.kind) {
    case LOAD_F32: choose_loads<LOAD_F32>(&s); break;
    case LOAD_F16: choose_loads<LOAD_F16>(&s); break;
    case LOAD_BF16: choose_loads<LOAD_BF16>(&s); break;
    case LOAD_HF32_11: choose_loads<LOAD_HF32_11>(&s); break;
    case LOAD_HF32_10: choose_loads<LOAD_HF32_10>(&s); break;
    case LOAD_F32_AS_F16: choose_loads<LOAD_F32_AS_F16>(&s); break;
    case LOAD_F32_AS_BF16: choose_loads<LOAD_F32_AS_BF16>(&s); break;
    case LOAD_BYTE: choose_loads<LOAD_BYTE>(&s); break;
    case LOAD_F64: choose_loads<LOAD_F64>(&s); break;
    default: choose_loads<LOAD_ANY>(&s); break;
    }
    return s;
}

}  // namespace
}  // namespace cg
