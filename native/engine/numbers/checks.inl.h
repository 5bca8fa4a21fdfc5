// What is seen of numbers while they are copied: whether all are finite, and whether pairs of bfloat16 stay exact.
#pragma once

#include "simd/vector.inl.h"

namespace cg {
namespace {

// The largest magnitude of what was read, as bits: those of inf, and above them NaN, are the largest of all. In whole
// numbers, for a chain of multiply-adds would take four times as long as the copy that is checked.
enum : uint32_t { INF_BITS = 0x7f800000u };
struct FiniteCheck {
    u8 largest = u8{};
    INLINE void see(v8 v) { largest = larger8(largest, (u8)v & 0x7fffffffu); }
    INLINE void see(float v) { see(broadcast8(v)); }
    INLINE bool below(uint32_t bits) const {
        bool all = true;
        for (int i = 0; i < 8; ++i) all &= largest[i] < bits;
        return all;
    }
};

static bool all_finite(const float* p, index_t count) {
    FiniteCheck check;
    index_t i = 0;
    for (; i + 8 <= count; i += 8) check.see(load8(p + i));
    for (; i < count; ++i) check.see(p[i]);
    return check.below(INF_BITS);
}

// The smallest magnitude but zero of what was paired. Products of numbers from 2^a and 2^b up, of eight bits each, are
// multiples of 2^(a + b - 14), and so are their sums: where that is no subnormal, none ever turns up.
struct PairCheck {
    uf min_bits = uf{} - 2u;  // of |x| less one unit: zero is the largest then
    INLINE void see(uf v) { min_bits = smaller(min_bits, (v & 0x7fffffffu) - 1u); }
    INLINE void merge_into(int* smallest) const {  // shared by all tasks
        uint32_t bits = ~0u;
        for (int i = 0; i < LANES; ++i) bits = min_bits[i] < bits ? min_bits[i] : bits;
        const int exponent = int((bits + 1u) >> 23);
        int seen = __atomic_load_n(smallest, __ATOMIC_RELAXED);
        while (exponent < seen &&
               !__atomic_compare_exchange_n(smallest, &seen, exponent, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
    }
};
enum { LARGEST_EXPONENT = 255 };
static INLINE bool pairs_are_exact(int exponent, int other) {  // biased by 127 each
    return exponent > 0 && other > 0 && exponent + other - 2 * 127 - 14 >= -126;
}

static INLINE vf pair_of(vf first, vf second) { return (vf)((uf)first | (uf)second >> 16); }

// to[i] = the pair (first[i], second[i]); `to` may be `first`. Without `second` it is (first[i], 0).
static void pair_up(const float* first, const float* second, index_t count, float* to, PairCheck* check) {
    PairCheck seen = *check;
    index_t i = 0;
    if (second == nullptr) {
        for (; i + LANES <= count; i += LANES) {
            seen.see((uf)load(first + i));
            store(to + i, load(first + i));
        }
    } else {
        for (; i + LANES <= count; i += LANES) {
            const vf a = load(first + i), b = load(second + i);
            seen.see((uf)a);
            seen.see((uf)b);
            store(to + i, pair_of(a, b));
        }
    }
    for (; i < count; ++i) {
        const vf a = broadcast(first[i]), b = second == nullptr ? vf{} : broadcast(second[i]);
        seen.see((uf)a);
        seen.see((uf)b);
        const vf v = pair_of(a, b);
        __builtin_memcpy(to + i, &v, 4);
    }
    *check = seen;
}

}  // namespace
}  // namespace cg
