// One task of the weight gradients: a few channels, one group of taps, one run of pixel blocks.
#pragma once

#include "blocking/prefetch.inl.h"
#include "blocking/taps.inl.h"
#include "isa.h"
#include "numbers/store.inl.h"
#include "paths.h"
#include "paths/bias/kernels.inl.h"
#include "paths/depthwise_rows/weight_kernels.inl.h"
#include "scratch.inl.h"
#include "tasks.inl.h"

namespace cg {
namespace {

struct DepthwiseWeightRun {
    const cg_problem& p;
    const DepthwiseWeightPlan& plan;
    const Source fine, coarse;
    const Target target;
    const BiasRun* bias;  // sums of the coarse planes, while they are in cache
    bool prefetches;      // the planes of the next block, or of the channels after these
    float* partial_sums = nullptr;
    int broken = 0;
};

// Rows of the window sums of one channel go to the weight tensor.
static void write_window(const DepthwiseWeightRun& run, index_t channel, const AxisTaps taps[3], const float* sums) {
    const Target& t = run.target;
    const index_t* st = t.tensor->stride;
    for (index_t z = 0; z < taps[0].count; ++z)
        t.rows(
            t,
            channel * st[0] + (taps[0].first_tap + z) * st[2] + taps[1].first_tap * st[3] + taps[2].first_tap * st[4],
            taps[1].count, st[3], taps[2].count, st[4], sums + z * taps[1].count * taps[2].count, taps[2].count);
}

// Sums of a wide window, as vectors of its columns: from one row of them to the next, and how many rows.
static INLINE index_t wide_sums_row(const AxisTaps taps[3]) {
    return ceil_div(taps[2].count, WIDE_COLUMNS) * WIDE_COLUMNS;
}
static INLINE index_t wide_sum_rows(const AxisTaps taps[3]) { return taps[1].count + WIDE_ROWS; }

// One coarse plane, at depth d, of a wide window. Its lines have a pitch of `width`, zero for WIDE_ROWS lines around.
static void add_wide(const DepthwiseWeightRun& run, const Tile& t, const AxisTaps taps[3], const Box& box, index_t d,
                     const int* offsets, const float* x, const float* y, index_t width, float* sums) {
    const cg_problem& p = run.p;
    const index_t lines = box.end[2] - box.begin[2], cells = box.end[3] - box.begin[3];
    const index_t sums_row = wide_sums_row(taps);
    const Range inside = valid_range(t, 1, 0, box.begin[2], p.fine[1]);
    for (index_t z = 0; z < taps[0].count; ++z) {
        const index_t depth = (d * p.stride[0]) + taps[0].first_offset + z * taps[0].offset_step;
        if (depth < 0 || depth >= p.fine[0]) continue;
        for (index_t k = 0; k < taps[1].count; k += WIDE_ROWS) {
            // x row r meets y row r - k - i, i < 3; rows of padding give nothing.
            const index_t begin = max(inside.begin, k), end = min(inside.end, k + lines + WIDE_ROWS - 1);
            if (begin >= end) continue;
            const float* from = x + offsets[z * taps[1].count * taps[2].count];
            for (index_t c = 0; c < taps[2].count; c += WIDE_COLUMNS) {
                const index_t left = taps[2].count - c;
                const auto rows = left > 24   ? wide_rows<4>
                                  : left > 16 ? wide_rows<3>
                                  : left > 8  ? wide_rows<2>
                                              : wide_rows<1>;
                rows(begin, end, cells, from + c, t.pitch, y - k * width, width,
                     sums + (z * wide_sum_rows(taps) + k) * sums_row + c, sums_row);
            }
        }
    }
}

// A few channels, one tap group, one run of pixel blocks; windows receive [depth][row][column] sums, one per channel.
// A `padding_zeroed` tile has its zeros from the channel before.
static void depthwise_weight_task(DepthwiseWeightRun& run, index_t channel, index_t channels, index_t number,
                                  index_t partial, char* scratch, float* windows, index_t next_window,
                                  bool padding_zeroed = false) {
    const DepthwiseWeightPlan& plan = run.plan;
    const cg_problem& p = run.p;
    AxisTaps taps[3];
    tap_group(plan.taps, plan.tap_groups, number, taps);
    const index_t count = tap_count(taps);
    const Scratch pieces{scratch};
    float* tile = pieces.at(plan.tile);
    float* coarse = pieces.at(plan.coarse);
    float* all_sums = pieces.at(plan.sums);
    int* offsets = pieces.at(plan.offsets);
    zero(all_sums, plan.sum_floats * channels);
    bool finite = true;
    BiasSum bias_sum;
    FillReport report;
    const index_t* cs = run.coarse.tensor->stride;
    const index_t blocks = plan.blocks.total;
    for (index_t b = blocks * partial / plan.partials; b < blocks * (partial + 1) / plan.partials; ++b) {
        Box box;
        block_box(plan.blocks, b, &box);
        Tile t;
        shape_tile(box, plan.span, plan.slots, false, &t);
        for (int a = 0; a < 3; ++a) t.axis[a] = tile_axis(taps[a], p.stride[a]);
        // Blocks of whole planes have the same borders: they stay zero.
        padding_zeroed |= b > blocks * partial / plan.partials && plan.blocks.total == plan.blocks.count[0];
        const index_t lines = box.end[2] - box.begin[2], cells = box.end[3] - box.begin[3];
        // Lines of fewer than eight cells are read eight at a time, zero times what follows: the last one of a plane
        // reads into the next plane, which must then hold numbers even if no tap of a dilated depth reads it.
        fill_tile(run.fine, p.fine, t, box, channel, channels, cells < 8 ? nullptr : &taps[0], tile, &report, nullptr,
                  padding_zeroed);
        zero(tile + channels * t.channel, 128);
        tap_offsets(t, taps, offsets);
        const index_t width = ceil_div(cells, 8) * 8, depths = box.end[1] - box.begin[1];
        const index_t units = (box.end[0] - box.begin[0]) * depths;
        Prefetch fine_prefetch, coarse_prefetch;
        if (run.prefetches) {
            const index_t none[3] = {0, 0, 0}, first_image = blocks * partial / plan.partials * plan.blocks.per[0];
            const bool in_task = b + 1 < blocks * (partial + 1) / plan.partials;
            const index_t image = in_task ? box.end[0] : first_image, from = in_task ? channel : channel + channels;
            const index_t many = min(channels, p.groups - from), images = min(image + plan.blocks.per[0], p.batch);
            if (many > 0 && (in_task || number + 1 == plan.group_count)) {
                fine_prefetch.start(*run.fine.tensor, image, images, from, many, none, p.fine);
                coarse_prefetch.start(*run.coarse.tensor, image, images, from, many, none, p.coarse);
            }
        }
        const index_t calls = units * channels * ceil_div(lines, DOT_LINES);
        const index_t fine_pace = ceil_div(fine_prefetch.cache_lines(), calls);
        const index_t coarse_pace = ceil_div(coarse_prefetch.cache_lines(), calls);
        // Coarse lines where they lie, or copied, zero beyond the last cell and for WIDE_ROWS lines around.
        const DotSome as_stored = dot_some_of(run.coarse.kind);
        const bool in_place = !plan.wide && as_stored != nullptr && cs[4] == 1 && cells >= 8;
        const index_t coarse_plane = (lines + 2 * WIDE_ROWS) * width;
        for (index_t u = 0; u < units; ++u) {
            const index_t n = box.begin[0] + u / depths, d = box.begin[1] + u % depths;
            const index_t at = n * cs[0] + channel * cs[1] + d * cs[2] + box.begin[2] * cs[3] + box.begin[3] * cs[4];
            if (run.bias != nullptr) bias_sum.add_line(*run.bias, channel, n * p.coarse[0] + d);
            if (!in_place) {
                if (cells < 8 || plan.wide) zero(coarse, channels * coarse_plane);
                float* to = coarse + WIDE_ROWS * width;
                for (index_t line = 0; channels > 1 && line < lines; ++line)
                    finite &= run.coarse.transposed(run.coarse, at + line * cs[3], cells, cs[4], channels,
                                                    to + line * width, coarse_plane);
                if (channels == 1) finite &= run.coarse.rows(run.coarse, at, lines, cs[3], cells, cs[4], to, width);
            }
            for (index_t c = 0; c < channels; ++c) {
                const float* y = coarse + c * coarse_plane + WIDE_ROWS * width;
                const float* x = tile + c * t.channel + u / depths * t.unit + u % depths * t.plane;
                float* sums = all_sums + c * plan.sum_floats;
                if (plan.wide) {
                    add_wide(run, t, taps, box, d, offsets, x, y, width, sums);
                    continue;
                }
                const index_t parts = ceil_div(count, 10);
                // A few lines at a time, and a few cache lines of the next planes prefetched.
                for (index_t line = 0; line < lines; line += DOT_LINES) {
                    const index_t few = min(DOT_LINES, lines - line);
                    fine_prefetch.advance<READS>(fine_pace);
                    coarse_prefetch.advance<READS>(coarse_pace);
                    for (index_t i = 0; i < parts; ++i) {
                        const index_t first = count * i / parts, last = count * (i + 1) / parts;
                        if (in_place)
                            as_stored(run.coarse.tensor->data, last - first, few, cells, at + line * cs[3], cs[3],
                                      x + line * t.pitch, t.pitch, offsets + first, sums + first * 8);
                        else
                            dot_some<LOAD_F32>(y, last - first, few, max(8, cells), line * width, width,
                                               x + line * t.pitch, t.pitch, offsets + first, sums + first * 8);
                    }
                }
            }
        }
    }
    for (index_t c = 0; c < channels; ++c) {
        const float* sums = all_sums + c * plan.sum_floats;
        float* window = windows + c * next_window;
        if (plan.wide) {
            for (index_t i = 0; i < taps[0].count * taps[1].count; ++i)
                for (index_t x = 0; x < taps[2].count; ++x)
                    window[i * taps[2].count + x] =
                        sums[(i / taps[1].count * wide_sum_rows(taps) + i % taps[1].count) * wide_sums_row(taps) + x];
            continue;
        }
        // Coarse values read in place were not checked: one that is not finite shows in the sums.
        for (index_t i = 0; i < count; ++i) {
            window[i] = sum8(load8(sums + 8 * i));
            finite &= window[i] - window[i] == 0;
        }
    }
    if (run.bias != nullptr) run.bias->store(channel, bias_sum.total);
    // Zero lanes stand for nothing only next to finite numbers.
    if (!finite || !report.finite) raise_flag(&run.broken);
}

static int run_depthwise_weight(const Call& call, const Plan& whole) {
    const cg_problem& p = call.p;
    const DepthwiseWeightPlan& plan = whole.depthwise_weight;
    const int threads = call.threads;
    const BiasRun bias(p);
    const bool whole_planes = plan.blocks.total == plan.blocks.count[0];
    DepthwiseWeightRun run{p,
                           plan,
                           make_source(p.fine_operand),
                           make_source(p.coarse_operand),
                           make_target(p.to_weight),
                           plan.sums_bias ? &bias : nullptr,
                           whole_planes && exceeds_cache(p.fine_operand, p.batch * p.groups, p.fine)};
    const index_t windows = p.groups * plan.group_count, per_task = plan.channels_at_once * plan.in_turn;
    const index_t channel_parts = ceil_div(p.groups, per_task);
    if (plan.partials > 1) {
        const SharedScratch shared(plan.shared);
        if (shared.memory == nullptr) return CG_OUT_OF_MEMORY;
        run.partial_sums = shared.at(plan.partial_sums);
    }
    auto body = [&](index_t task, char* scratch) {
        const index_t number = task % plan.group_count, partial = task / plan.group_count / channel_parts;
        const index_t begin = task / plan.group_count % channel_parts * per_task;
        const index_t end = min(p.groups, begin + per_task);
        if (plan.partials > 1) {
            float* to = run.partial_sums + (partial * windows + begin * plan.group_count + number) * plan.max_taps;
            return depthwise_weight_task(run, begin, end - begin, number, partial, scratch, to,
                                         plan.group_count * plan.max_taps);
        }
        AxisTaps taps[3];
        tap_group(plan.taps, plan.tap_groups, number, taps);
        float* sums = Scratch{scratch}.at(plan.windows);
        for (index_t channel = begin; channel < end; channel += plan.channels_at_once) {
            const index_t channels = min(plan.channels_at_once, end - channel);
            depthwise_weight_task(run, channel, channels, number, 0, scratch, sums, plan.max_taps, channel > begin);
            for (index_t c = 0; c < channels; ++c) write_window(run, channel + c, taps, sums + c * plan.max_taps);
        }
    };
    const int status = in_parallel(threads, channel_parts * plan.group_count * plan.partials, plan.task.bytes, body);
    if (status != CG_OK) return status;
    if (is_raised(&run.broken)) return STATUS_REDO_PLAIN;
    for (index_t w = 0; plan.partials > 1 && w < windows; ++w) {
        AxisTaps taps[3];
        tap_group(plan.taps, plan.tap_groups, w % plan.group_count, taps);
        float* first = run.partial_sums + w * plan.max_taps;
        for (index_t part = 1; part < plan.partials; ++part)
            for (index_t i = 0; i < tap_count(taps); ++i) first[i] += first[part * windows * plan.max_taps + i];
        write_window(run, w / plan.group_count, taps, first);
    }
    return CG_OK;
}

}  // namespace
}  // namespace cg
