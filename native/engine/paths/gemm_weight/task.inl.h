// One task of the weight contraction: a run of pixels, a group of taps, some fine and some coarse channels.
#pragma once

#include "blocking/prefetch.inl.h"
#include "isa.h"
#include "paths.h"
#include "paths/gemm_weight/pack.inl.h"
#include "paths/gemm_weight/run.inl.h"
#include "scratch.inl.h"
#include "tasks.inl.h"

namespace cg {
namespace {

// The coarse values of a block that are packed together, beginning with panel `first`.
static Prefetch coarse_prefetch(const WeightRun& run, const Box& box, index_t group, index_t first, index_t last) {
    const index_t channels = run.p.coarse_channels;
    const index_t end = min(channels, min(last, first + run.plan.panel_block) * run.panel);
    Prefetch prefetch;
    prefetch.start(run.p.coarse_operand, box.begin[0], box.end[0], group * channels + first * run.panel,
                   end - first * run.panel, box.begin + 1, box.end + 1);
    return prefetch;
}

struct WeightTask {
    index_t partial, group, tap_group, channel_part, panel_part;
};

// A task at work: what it adds up, where it keeps it, and the block of pixels and the panels it has come to.
struct WeightWork {
    WeightRun& run;
    const cg_problem& p;
    const WeightPlan& plan;
    const WeightTask task;
    AxisTaps taps[3];
    index_t count;                        // of the taps
    index_t first_channel, last_channel;  // of the fine ones of a group
    index_t first_panel, last_panel;      // of its coarse channels

    float *tile, *coarse;
    Pixel* pixel;
    int *chain_end, *listed;
    int* row;     // first cell of every row of the result: (channel of the tile, tap)
    float* sums;  // [panel][(f, tap)][c]
    index_t sums_panel;

    Box box, next_box;
    bool last_block = false;
    Tile t;
    bool padding_zeroed = false;  // the tile has the padding of this block
    index_t pixels = 0, listed_size[4] = {};
    index_t panel = 0, panel_end = 0;  // packed together
    bool last_panels = false;
    Prefetch next_coarse;
    index_t coarse_pace = 0;
    FillReport report;
    PairCheck fine_pairs, coarse_pairs;
    bool coarse_finite = true;

    WeightWork(WeightRun& whole, const WeightTask& which, char* scratch)
        : run(whole), p(whole.p), plan(whole.plan), task(which) {
        tap_group(plan.taps, plan.tap_groups, task.tap_group, taps);
        count = tap_count(taps);
        first_channel = task.channel_part * plan.channels_per_task;
        last_channel = min(p.fine_channels, first_channel + plan.channels_per_task);
        first_panel = task.panel_part * plan.panels_per_task;
        last_panel = min(plan.panels, first_panel + plan.panels_per_task);
        const index_t channels = last_channel - first_channel;
        const Scratch pieces{scratch};
        tile = pieces.at(plan.tile);
        coarse = pieces.at(plan.coarse);
        pixel = (Pixel*)pieces.at(plan.pixels);
        chain_end = pieces.at(plan.chain_ends);
        listed = pieces.at(plan.listed);
        row = pieces.at(plan.rows);
        // In shared memory when several runs of pixels are added later.
        if (plan.partials > 1) {
            sums_panel = p.fine_channels * run.taps * run.panel;
            sums = run.partial_sums +
                   ((task.partial * p.groups + task.group) * plan.panels + first_panel) * sums_panel +
                   (p.fine_channels * taps_before(run, task.tap_group) + first_channel * count) * run.panel;
        } else {
            sums_panel = channels * count * run.panel;
            sums = pieces.at(plan.sums);
        }
        for (index_t i = 0; i < last_panel - first_panel; ++i)
            zero(sums + i * sums_panel, channels * count * run.panel);
    }

    // Block `number` of the run that ends at `end`.
    void go_to(index_t number, index_t end) {
        last_block = number + 1 == end;
        padding_zeroed = false;
        block_box(plan.blocks, number, &box);
        block_box(plan.blocks, last_block ? number : number + 1, &next_box);
        shape_tile(box, plan.span, plan.slots, false, &t, 0, plan.tile_cell);
        for (int a = 0; a < 3; ++a) t.axis[a] = tile_axis(taps[a], p.stride[a]);
        if (run.fine_in_place) {
            const index_t* st = p.fine_operand.stride;
            t.unit = st[0];
            t.channel = st[1];
            t.plane = p.stride[0] * st[2];
            t.pitch = p.stride[1] * st[3];
            t.column = p.stride[2] * st[4];
        } else {
            join_planes(p.fine, plan.tile_channels, &t);
        }
        pixels = 1;
        bool like_before = !plan.by_tap;
        for (int a = 0; a < 4; ++a) {
            const index_t size = box.end[a] - box.begin[a];
            pixels *= size;
            like_before &= size == listed_size[a];
            listed_size[a] = size;
        }
        if (plan.by_tap) list_by_tap(run, box, t, taps, pixels, pixel, chain_end, listed);
        else if (!like_before) listed[0] = list_pixels(box, t, PixelLister{pixel, chain_end, plan.chain, run.in_pairs});
    }

