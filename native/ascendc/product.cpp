// The cube's product of one tile in float32: `chunk` of k after `chunk`, each chunk summed in order of k, then added to
// the tile. Products are rounded before they are added (no fused multiply-add), so every instruction set gives the same
// bits.
#include <algorithm>
#include <cstring>

#include "convgrad_tile.h"

namespace convgrad {
namespace tile {
namespace {

constexpr int64_t kColumns = 16;  // a tile has whole blocks of 16 columns
typedef float Sixteen __attribute__((vector_size(64)));

struct Matrices {
    const float *a, *b;
    int64_t rows, k, columns, chunk;
    float* c;
    bool overwrite;
};

// `kRows` rows by 16 columns: the sums of a chunk stay in registers.
template <int kRows>
__attribute__((always_inline)) inline void block(const Matrices& m, int64_t row, int64_t column, int64_t first,
                                                 int64_t last) {
    Sixteen sum[kRows];
    for (int r = 0; r < kRows; ++r) sum[r] = Sixteen{};
    const float* b = m.b + column;
    for (int64_t k = first; k < last; ++k) {
        Sixteen values;
        std::memcpy(&values, b + k * m.columns, sizeof values);
        for (int r = 0; r < kRows; ++r) sum[r] += m.a[(row + r) * m.k + k] * values;
    }
    for (int r = 0; r < kRows; ++r) {
        float* to = m.c + (row + r) * m.columns + column;
        Sixteen before;
        std::memcpy(&before, to, sizeof before);
        if (!(m.overwrite && first == 0)) sum[r] = before + sum[r];
        std::memcpy(to, &sum[r], sizeof before);
    }
}

template <int kRows> __attribute__((always_inline)) inline void all_blocks(const Matrices& m) {
    for (int64_t first = 0; first < m.k; first += m.chunk) {
        const int64_t last = std::min(m.k, first + m.chunk);
        for (int64_t column = 0; column < m.columns; column += kColumns) {
            int64_t row = 0;
            for (; row + kRows <= m.rows; row += kRows) block<kRows>(m, row, column, first, last);
            for (; row < m.rows; ++row) block<1>(m, row, column, first, last);
        }
    }
}

void plain_product(const Matrices& m) { all_blocks<2>(m); }
#if defined(__x86_64__)
__attribute__((target("avx2"))) void avx2_product(const Matrices& m) { all_blocks<6>(m); }
__attribute__((target("avx512f"))) void avx512_product(const Matrices& m) { all_blocks<12>(m); }
#endif

}  // namespace
}  // namespace tile
}  // namespace convgrad

using namespace convgrad::tile;

extern "C" int cgt_product(const float* a, const float* b, int64_t rows, int64_t k, int64_t columns, int64_t chunk,
                           int overwrite, float* c) {
    if (rows < 0 || k < 1 || columns < 0 || columns % kColumns || chunk < 1) return CGT_REFUSED;
    const Matrices m{a, b, rows, k, columns, chunk, c, overwrite != 0};
#if defined(__x86_64__)
    static void (*const product)(const Matrices&) = __builtin_cpu_supports("avx512f") ? avx512_product
                                                    : __builtin_cpu_supports("avx2")  ? avx2_product
                                                                                      : plain_product;
    product(m);
#else
    plain_product(m);
#endif
    return CGT_OK;
}
