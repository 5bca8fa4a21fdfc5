// Tasks over channels that lie side by side in memory, one per group or, with the kernels of grouped_channels, a few.
#pragma once

#include "blocking/gather.h"
#include "blocking/weight_window.inl.h"
#include "numbers/store.inl.h"
#include "paths.h"
#include "paths/grouped_channels/data_kernels.inl.h"
#include "paths/grouped_channels/weight_kernels.inl.h"
#include "scratch.inl.h"
#include "tasks.inl.h"

namespace cg {
namespace {

struct ChannelRun {
    const cg_problem& p;
    const ChannelPlan& plan;
    const Source fine, coarse, weight;
    const Target target;
    bool prefetches = false;  // the next line
    float* shared = nullptr;
};

static SourceBox source_box(const cg_problem& p, bool to_fine, const Box& box) {
    SourceBox s;
    for (int a = 0; a < 3; ++a) {
        const index_t begin = box.begin[a + 1], last = box.end[a + 1] - 1;
        const index_t reach = (p.window[a] - 1) * p.dilation[a];
        const index_t low = to_fine ? floor_div(begin + p.pad[a] - reach, p.stride[a]) : begin * p.stride[a] - p.pad[a];
        const index_t high = to_fine ? floor_div(last + p.pad[a], p.stride[a]) : last * p.stride[a] - p.pad[a] + reach;
        s.begin[a] = max(0, low);
        s.end[a] = max(s.begin[a], min(to_fine ? p.coarse[a] : p.fine[a], high + 1));
    }
    return s;
}

// Weights of one channel per group are packed for all channels of a task, others for a vector of them.
static index_t weight_unit(const ChannelPlan& plan) {
    return plan.channels_per_group == 1 ? plan.block : index_t(GROUPED_PITCH);
}
static index_t taps_of(const cg_problem& p) { return p.window[0] * p.window[1] * p.window[2]; }

static void channel_gather_task(ChannelRun& run, const Gather& g, bool to_fine, index_t channel, index_t block_number,
                                const float* weights, char* scratch) {
    const ChannelPlan& plan = run.plan;
    const cg_problem& p = run.p;
    const index_t channels = min(plan.block, plan.channels - channel), padded = ceil_div(channels, 8) * 8;
    const ChannelLine compute = channel_line_of(plan.channels_per_group);
    const LineWeights pitch{weight_unit(plan) * plan.channels_per_group,
                            weight_unit(plan) * plan.channels_per_group * taps_of(p)};
    Box box;
    block_box(plan.blocks, block_number, &box);
    const Source& source = to_fine ? run.coarse : run.fine;
    const bool in_place = reads_in_place(source, plan);
    const bool store_in_place = run.target.kind == STORE_F32 && plan.channels % 8 == 0;
    const Scratch pieces{scratch};
    float* buffer = pieces.at(plan.source);
    float* line = pieces.at(plan.line);
    TiedRow* rows = (TiedRow*)pieces.at(plan.tied_rows);
    const index_t* st = g.target->stride;
    const SourceBox inside = source_box(p, to_fine, box);
    for (index_t n = box.begin[0]; n < box.end[0]; ++n) {
        const ChannelView v = view_channels(source, in_place, n, channel, channels, plan.block, inside, buffer);
        for (index_t z = box.begin[1]; z < box.end[1]; ++z)
            for (index_t y = box.begin[2]; y < box.end[2]; ++y) {
                index_t count = 0;
                for (index_t kz = 0; kz < p.window[0]; ++kz) {
                    const index_t sz = tied_source(p, to_fine, 0, z, kz);
                    for (index_t ky = 0; sz >= 0 && ky < p.window[1]; ++ky) {
                        const index_t sy = tied_source(p, to_fine, 1, y, ky);
                        if (sy < 0) continue;
                        rows[count].source = v.base + sz * v.depth + sy * v.row;
                        rows[count++].weight = weights + (kz * p.window[1] + ky) * p.window[2] * pitch.tap;
                    }
                }
                const index_t at = n * st[0] + channel + z * st[2] + y * st[3];
                const index_t cells = box.end[3] - box.begin[3];
                // The next line and the source row that is new for it.
                LinePrefetch reads, writes;
                if (run.prefetches && y + 1 < box.end[2]) {
                    const index_t steps = ceil_div(cells, GROUPED_CELLS) * ceil_div(padded, GROUPED_PITCH);
                    index_t depth = -1, newest = -1;
                    for (index_t kz = 0; kz < p.window[0]; ++kz) depth = max(depth, tied_source(p, to_fine, 0, z, kz));
                    for (index_t ky = 0; ky < p.window[1]; ++ky)
                        newest = max(newest, tied_source(p, to_fine, 1, y + 1, ky));
                    if (in_place && depth >= 0 && newest >= 0)
                        reads = LinePrefetch(v, depth, newest, newest + 1, g.source_extent[1], g.source_extent[2],
                                             padded, steps);
                    const ChannelView result{(const float*)g.target->data + n * st[0] + channel, st[2], st[3], st[4]};
                    if (store_in_place)
                        writes = LinePrefetch(result, z, y + 1, y + 2, g.out[1], g.out[2], padded, steps);
                }
                for (index_t residue = 0; residue < g.out_step[2]; ++residue) {
                    const AxisClass c = axis_class(p, to_fine, 2, residue);
                    const index_t first = ceil_div(max(0, box.begin[3] - residue), g.out_step[2]);
                    const index_t last = min(c.cells, ceil_div(max(0, box.end[3] - residue), g.out_step[2]));
                    if (first >= last) continue;
                    const index_t begin = residue + first * g.out_step[2];
                    float* out = store_in_place ? (float*)g.target->data + at + begin * st[4]
                                                : line + (begin - box.begin[3]) * plan.block;
                    const index_t out_cell = g.out_step[2] * (store_in_place ? st[4] : plan.block);
                    const index_t step = g.source_step[2], extent = g.source_extent[2];
                    compute(c, extent, step, rows, count, first, last, padded, v, pitch, out, out_cell, reads, writes);
                }
                if (!store_in_place)
                    run.target.rows(run.target, at + box.begin[3] * st[4], cells, st[4], channels, 1, line, plan.block);
            }
    }
}

static int run_channel_gather(const cg_problem& p, bool to_fine, int threads, const ChannelPlan& plan) {
    const Gather g = make_gather(p, to_fine);
    ChannelRun run{p,
                   plan,
                   make_source(p.fine_operand),
                   make_source(p.coarse_operand),
                   make_source(p.weight_operand),
                   make_target(*g.target),
                   exceeds_cache(*g.source, p.batch * plan.channels, g.source_extent)};
    const SharedScratch shared(plan.shared);
    if (shared.memory == nullptr) return CG_OUT_OF_MEMORY;
    run.shared = shared.at(plan.weights);
    const index_t taps = taps_of(p), channels_per_group = plan.channels_per_group, unit = weight_unit(plan);
    // Weights of every unit as [tap][rotation][channel], for as many channels at a time as the shared memory takes.
    for (index_t first = 0; first < plan.channels; first += plan.channels_at_once) {
        const index_t now = min(plan.channels_at_once, plan.channels - first);
        auto pack = [&](index_t tap, char*) {
            const index_t* st = p.weight_operand.stride;
            for (index_t c = 0; c < now; c += unit) {
                const index_t channels = min(unit, now - c), at = (first + c) * st[0] + tap_place(p, tap, st);
                for (index_t r = 0; r < channels_per_group; ++r) {
                    float* to = run.shared + ((c / unit * taps + tap) * channels_per_group + r) * unit;
                    // A result's channel i reads channel i + r of the source.
                    for (index_t i = 0; i < channels_per_group; ++i) {
                        const index_t other = (i + r) % channels_per_group, coarse = to_fine ? other : i,
                                      fine = to_fine ? i : other;
                        run.weight.rows(run.weight, at + coarse * st[0] + fine * st[1], channels / channels_per_group,
                                        channels_per_group * st[0], 1, 1, to + i, channels_per_group);
                    }
                    for (index_t i = channels; i < ceil_div(channels, 8) * 8; ++i) to[i] = 0;
                }
            }
        };
        const index_t parts = ceil_div(now, plan.block);
        auto compute = [&](index_t task, char* scratch) {
            const index_t part = task % parts;
            channel_gather_task(run, g, to_fine, first + part * plan.block, task / parts,
                                run.shared + part * plan.block * taps * channels_per_group, scratch);
        };
        int status = in_parallel(taps * channels_per_group * now > 20000 ? threads : 1, taps, 0, pack);
        if (status == CG_OK) status = in_parallel(threads, parts * plan.blocks.total, plan.task.bytes, compute);
        if (status != CG_OK) return status;
    }
    return CG_OK;
}

// A run of pixel blocks for one block of channels; sums[tap][rotation][channel of the block].
static void channel_weight_task(ChannelRun& run, index_t channel, index_t partial, float* sums, index_t sums_tap,
                                char* scratch) {
    const ChannelPlan& plan = run.plan;
    const cg_problem& p = run.p;
    const index_t channels = min(plan.block, plan.channels - channel);
    const index_t sum_rows = taps_of(p) * plan.channels_per_group;
    const bool fine_in_place = reads_in_place(run.fine, plan);
    const bool coarse_in_place = reads_in_place(run.coarse, plan);
    const ColumnSums columns = column_sums_of(plan.channels_per_group, p);
    const Scratch pieces{scratch};
    float* fine_buffer = pieces.at(plan.source);
    float* coarse_buffer = pieces.at(plan.line);
    const index_t padded = ceil_div(channels, 8) * 8;
    for (index_t i = 0; i < sum_rows; ++i) zero(sums + i * sums_tap, padded);
    const index_t blocks = plan.blocks.total;
    for (index_t b = blocks * partial / plan.partials; b < blocks * (partial + 1) / plan.partials; ++b) {
        Box box;
        block_box(plan.blocks, b, &box);
        const SourceBox inside = source_box(p, false, box);
        for (index_t n = box.begin[0]; n < box.end[0]; ++n) {
            const ChannelView x =
                view_channels(run.fine, fine_in_place, n, channel, channels, plan.block, inside, fine_buffer);
            const SourceBox here{{box.begin[1], box.begin[2], box.begin[3]}, {box.end[1], box.end[2], box.end[3]}};
            const ChannelView y =
                view_channels(run.coarse, coarse_in_place, n, channel, channels, plan.block, here, coarse_buffer);
            for (index_t z = box.begin[1]; columns != nullptr && z < box.end[1]; ++z)
                for (index_t r = box.begin[2]; r < box.end[2]; ++r) {
                    const index_t steps = ceil_div(padded, 16) * p.window[0] * p.window[1];
                    const index_t above = r * p.stride[1] - p.pad[1] + (p.window[1] - 1) * p.dilation[1] + 1;
                    LinePrefetch fine, coarse;
                    if (fine_in_place)
                        fine = LinePrefetch(x, clamp(z * p.stride[0] - p.pad[0], 0, p.fine[0] - 1), above,
                                            above + p.stride[1], p.fine[1], p.fine[2], padded, steps);
                    if (coarse_in_place)
                        coarse = LinePrefetch(y, z, r + 1, r + 2, p.coarse[1], p.coarse[2], padded, steps);
                    columns(p, x, y, z, r, box.begin[3], box.end[3], padded, sums, sums_tap, fine, coarse);
                }
            for (index_t z = box.begin[1]; columns == nullptr && z < box.end[1]; ++z)
                for (index_t r = box.begin[2]; r < box.end[2]; ++r)
                    for (index_t c8 = 0; c8 < padded; c8 += 8) {
                        const float* line = y.base + z * y.depth + r * y.row + c8;
                        const float* from = x.base + c8;
                        index_t at[10];
                        float* to[10];
                        index_t held = 0, begin = 0, end = 0;
                        const auto flush = [&] {
                            if (held > 0 && begin < end)
                                channel_dots_any(held, end - begin, line + begin * y.cell, y.cell,
                                                 from + begin * p.stride[2] * x.cell, p.stride[2] * x.cell, at, to);
                            held = 0;
                        };
                        for (index_t kz = 0; kz < p.window[0]; ++kz) {
                            const index_t sz = tied_source(p, false, 0, z, kz);
                            for (index_t ky = 0; sz >= 0 && ky < p.window[1]; ++ky) {
                                const index_t sy = tied_source(p, false, 1, r, ky);
                                if (sy < 0) continue;
                                for (index_t kx = 0; kx < p.window[2]; ++kx) {
                                    const index_t shift = kx * p.dilation[2] - p.pad[2];
                                    Tied o = tied_cells(p.coarse[2], p.fine[2], p.stride[2], shift);
                                    o.begin = max(o.begin, box.begin[3]);
                                    o.end = min(o.end, box.end[3]);
                                    if (o.begin >= o.end) continue;
                                    const index_t offset = sz * x.depth + sy * x.row + shift * x.cell;
                                    float* sum = sums + ((kz * p.window[1] + ky) * p.window[2] + kx) * sums_tap + c8;
                                    if (held == 10) flush();
                                    if (held > 0) {
                                        // Share the cells all held taps have; do the rest of each alone.
                                        const index_t low = max(begin, o.begin), high = min(end, o.end);
                                        if (low >= high) flush();
                                        else {
                                            for (index_t i = 0; i < held; ++i) {
                                                channel_dots<1>(low - begin, line + begin * y.cell, y.cell,
                                                                from + begin * p.stride[2] * x.cell,
                                                                p.stride[2] * x.cell, at + i, to + i);
                                                channel_dots<1>(end - high, line + high * y.cell, y.cell,
                                                                from + high * p.stride[2] * x.cell,
                                                                p.stride[2] * x.cell, at + i, to + i);
                                            }
                                            begin = low;
                                            end = high;
                                        }
                                    }
                                    if (held == 0) {
                                        begin = o.begin;
                                        end = o.end;
                                    }
                                    at[held] = offset;
                                    to[held] = sum;
                                    channel_dots<1>(begin - o.begin, line + o.begin * y.cell, y.cell,
                                                    from + o.begin * p.stride[2] * x.cell, p.stride[2] * x.cell,
                                                    at + held, to + held);
                                    channel_dots<1>(o.end - end, line + end * y.cell, y.cell,
                                                    from + end * p.stride[2] * x.cell, p.stride[2] * x.cell, at + held,
                                                    to + held);
                                    ++held;
                                }
                            }
                        }
                        flush();
                    }
        }
    }
}

static int run_channel_weight(const cg_problem& p, int threads, const ChannelPlan& plan) {
    ChannelRun run{p,
                   plan,
                   make_source(p.fine_operand),
                   make_source(p.coarse_operand),
                   make_source(p.weight_operand),
                   make_target(p.to_weight)};
    const index_t taps = taps_of(p), channels_per_group = plan.channels_per_group;
    const SharedScratch shared(plan.shared);
    if (shared.memory == nullptr) return CG_OUT_OF_MEMORY;
    run.shared = shared.at(plan.weights);
    const index_t* st = p.to_weight.stride;
    for (index_t first = 0; first < plan.channels; first += plan.channels_at_once) {
        const index_t now = min(plan.channels_at_once, plan.channels - first), parts = ceil_div(now, plan.block);
        const index_t partial_floats = taps * channels_per_group * plan.channels_at_once;
        auto compute = [&](index_t task, char* scratch) {
            const index_t part = task % parts, partial = task / parts;
            channel_weight_task(run, first + part * plan.block, partial,
                                run.shared + partial * partial_floats + part * plan.block, plan.channels_at_once,
                                scratch);
        };
        auto add = [&](index_t tap, char*) {
            for (index_t r = 0; r < channels_per_group; ++r) {
                float* sums = run.shared + (tap * channels_per_group + r) * plan.channels_at_once;
                for (index_t partial = 1; partial < plan.partials; ++partial)
                    for (index_t c = 0; c < now; ++c) sums[c] += sums[partial * partial_floats + c];
                // Fine channel f was multiplied with coarse channel f + r.
                for (index_t f = 0; f < channels_per_group; ++f)
                    run.target.rows(
                        run.target, (first + (f + r) % channels_per_group) * st[0] + f * st[1] + tap_place(p, tap, st),
                        now / channels_per_group, channels_per_group * st[0], 1, 1, sums + f, channels_per_group);
            }
        };
        int status = in_parallel(threads, parts * plan.partials, plan.task.bytes, compute);
        if (status == CG_OK) status = in_parallel(taps * channels_per_group * now > 20000 ? threads : 1, taps, 0, add);
        if (status != CG_OK) return status;
    }
    return CG_OK;
}

static int run_channels(const Call& call, const Plan& plan) {
    return call.contraction == TO_WEIGHT
               ? run_channel_weight(call.p, call.threads, plan.channels)
               : run_channel_gather(call.p, call.contraction == TO_FINE, call.threads, plan.channels);
}

}  // namespace
}  // namespace cg
