// The data contractions as an implicit matrix product: rows = output channels, columns = output pixels,
// reduction = source channels x taps.
//
//   C[m, pixel] = sum over (r, tap)  weight[r, m, tap] * tile[r][pixel + offset(tap)]
//
// Each element of C is a sum of chains of multiply-adds. Channels follow each other in pairs (where the plan says so):
// for every tap the first and the second channel, so that where both operands are bfloat16, or have no more bits, a
// pair can be one 32-bit element and one multiplication. Chains begin at channels that depend on the problem only: how
// pixels and output channels are distributed over tasks cannot show.
#pragma once

#include "blocking/blocking_numbers.h"
#include "simd/vector.inl.h"

namespace cg {
namespace {

enum {
    ISA_MR = LANES == 16 ? MR_OF_32_REGISTERS : MR_OF_16_REGISTERS
};  // of a panel two vectors wide, as the plan says

// One step of a reduction that reads the tile itself: which weights meet which cells.
struct Step {
    int weight, cell;
};

// Where the microkernel finds its operands: both packed; cells in the tile, with all of the packed weights or with
// those of some taps; cells in the tile and weights in their tensor.
enum Reading { PACKED_BOTH, ALL_WEIGHTS, SOME_WEIGHTS, WEIGHTS_IN_PLACE, READINGS };

// Where in a K block of `k_channels` channels the step of a channel and a tap stands.
static INLINE index_t step_number(index_t k_channels, index_t taps, bool paired, index_t channel, index_t tap) {
    const bool alone = !paired || channel == k_channels / 2 * 2;
    return alone ? channel * taps + tap : (channel / 2 * taps + tap) * 2 + channel % 2;
}

// c += a * b for one step of the reduction. A step that begins a chain adds what c held to C first: each vector of c is
// free again before the next one is spilled, so that this costs next to nothing.
template <int MR, int NV, bool PAIRS, bool BEGINS>
static INLINE void gather_step(const float* w, index_t a_row, const float* b, vf (&c)[MR][NV], float* C,
                               index_t c_row) {
    if (MR < NV) {  // hold the broadcasts and stream B: MR*NV + MR + 1 registers
        vf a[MR];
        UNROLL for (int i = 0; i < MR; ++i) a[i] = operand<PAIRS>(w + i * a_row);
        UNROLL for (int j = 0; j < NV; ++j) {
            const vf x = load(b + j * LANES);
            UNROLL for (int i = 0; i < MR; ++i) {
                float* p = C + i * c_row + j * LANES;
                if (BEGINS) store(p, load(p) + c[i][j]);
                c[i][j] = BEGINS ? multiply<PAIRS>(a[i], x) : multiply_add<PAIRS>(a[i], x, c[i][j]);
            }
        }
    } else {  // hold B and stream the broadcasts: MR*NV + NV + 1 registers
        vf x[NV];
        UNROLL for (int j = 0; j < NV; ++j) x[j] = load(b + j * LANES);
        UNROLL for (int i = 0; i < MR; ++i) {
            const vf a = operand<PAIRS>(w + i * a_row);
            UNROLL for (int j = 0; j < NV; ++j) {
                float* p = C + i * c_row + j * LANES;
                if (BEGINS) store(p, load(p) + c[i][j]);
                c[i][j] = BEGINS ? multiply<PAIRS>(a, x[j]) : multiply_add<PAIRS>(a, x[j], c[i][j]);
            }
        }
    }
}

// What the microkernel is told once for a column of panels.
struct PanelColumn {
    index_t k_steps, chain;  // steps of the reduction; of a chain of multiply-adds
    const Step* steps;
    index_t a_row, a_panel;  // from one row of weights read in place, and from one panel of any, to the next
    index_t c_row, to_row;   // from one row of sums, and of results, to the next
    bool add;                // to the sums of the K blocks before
};

// to[MR][NV*LANES] = (C[MR][NV*LANES] +) sum_k A[k][MR] * B[k][NV*LANES]. The error of a sum grows with its longest
// chain. Chains but the last are added to C; `to` is C itself or, for the last K block, the result.
template <int MR, int NV, int READING, bool PAIRS>
static INLINE void gather_panel(const PanelColumn& panel, const float* __restrict A, const float* __restrict B,
                                float* C, float* to) {
    const index_t k_steps = panel.k_steps, chain = panel.chain, c_row = panel.c_row, to_row = panel.to_row;
    const index_t a_row = READING == WEIGHTS_IN_PLACE ? panel.a_row : 1;
    const Step* __restrict steps = panel.steps;
    const bool zero_first = !panel.add && k_steps > chain, add = panel.add || zero_first;
    // The sums so far wait in L2, and their places in memory, while this block is added up. A result begins anywhere in
    // a cache line: what the panel before wrote is here, what this one ends in may not be.
    UNROLL for (int i = 0; i < MR; ++i) UNROLL for (int j = 0; j < NV; ++j) {
        if (zero_first) store(C + i * c_row + j * LANES, vf{});
        else if (add && j * LANES % 16 == 0) __builtin_prefetch(C + i * c_row + j * LANES, 1);
        if ((j + 1) * LANES % 16 == 0 || j + 1 == NV) __builtin_prefetch(to + i * to_row + (j + 1) * LANES - 1, 1);
    }
    vf c[MR][NV];
    UNROLL for (int i = 0; i < MR; ++i) UNROLL for (int j = 0; j < NV; ++j) c[i][j] = vf{};
    const auto weights = [&](index_t k) {
        return READING == WEIGHTS_IN_PLACE ? A + steps[k].weight
               : READING == SOME_WEIGHTS   ? A + index_t(steps[k].weight) * MR
                                           : A + k * MR;
    };
    const auto cells = [&](index_t k) { return READING == PACKED_BOTH ? B + k * (NV * LANES) : B + steps[k].cell; };
    index_t k = 0;
    index_t end = min(k_steps, chain);
#pragma GCC unroll 2
    for (; k < end; ++k) gather_step<MR, NV, PAIRS, false>(weights(k), a_row, cells(k), c, C, c_row);
    while (k < k_steps) {
        end = min(k_steps, k + chain);
        gather_step<MR, NV, PAIRS, true>(weights(k), a_row, cells(k), c, C, c_row);
        ++k;
#pragma GCC unroll 2
        for (; k < end; ++k) gather_step<MR, NV, PAIRS, false>(weights(k), a_row, cells(k), c, C, c_row);
    }
    UNROLL for (int i = 0; i < MR; ++i) UNROLL for (int j = 0; j < NV; ++j) {
        const float* p = C + i * c_row + j * LANES;
        store(to + i * to_row + j * LANES, add ? load(p) + c[i][j] : c[i][j]);
    }
}

// Runs one MR x NR panel, or a column of panels that share B. Batching them saves the call overhead, measured at 1 to 3
// %.
typedef void (*GatherKernel)(const PanelColumn&, index_t, const float*, const float*, float*, float*);

template <int MR, int NV, int READING, bool PAIRS>
static void gather_kernel(const PanelColumn& panel, index_t, const float* A, const float* B, float* C, float* to) {
    gather_panel<MR, NV, READING, PAIRS>(panel, A, B, C, to);
}

template <int MR, int NV, int READING, bool PAIRS>
static void gather_panels(const PanelColumn& panel, index_t panels, const float* A, const float* B, float* C,
                          float* to) {
    for (index_t i = 0; i < panels; ++i)
        gather_panel<MR, NV, READING, PAIRS>(panel, A + i * panel.a_panel, B, C + i * MR * panel.c_row,
                                             to + i * MR * panel.to_row);
}

template <int READING, bool PAIRS> static GatherKernel gather_kernel_for(int rows, int vectors) {
// clang-format off
#define KERNEL(MR, NV) \
    if (rows == MR && vectors == NV) return gather_kernel<MR, NV, READING, PAIRS>;
    KERNEL(8, 1) KERNEL(7, 1) KERNEL(6, 1) KERNEL(5, 1) KERNEL(4, 1) KERNEL(3, 1) KERNEL(2, 1) KERNEL(1, 1)
    KERNEL(8, 2) KERNEL(7, 2) KERNEL(6, 2) KERNEL(5, 2) KERNEL(4, 2) KERNEL(3, 2) KERNEL(2, 2) KERNEL(1, 2)
    KERNEL(4, 3) KERNEL(3, 3) KERNEL(2, 3) KERNEL(1, 3)
    KERNEL(3, 4) KERNEL(2, 6) KERNEL(1, 8)
#undef KERNEL
        // clang-format on
        return nullptr;
}

// Up to three rows are one panel: only the other register tiles come one below the other.
template <int READING, bool PAIRS> static GatherKernel gather_panels_for(int rows, int vectors) {
    if (rows == ISA_MR && vectors == 2) return gather_panels<ISA_MR, 2, READING, PAIRS>;
    if (rows == ISA_MR && vectors == 1) return gather_panels<ISA_MR, 1, READING, PAIRS>;
    if (rows == 4 && vectors == 2) return gather_panels<4, 2, READING, PAIRS>;
    if (rows == 4 && vectors == 3) return gather_panels<4, 3, READING, PAIRS>;
    return nullptr;
}

}  // namespace
}  // namespace cg