    // Rows of the result are channel after channel of one tap with the pixels it meets, or (f, tap) in order.
    index_t row_sets() const { return plan.by_tap ? count : 1; }
    index_t kernel_calls(index_t channels) const {
        return (panel_end - panel) * row_sets() * ceil_div(channels * count / row_sets(), plan.mr);
    }

    void pack_panels(index_t first) {
        panel = first;
        panel_end = min(last_panel, panel + plan.panel_block);
        last_panels = panel_end == last_panel;
        coarse_finite &=
            pack_coarse(run.coarse, box, task.group * p.coarse_channels + panel * run.panel,
                        min(p.coarse_channels, panel_end * run.panel) - panel * run.panel, run.panel, pixels, coarse);
        if (plan.bias_sums > 0 && task.tap_group == 0 && task.channel_part == 0) sum_bias();
        // What is packed next: the next panels of this block, or the first of the next one.
        next_coarse = Prefetch();
        if (run.prefetches_coarse && (!last_panels || !last_block))
            next_coarse = coarse_prefetch(run, last_panels ? next_box : box, task.group,
                                          last_panels ? first_panel : panel_end, last_panel);
        coarse_pace = ceil_div(next_coarse.cache_lines(), kernel_calls(last_channel - first_channel));
        if (run.in_pairs)
            for (index_t q = 0; q < panel_end - panel; ++q)
                pair_pixels(pixels, box.end[3] - box.begin[3], run.panel, plan.by_tap, coarse + q * run.panel * pixels,
                            &coarse_pairs);
    }

    void sum_bias() {
        const bool along = p.coarse_operand.stride[4] == 1;
        const index_t first = task.group * p.coarse_channels, panels = along ? panel_end - panel : 1;
        double* bias_sums = run.bias_sums + task.partial * p.groups * p.coarse_channels;
        for (index_t q = panel; q < panel_end; q += panels) {
            const index_t begin = first + q * run.panel, end = first + min(p.coarse_channels, (q + panels) * run.panel);
            if (along) add_bias(run.bias, box, begin, end, bias_sums);
            else add_packed_bias(run.panel, pixels, coarse + (q - panel) * run.panel * pixels, begin, end, bias_sums);
        }
    }

    // The cells of fine channels [f, f + channels), and where the rows of the result find theirs.
    const float* load_tile(index_t f, index_t channels) {
        const float* cells = tile;
        if (run.fine_in_place) {
            cells = cells_in_place(f);
        } else {
            // Where there is one tile only, it is still there from the panels before.
            const bool one_tile = last_channel - first_channel <= plan.tile_channels;
            if (panel == first_panel || !one_tile) {
                fill_tile(run.fine, p.fine, t, box, task.group * p.fine_channels + f, channels,
                          run.in_pairs ? nullptr : &taps[0], tile, &report, nullptr, padding_zeroed);
                padding_zeroed = !run.in_pairs;  // bf16 pairs overwrite the zeros
                if (run.in_pairs) pair_cells(channels);
            }
            tap_offsets(t, taps, row);
        }
        for (index_t c = 1; c < channels; ++c)
            for (index_t i = 0; i < count; ++i) row[c * count + i] = row[i] + int(c * t.channel);
        return cells;
    }

    const float* cells_in_place(index_t f) {
        const index_t* st = p.fine_operand.stride;
        index_t tap = 0;
        for (index_t z = 0; z < taps[0].count; ++z)
            for (index_t y = 0; y < taps[1].count; ++y)
                for (index_t x = 0; x < taps[2].count; ++x)
                    row[tap++] = int(z * p.dilation[0] * st[2] + y * p.dilation[1] * st[3] + x * p.dilation[2] * st[4]);
        const float* cells =
            (const float*)p.fine_operand.data + box.begin[0] * st[0] + (task.group * p.fine_channels + f) * st[1];
        for (int a = 0; a < 3; ++a) cells += (box.begin[a + 1] * p.stride[a] - p.pad[a]) * st[a + 2];
        return cells;
    }

