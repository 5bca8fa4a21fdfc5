// Panels of cells packed from the tile, [step][column]: im2col of one block.
#pragma once

#include "simd/vector.inl.h"

namespace cg {
namespace {

// Eight neighbouring columns of a packed panel: one run of the tile, two runs, or anything.
struct Eight {
    int first, second, split;
};
enum { ONE_RUN = 8, ANY_RUNS = -1, BEYOND = -2 };

// `exact`: nothing may be read beyond the last pixel.
static void describe_columns(const int* pixel, index_t count, index_t padded, bool exact, Eight* eights) {
    for (index_t i = 0; i < padded; i += 8) {
        Eight e{0, 0, BEYOND};
        if (i < count && exact && count - i < 8) {
            e.split = ANY_RUNS;
        } else if (i < count) {
            const int have = int(min(8, count - i));
            int run = 1;
            while (run < have && pixel[i + run] == pixel[i] + run) ++run;
            e.first = pixel[i];
            e.split = ONE_RUN;
            if (run < have) {
                e.second = pixel[i + run] - run;
                e.split = run;
                for (int j = run; j < have; ++j)
                    if (pixel[i + j] != e.second + j) e.split = ANY_RUNS;
            }
        }
        eights[i / 8] = e;
    }
}

static void pack_panels(const float* tile, const int* offset, index_t k_steps, const int* pixel, index_t count,
                        index_t padded, const Eight* eights, index_t panel, float* to) {
    for (index_t i = 0; i < padded; i += 8) {
        const Eight& e = eights[i / 8];
        float* out = to + i / panel * panel * k_steps + i % panel;
        if (e.split == ONE_RUN) {
            const float* from = tile + e.first;
            for (index_t k = 0; k < k_steps; ++k) store8(out + k * panel, load8(from + offset[k]));
        } else if (e.split > 0) {
            u8 first;
            for (int j = 0; j < 8; ++j) first[j] = j < e.split ? ~0u : 0u;
            const float *from = tile + e.first, *then = tile + e.second;
            for (index_t k = 0; k < k_steps; ++k)
                store8(out + k * panel, (v8)select8(first, (u8)load8(from + offset[k]), (u8)load8(then + offset[k])));
        } else if (e.split == BEYOND) {
            for (index_t k = 0; k < k_steps; ++k) store8(out + k * panel, v8{});
        } else {
            int at[8];
            for (int j = 0; j < 8; ++j) at[j] = pixel[min(i + j, count - 1)];
            for (index_t k = 0; k < k_steps; ++k) {
                const float* from = tile + offset[k];
                for (int j = 0; j < 8; ++j) out[k * panel + j] = from[at[j]];
            }
        }
    }
}

}  // namespace
}  // namespace cg
