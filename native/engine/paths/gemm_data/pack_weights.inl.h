// Panels of weights, [step][row].
#pragma once

#include "paths/gemm_data/run.inl.h"
#include "tasks.inl.h"

namespace cg {
namespace {

// The first COUNT of eight.
template <int COUNT> static INLINE void store_first(float* p, v8 v) {
    if (COUNT == 8) return store8(p, v);
    if (COUNT >= 4) {
        __builtin_memcpy(p, &v, 16);
        p += 4;
        v = __builtin_shufflevector(v, v, 4, 5, 6, 7, 4, 5, 6, 7);
    }
    if (COUNT % 4 >= 2) {
        __builtin_memcpy(p, &v, 8);
        p += 2;
        v = __builtin_shufflevector(v, v, 2, 3, 2, 3, 2, 3, 2, 3);
    }
    if (COUNT % 2 == 1) *p = v[0];
}

// Where the taps of a channel lie from the first one on.
struct TapPlaces {
    index_t count;
    index_t reach;  // elements from the first tap to the farthest; 0 where one lies before the first
    bool side_by_side;
    index_t at[MAX_TAPS];
};

// out[t*step][i] = from[i*row + taps.at[t]]
template <int ROWS>
static void transpose_rows(const float* from, index_t row, const TapPlaces& taps, float* out, index_t step) {
    const index_t count = taps.count;
    index_t t = 0;
    if (taps.side_by_side) {
        for (; t + 8 <= count; t += 8) {
            v8 v[8] = {};
            UNROLL for (int i = 0; i < ROWS; ++i) v[i] = load8(from + i * row + t);
            transpose8(v);
            UNROLL for (int k = 0; k < 8; ++k) store_first<ROWS>(out + (t + k) * step * ROWS, v[k]);
        }
        for (; t + 4 <= count; t += 4) {
            v8 v[8] = {}, columns[4];
            UNROLL for (int i = 0; i < ROWS; ++i) v[i] = load_four(from + i * row + t);
            transpose8x4(v, columns);
            UNROLL for (int k = 0; k < 4; ++k) store_first<ROWS>(out + (t + k) * step * ROWS, columns[k]);
        }
        for (; ROWS >= 4 && t + 2 <= count; t += 2) {
            const v8 v = load_four_pairs(from + t, row);
            float *first = out + t * step * ROWS, *second = first + step * ROWS;
            store_first<4>(first, __builtin_shufflevector(v, v, 0, 2, 4, 6, 0, 2, 4, 6));
            store_first<4>(second, __builtin_shufflevector(v, v, 1, 3, 5, 7, 1, 3, 5, 7));
            UNROLL for (int i = 4; i < ROWS; ++i) {
                first[i] = from[i * row + t];
                second[i] = from[i * row + t + 1];
            }
        }
    }
    for (; t < count; ++t) UNROLL for (int i = 0; i < ROWS; ++i) out[t * step * ROWS + i] = from[i * row + taps.at[t]];
}

static void transpose_rows_any(index_t height, const float* from, index_t row, const TapPlaces& taps, float* out,
                               index_t step) {
    switch (height) {
    case 1: return transpose_rows<1>(from, row, taps, out, step);
    case 2: return transpose_rows<2>(from, row, taps, out, step);
    case 3: return transpose_rows<3>(from, row, taps, out, step);
    case 4: return transpose_rows<4>(from, row, taps, out, step);
    case 5: return transpose_rows<5>(from, row, taps, out, step);
    case 6: return transpose_rows<6>(from, row, taps, out, step);
    case 7: return transpose_rows<7>(from, row, taps, out, step);
    default: return transpose_rows<8>(from, row, taps, out, step);
    }
}

static INLINE index_t weight_offset(const Gather& g, const AxisTaps taps[3], index_t z, index_t y, index_t x) {
    return (taps[0].first_tap + z * taps[0].tap_step) * g.weight_tap[0] +
           (taps[1].first_tap + y * taps[1].tap_step) * g.weight_tap[1] +
           (taps[2].first_tap + x * taps[2].tap_step) * g.weight_tap[2];
}

// What packing saw of the weights.
struct WeightReport {
    bool finite = true;
    PairCheck pairs;
    void note(GatherRun* run) const {
        if (!finite) raise_flag(&run->weight_broken);
        pairs.merge_into(&run->smallest_weight);
    }
};

// One tap whose rows lie side by side: whole panels, many rows converted at a time. Says how many rows it packed.
static index_t pack_side_by_side(const GatherRun& run, index_t at, index_t rows, index_t k_channels, float* to,
                                 WeightReport* report) {
    enum { ROWS = 480 };
    const Source& w = run.weight;
    const index_t whole = run.pass.mr == ISA_MR ? rows / ISA_MR * ISA_MR : 0;
    const index_t channels = run.in_pairs ? 2 : 1, packed = ceil_div(k_channels, channels);
    float line[2][ROWS];
    for (index_t begin = 0; begin < whole; begin += ROWS) {
        const index_t count = min(ROWS, whole - begin);
        for (index_t r = 0; r < k_channels; r += channels) {
            const index_t first = at + begin + r * run.g.weight_in;
            const float* from = (const float*)w.tensor->data + first;
            if (w.kind != LOAD_F32) {
                report->finite &= w.rows(w, first, 1, 0, count, 1, line[0], 0);
                from = line[0];
            } else {
                report->finite &= all_finite(from, count);
            }
            if (run.in_pairs) {
                const bool second = r + 1 < k_channels;
                if (second) report->finite &= w.rows(w, first + run.g.weight_in, 1, 0, count, 1, line[1], 0);
                pair_up(line[0], second ? line[1] : nullptr, count, line[0], &report->pairs);
            }
            float* panel = to + begin * packed + r / channels * ISA_MR;
            for (index_t i = 0; i < count; i += ISA_MR, panel += ISA_MR * packed)
                __builtin_memcpy(panel, from + i, ISA_MR * 4);
        }
    }
    return whole;
}

// A panel of `height` rows: [step][row], steps as step_number says.
static void pack_panel(const GatherRun& run, index_t at, index_t height, index_t k_channels, const TapPlaces& taps,
                       float* panel) {
    const Gather& g = run.g;
    const Source& w = run.weight;
    const index_t count = taps.count, reach = taps.reach;
    float line[MAX_MR * MAX_TAPS];
    // Taps of other dtypes are converted in one row where they are neighbours, one by one otherwise.
    const bool in_place = w.kind == LOAD_F32;
    const bool neighbours = reach >= count && reach <= MAX_TAPS && g.weight_tap[2] == 1;
    const bool paired = run.pass.paired;
    if (!in_place && g.weight_in == 1 && k_channels > 1) {  // channels to be reduced lie side by side
        for (index_t t = 0; t < count; ++t) {
            w.rows(w, at + taps.at[t], height, g.weight_out, k_channels, 1, line, k_channels);
            for (index_t r = 0; r < k_channels; ++r)
                for (index_t i = 0; i < height; ++i)
                    panel[step_number(k_channels, count, paired, r, t) * height + i] = line[i * k_channels + r];
        }
        return;
    }
    for (index_t r = 0; r < k_channels; ++r) {
        const index_t step = paired && r < k_channels / 2 * 2 ? 2 : 1, from = at + r * g.weight_in;
        float* out = panel + step_number(k_channels, count, paired, r, 0) * height;
        if (in_place) {
            const float* weights = (const float*)w.tensor->data + from;
            // Software prefetch, six channels on: their stride is too large for hardware prefetchers.
            const index_t to_come = r + 6 < k_channels ? 6 * g.weight_in : 0;
            const uintptr_t later = (uintptr_t)(weights + to_come);  // may reach beyond the last weight
            for (index_t i = 0; i < height * count * 4; i += 64) __builtin_prefetch((const void*)(later + size_t(i)));
            transpose_rows_any(height, weights, g.weight_out, taps, out, step);
        } else if (neighbours && count > 1) {
            w.rows(w, from, height, g.weight_out, reach, 1, line, reach);
            transpose_rows_any(height, line, reach, taps, out, step);
        } else {
            for (index_t t = 0; t < count; ++t)
                w.rows(w, from + taps.at[t], 1, 0, height, g.weight_out, out + t * step * height, 0);
        }
    }
}

// Pairs of channels of a panel become bf16 pairs. A last channel without another is paired with zero.
static void pair_panel(index_t height, index_t k_channels, index_t taps, const float* panel, float* to,
                       PairCheck* check) {
    const index_t pairs = k_channels / 2 * taps;
    if (2 * height == LANES) {  // both rows in one vector
        PairCheck seen = *check;
        for (index_t i = 0; i < pairs; ++i) {
            const float* both = panel + i * LANES;
            seen.see((uf)load(both));
            store8(to + i * 8, (v8)((u8)load8(both) | (u8)load8(both + 8) >> 16));
        }
        *check = seen;
    } else {
        for (index_t i = 0; i < pairs; ++i)
            pair_up(panel + 2 * i * height, panel + (2 * i + 1) * height, height, to + i * height, check);
    }
    if (k_channels % 2 != 0) pair_up(panel + 2 * pairs * height, nullptr, taps * height, to + pairs * height, check);
}

static TapPlaces tap_places(const Gather& g, const AxisTaps taps[3], index_t first) {
    TapPlaces places;
    places.count = 0;
    places.side_by_side = true;
    index_t low = 0, high = 0;  // strides of either sign: the last tap is not always the farthest
    for (index_t z = 0; z < taps[0].count; ++z)
        for (index_t y = 0; y < taps[1].count; ++y)
            for (index_t x = 0; x < taps[2].count; ++x) {
                const index_t at = weight_offset(g, taps, z, y, x) - first;
                places.side_by_side &= at == places.count;
                places.at[places.count++] = at;
                low = min(low, at);
                high = max(high, at);
            }
    places.reach = low < 0 ? 0 : high + 1;
    return places;
}

// Rows of a chunk that are packed together: whole panels, and the rest of the chunk.
struct PackedRows {
    index_t chunk, begin, end;
};

// to = for each class: for each panel of the chunk: its steps. The chunk begins at row `first` of a group.
static WeightReport pack_weights(const GatherRun& run, index_t group, index_t first, const PackedRows& rows,
                                 const KBlock& k, float* to) {
    const Gather& g = run.g;
    const index_t k_channels = k.end - k.begin;
    float unpaired[MAX_MR * MAX_TAPS];  // a panel before its channels are paired: a K block has no more steps
    WeightReport report;
    for (int c = 0; c < run.pass.classes.count; ++c) {
        AxisTaps taps[3];
        class_taps(run.pass, k, c, taps);
        const index_t count = tap_count(taps);
        if (count == 0) continue;
        const index_t first_tap = weight_offset(g, taps, 0, 0, 0);
        const TapPlaces places = tap_places(g, taps, first_tap);
        const index_t at = group * g.weight_group + first * g.weight_out + k.begin * g.weight_in + first_tap;
        const index_t packed = run.in_pairs ? ceil_div(k_channels, 2) * count : k_channels * count;
        index_t row = rows.begin;
        if (count == 1 && g.weight_out == 1)
            row += pack_side_by_side(run, at + row, rows.end - row, k_channels, to + row * packed, &report);
        for (; row < rows.end; row += run.pass.mr) {
            const index_t height = min(run.pass.mr, rows.end - row);
            float* panel = run.in_pairs ? unpaired : to + row * packed;
            pack_panel(run, at + row * g.weight_out, height, k_channels, places, panel);
            report.finite &= all_finite(panel, height * k_channels * count);
            if (run.in_pairs) pair_panel(height, k_channels, count, unpaired, to + row * packed, &report.pairs);
        }
        to += rows.chunk * k_channels * count;
    }
    return report;
}

}  // namespace
}  // namespace cg