    // Every cell with the next one: of all channels in one go, image by image where those are outermost; or the
    // channels of cell by cell. The last has nothing next to it.
    void pair_cells(index_t channels) {
        const index_t images = box.end[0] - box.begin[0];
        const bool outermost = t.unit > t.channel && !plan.channels_inside;
        const index_t units = outermost ? images : 1;
        const index_t filled = plan.channels_inside ? images * t.unit : channels * t.channel;
        const index_t step = plan.channels_inside ? t.column : filled;
        const index_t at_once = plan.channels_inside ? channels : filled;
        for (index_t n = 0; n < units; ++n) {
            float* cell = tile + n * t.unit;
            if (n + 1 == units || filled < t.unit) zero(cell + filled, plan.channels_inside ? channels : 1);
            for (index_t i = 0; i < filled; i += step)
                pair_up(cell + i, cell + i + t.column, at_once, cell + i, &fine_pairs);
        }
    }

    // The next tile of this block, or the first of the next one.
    Prefetch next_tile(index_t f, index_t channels) const {
        const bool last_tile = f + channels == last_channel;
        if (!run.prefetches_fine || !(last_tile ? last_panels && !last_block : panel == first_panel)) return Prefetch();
        const index_t from = last_tile ? first_channel : f + channels;
        return tile_prefetch(p.fine_operand, p.fine, p.stride, plan.span, t, last_tile ? next_box : box,
                             task.group * p.fine_channels + from, min(plan.tile_channels, last_channel - from));
    }

    void multiply(index_t f, index_t channels, const float* cells) {
        const int reading = run.in_pairs ? LISTED_PAIRS : plan.by_tap ? LISTED_PIXELS : ALL_PIXELS;
        const index_t sets = row_sets(), rows = channels * count / sets, mr = plan.mr;
        Prefetch next_fine = next_tile(f, channels);
        const index_t fine_pace = ceil_div(next_fine.cache_lines(), kernel_calls(channels));
        for (index_t q = panel; q < panel_end; ++q) {
            const auto& kernel = q + 1 == plan.panels ? run.last_kernel[reading] : run.kernel[reading];
            for (index_t r = 0; r < rows; r += mr)
                for (index_t s = 0; s < sets; ++s) {
                    next_coarse.advance<READS_NEAR>(coarse_pace);
                    next_fine.advance<READS_NEAR>(fine_pace);
                    const index_t height = min(mr, rows - r), first = r * sets + s;
                    kernel[height](
                        listed[s], chain_end + s * pixels, cells, row + first, sets, pixel + s * pixels,
                        coarse + (q - panel) * run.panel * pixels,
                        sums + (q - first_panel) * sums_panel + ((f - first_channel) * count + first) * run.panel,
                        sets * run.panel);
                }
        }
    }

