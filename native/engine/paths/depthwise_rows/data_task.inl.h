// One task of the data gradients: some channels of a block of pixels.
#pragma once

#include "isa.h"
#include "paths/depthwise_rows/data_kernels.inl.h"
#include "paths/gemm_data/pack_weights.inl.h"
#include "paths/gemm_data/passes.inl.h"
#include "paths/gemm_data/prefetch.inl.h"
#include "paths/gemm_data/results.inl.h"
#include "scratch.inl.h"

namespace cg {
namespace {

// Software prefetch of the planes that are read and written next, spread over so many steps.
struct PlanePrefetch {
    Prefetch source, result;
    index_t source_pace = 0, result_pace = 0;

    PlanePrefetch() = default;
    PlanePrefetch(const Prefetch& read, const Prefetch& written, index_t steps)
        : source(read),
          result(written),
          source_pace(ceil_div(read.cache_lines(), max(1, steps))),
          result_pace(ceil_div(written.cache_lines(), max(1, steps))) {}
    INLINE void advance() {
        source.advance<READS>(source_pace);
        result.advance<WRITES>(result_pace);
    }
};

// The first `banded` of the lines. The last band may overlap the one before: it computes the same numbers.
static void correlate_plane(const Correlation& c, const float* w, const float* tile, index_t pitch, index_t lines,
                            index_t banded, index_t width, float* out, index_t out_row, bool add,
                            PlanePrefetch* prefetch) {
    Window window = c.window;
    window.w = w;
    const Band band = band_for(window);
    for (index_t y = 0; y < banded; y += BAND) {
        prefetch->advance();
        const index_t first = min(y, lines - BAND);
        band(window, tile + c.first + first * pitch, pitch, width, out + first * out_row, out_row, add);
    }
}

// Lines below the last band, or all of them: the taps in their own order.
static void correlate_lines(const Correlation& c, const float* w, const float* tile, index_t pitch, index_t begin,
                            index_t end, index_t width, float* out, index_t out_row, bool add) {
    for (index_t y = begin; y < end; ++y) {
        const float* from = tile + y * pitch;
        float* to = out + y * out_row;
        index_t x = 0;
        for (; x + 32 <= width; x += 32) line_any<4>(from + x, c.offsets, c.taps, w, to + x, add);
        in_columns(width - x, 8, [&](index_t i) { line_any<1>(from + x + i, c.offsets, c.taps, w, to + x + i, add); });
    }
}

static void depthwise_task(GatherRun& run, index_t channel_begin, index_t channel_end, index_t block, char* scratch) {
    const Gather& g = run.g;
    const GatherPass& pass = run.pass;
    Box box;
    block_box(pass.blocks, block, &box);
    Tile t;
    shape_tile(box, pass.span, pass.slots, false, &t);
    const index_t lines = box.end[2] - box.begin[2], cells = box.end[3] - box.begin[3];
    const index_t depths = box.end[1] - box.begin[1], units = (box.end[0] - box.begin[0]) * depths;
    const int classes = pass.classes.count;

    const Scratch pieces{scratch};
    float* tile = pieces.at(pass.tile);
    float* sums = pieces.at(pass.accumulators);
    int* offsets = pieces.at(pass.offsets);
    float* flipped = pieces.at(pass.flipped);
    int* planes = pieces.at(pass.planes);
    int* unit_columns = pieces.at(pass.strips);
    float* interleaved = pieces.at(pass.plane);
    Correlation correlation[MAX_CLASSES];
    zero(tile + t.channel, 64);  // read beside the last row, in lanes nobody keeps

    // A float32 result whose rows are contiguous is written in place; otherwise sums are kept, then stored.
    const index_t* st = g.target->stride;
    const index_t k_blocks = run.k_blocks();
    const bool in_place =
        run.target.kind == STORE_F32 && k_blocks == 1 && classes == 1 && st[4] == 1 && g.out_step[2] == 1 && cells >= 8;
    const index_t width = in_place ? cells : ceil_div(cells, 8) * 8;
    const index_t out_row = in_place ? st[3] * g.out_step[1] : width;
    const index_t c_class = units * lines * width;
    for (index_t u = 0; u < units; ++u) unit_columns[u] = int(u * lines * width);

    FillReport report;
    index_t described = -1;
    for (index_t channel = channel_begin; channel < channel_end; ++channel) {
        const float* weights = run.packed + (channel - run.first_chunk) * pass.reduction;
        for (index_t kb = 0; kb < k_blocks; ++kb) {
            const bool padding_zeroed = described == kb;  // the tile is that of the channel before
            if (!padding_zeroed) {
                described = kb;
                const KBlock k = k_block(run, kb);
                place_tile(pass, g, k, &t);
                index_t used = 0;
                for (int c = 0; c < classes; ++c) {
                    AxisTaps taps[3];
                    class_taps(pass, k, c, taps);
                    describe_correlation(t, taps, offsets + used, planes + used, &correlation[c]);
                    correlation[c].banded &= pass.plain_chain == 0 || bands_follow_taps(correlation[c]);
                    used += tap_count(taps);
                }
            }
            fill_tile(run.source, g.source_extent, t, box, channel, 1,
                      pass.classes.per[0] == 1 ? &correlation[0].axis[0] : nullptr, tile, &report, nullptr,
                      padding_zeroed);
            PlanePrefetch prefetch;
            if (channel + 1 < channel_end)
                prefetch =
                    PlanePrefetch(source_prefetch(g, pass, box, t, channel + 1, 1),
                                  result_prefetch(g, pass, box, channel + 1, 1), classes * units * (lines / BAND));
            for (int c = 0; c < classes; ++c) {
                const Correlation& one = correlation[c];
                float* out = sums + c * c_class;
                if (one.taps == 0) {
                    if (kb == 0) zero(out, c_class);
                    continue;
                }
                if (one.banded) flip_window(one, weights, flipped);
                const bool overlaps = lines >= BAND && k_blocks == 1 && one.banded && bands_follow_taps(one);
                const index_t banded = overlaps ? lines : one.banded ? lines / BAND * BAND : 0;
                for (index_t u = 0; u < units; ++u) {
                    const float* from = tile + u / depths * t.unit + u % depths * t.plane;
                    float* to = out + unit_columns[u];
                    if (in_place)
                        to = (float*)g.target->data + (box.begin[0] + u / depths) * st[0] + channel * st[1] +
                             (pass.classes.axis[0][0].residue + (box.begin[1] + u % depths) * g.out_step[0]) * st[2] +
                             (pass.classes.axis[1][0].residue + box.begin[2] * g.out_step[1]) * st[3] + box.begin[3];
                    correlate_plane(one, flipped, from, t.pitch, lines, banded, width, to, out_row, kb > 0, &prefetch);
                    correlate_lines(one, weights, from, t.pitch, banded, lines, width, to, out_row, kb > 0);
                }
                weights += one.taps;
            }
        }
        if (!in_place) write_block(run, box, channel, 0, 1, sums, 0, c_class, unit_columns, width, interleaved);
    }
    if (report.padded) raise_flag(&run.padding_met);
}

static int run_depthwise_pass(const Gather& g, const GatherPass& pass, int threads) {
    GatherRun run{g, pass, make_source(*g.source), make_source(*g.weight), make_target(*g.target), false};
    const SharedScratch shared(pass.shared);
    if (shared.memory == nullptr) return CG_OUT_OF_MEMORY;
    run.packed = shared.at(pass.packed);
    for (run.first_chunk = 0; run.first_chunk < g.groups; run.first_chunk += pass.chunks_at_once) {
        const index_t channels = min(pass.chunks_at_once, g.groups - run.first_chunk);
        const index_t k_blocks = run.k_blocks();
        auto compute = [&](index_t task, char* scratch) {
            const index_t part = task / pass.blocks.total;
            const index_t begin = run.first_chunk + part * pass.chunk_rows;
            const index_t end = min(run.first_chunk + channels, begin + pass.chunk_rows);
            depthwise_task(run, begin, end, task % pass.blocks.total, scratch);
        };
        auto pack = [&](index_t task, char*) {
            for (index_t c = task * 16; c < min(channels, task * 16 + 16); ++c) {
                float* to = run.packed + c * pass.reduction;
                for (index_t kb = 0; kb < k_blocks; ++kb)
                    pack_weights(run, run.first_chunk + c, 0, PackedRows{1, 0, 1}, k_block(run, kb),
                                 to + packed_before(run, kb))
                        .note(&run);
            }
        };
        int status = in_parallel(threads, ceil_div(channels, 16), 0, pack);
        if (status == CG_OK)
            status =
                in_parallel(threads, ceil_div(channels, pass.chunk_rows) * pass.blocks.total, pass.task.bytes, compute);
        if (status != CG_OK) return status;
    }
    return is_raised(&run.weight_broken) && is_raised(&run.padding_met) ? int(STATUS_REDO_PLAIN) : int(CG_OK);
}

static int run_depthwise_data(const Call& call, const Plan& plan) { return run_passes(call, plan, run_depthwise_pass); }

}  // namespace
}  // namespace cg