    void finish() {
        if (report.padded) raise_flag(&run.padding_met);
        if (!report.finite) raise_flag(&run.fine_broken);
        fine_pairs.merge_into(&run.smallest_fine);
        coarse_pairs.merge_into(&run.smallest_coarse);
        if (!coarse_finite) raise_flag(&run.coarse_broken);
        if (plan.partials > 1) return;
        for (index_t q = first_panel; q < last_panel; ++q)
            write_weights(run, task.group, taps, first_channel, last_channel - first_channel, q,
                          sums + (q - first_panel) * sums_panel);
    }
};

static void weight_task(WeightRun& run, const WeightTask& task, char* scratch) {
    const WeightPlan& plan = run.plan;
    WeightWork work(run, task, scratch);
    const index_t end = plan.blocks.total * (task.partial + 1) / plan.partials;
    for (index_t b = plan.blocks.total * task.partial / plan.partials; b < end; ++b) {
        work.go_to(b, end);
        for (index_t panel = work.first_panel; panel < work.last_panel; panel += plan.panel_block) {
            work.pack_panels(panel);
            for (index_t f = work.first_channel; f < work.last_channel; f += plan.tile_channels) {
                const index_t channels = min(plan.tile_channels, work.last_channel - f);
                work.multiply(f, channels, work.load_tile(f, channels));
            }
        }
    }
    work.finish();
}

// Adds the partial sums in their order and writes the weights.
static void add_partials(WeightRun& run, index_t group, index_t panel, index_t part, index_t parts) {
    const WeightPlan& plan = run.plan;
    const cg_problem& p = run.p;
    const index_t all = p.fine_channels * run.taps * run.panel;
    float* first = run.partial_sums + (group * plan.panels + panel) * all;
    for (index_t number = 0; number < plan.group_count; ++number) {
        AxisTaps taps[3];
        tap_group(run.plan.taps, run.plan.tap_groups, number, taps);
        const index_t count = tap_count(taps) * run.panel;
        const index_t begin = p.fine_channels * part / parts, end = p.fine_channels * (part + 1) / parts;
        float* sums = first + (p.fine_channels * taps_before(run, number)) * run.panel + begin * count;
        for (index_t i = 0; i < (end - begin) * count; i += LANES) {
            vf v = load(sums + i);
            for (index_t s = 1; s < plan.partials; ++s) v += load(sums + s * p.groups * plan.panels * all + i);
            store(sums + i, v);
        }
        write_weights(run, group, taps, begin, end - begin, panel, sums);
    }
}

static int run_weight(const cg_problem& p, const WeightPlan& plan, int threads, bool in_pairs) {
    const BiasRun bias(p);
    WeightRun run{p,
                  plan,
                  make_source(p.fine_operand),
                  make_source(p.coarse_operand),
                  make_target(p.to_weight),
                  p.window[0] * p.window[1] * p.window[2],
                  index_t(plan.nr_vectors) * LANES,
                  fine_is_tile(p, plan),
                  in_pairs,
                  false,
                  false,
                  bias};
    // What the caches hold is not prefetched; nor are cache lines that groups share, which the first of them loads.
    run.prefetches_fine = !run.fine_in_place &&
                          exceeds_cache(p.fine_operand, p.batch * p.groups * p.fine_channels, p.fine) &&
                          (p.groups == 1 || !channels_touch(p.fine_operand));
    run.prefetches_coarse = exceeds_cache(p.coarse_operand, p.batch * p.groups * p.coarse_channels, p.coarse) &&
                            (p.groups == 1 || !channels_touch(p.coarse_operand));
    const int panel = plan.nr_vectors, last = int(ceil_div(p.coarse_channels - (plan.panels - 1) * run.panel, LANES));
    for (int rows = 1; rows <= MAX_MR; ++rows) {
        for (int is_last = 0; is_last < 2; ++is_last) {
            auto& kernel = is_last ? run.last_kernel : run.kernel;
            const int vectors = is_last ? last : panel;
            kernel[ALL_PIXELS][rows] = weight_kernel_for<ALL_PIXELS>(rows, vectors, panel);
            kernel[LISTED_PIXELS][rows] = weight_kernel_for<LISTED_PIXELS>(rows, vectors, panel);
            if (HAS_PAIRS) kernel[LISTED_PAIRS][rows] = weight_kernel_for<LISTED_PAIRS>(rows, vectors, panel);
        }
    }
    if (plan.shared.bytes > 0) {
        const SharedScratch shared(plan.shared);
        if (shared.memory == nullptr) return CG_OUT_OF_MEMORY;
        if (plan.bias_sums > 0) run.bias_sums = shared.at(plan.bias);
        if (plan.partials > 1) run.partial_sums = shared.at(plan.partial_sums);
        for (index_t i = 0; i < plan.bias_sums; ++i) run.bias_sums[i] = 0;
    }
    auto body = [&](index_t task, char* scratch) {
        const index_t panel_part = task % plan.panel_split;
        task /= plan.panel_split;
        const index_t channel_part = task % plan.channel_split;
        task /= plan.channel_split;
        const index_t number = task % plan.group_count;
        task /= plan.group_count;
        weight_task(run, WeightTask{task / p.groups, task % p.groups, number, channel_part, panel_part}, scratch);
    };
    const index_t tasks = plan.partials * p.groups * plan.group_count * plan.channel_split * plan.panel_split;
    int status = in_parallel(threads, tasks, plan.task.bytes, body);
    if (status == CG_OK && plan.partials > 1) {
        const index_t parts = min(p.fine_channels, 4);
        auto add = [&](index_t task, char*) {
            add_partials(run, task / parts / plan.panels, task / parts % plan.panels, task % parts, parts);
        };
        status = in_parallel(threads, p.groups * plan.panels * parts, 0, add);
    }
    if (status != CG_OK) return status;
    if (plan.bias_sums > 0) store_bias(bias, run.bias_sums, plan.partials);
    if (is_raised(&run.coarse_broken) && is_raised(&run.padding_met)) return STATUS_REDO_PLAIN;
    // The cell after the last of a line is multiplied with nothing: that must not be inf times zero.
    const bool exact = !is_raised(&run.fine_broken) && pairs_are_exact(run.smallest_fine, run.smallest_coarse);
    return in_pairs && !exact ? int(STATUS_REDO_UNPAIRED) : int(CG_OK);
}

static int run_gemm_weight(const Call& call, const Plan& plan) {
    const cg_problem& p = call.p;
    const bool in_pairs = HAS_PAIRS && fits_bfloat(p.fine_operand) && fits_bfloat(p.coarse_operand);
    const int status = run_weight(p, plan.weight, call.threads, in_pairs);
    return status == STATUS_REDO_UNPAIRED ? run_weight(p, plan.weight, call.threads, false) : status;
}

}  // namespace
}  // namespace cg
