// One task of few channels: a run of pixels of some groups.
#pragma once

#include "blocking/prefetch.inl.h"
#include "blocking/weight_window.inl.h"
#include "isa.h"
#include "numbers/store.inl.h"
#include "paths.h"
#include "paths/bias/kernels.inl.h"
#include "paths/few_channels/kernels.inl.h"
#include "scratch.inl.h"
#include "tasks.inl.h"

namespace cg {
namespace {

struct FewRun {
    const cg_problem& p;
    const FewPlan& plan;
    const Source fine, coarse;
    const Target target;
    const BiasRun& bias;
    bool coarse_in_place;  // float32 lines of whole vectors
    bool prefetches_fine, prefetches_coarse;
    float* sums = nullptr;        // [run of pixels][group][(f, tap)][c][lane]
    double* bias_sums = nullptr;  // [run of pixels][channel]
    int padding_met = 0, broken = 0;
    FewKernel kernel[MAX_TOGETHER + 1][MAX_MR + 1] = {};  // by coarse channels and rows

    index_t group_sums() const { return p.fine_channels * plan.count * p.coarse_channels * 8; }
};

// Whether the coarse operand can be read where it lies, eight pixels at a time: lines, and the parts blocks cut them
// into, must be whole vectors, or the last one would count the first pixels of the next block as well.
static bool lines_are_vectors(const cg_problem& p, const FewPlan& plan) {
    const index_t* st = p.coarse_operand.stride;
    double reach = double(plan.blocks.per[0]) * double(magnitude(st[0]));
    for (int a = 0; a < 3; ++a) reach += double(plan.blocks.per[a + 1]) * double(magnitude(st[a + 2]));
    return load_kind(p.coarse_operand) == LOAD_F32 && st[4] == 1 && p.coarse[2] % 8 == 0 &&
           plan.blocks.per[3] % 8 == 0 && reach < double(1 << 30);
}

// A run of pixels of a few groups: those that share cache lines are copied together.
struct FewWork {
    FewRun& run;
    const cg_problem& p;
    const FewPlan& plan;
    const index_t partial, group, groups;
    float *tile, *copied;
    Pixel* pixel;
    int* row;  // first cell of every row of the result: (channel of the tile, tap)
    Box box, next_box;
    bool last_block = false, padding_zeroed = false;
    Tile t;
    index_t lines = 0, vectors = 0, steps = 0;  // of the block, of a line, of the block
    index_t listed_size[4] = {};
    const float* coarse = nullptr;
    index_t coarse_plane = 0;
    Prefetch next_coarse;
    FillReport report;

    FewWork(FewRun& whole, index_t run_of_pixels, index_t first_group, index_t some_groups, char* scratch)
        : run(whole), p(whole.p), plan(whole.plan), partial(run_of_pixels), group(first_group), groups(some_groups) {
        const Scratch pieces{scratch};
        tile = pieces.at(plan.tile);
        copied = pieces.at(plan.coarse);
        pixel = (Pixel*)pieces.at(plan.steps);
        row = pieces.at(plan.rows);
        zero(sums_of(0), groups * run.group_sums());
    }

    float* sums_of(index_t j) const { return run.sums + (partial * p.groups + group + j) * run.group_sums(); }

    // Block `number` of the run that ends at `end`.
    void go_to(index_t number, index_t end) {
        last_block = number + 1 == end;
        block_box(plan.blocks, number, &box);
        block_box(plan.blocks, last_block ? number : number + 1, &next_box);
        shape_tile(box, plan.span, plan.slots, false, &t);
        for (int a = 0; a < 3; ++a) t.axis[a] = tile_axis(plan.taps[a], p.stride[a]);
        padding_zeroed = false;
        vectors = ceil_div(box.end[3] - box.begin[3], 8);
        bool like_before = true;
        for (int a = 0; a < 4; ++a) {
            const index_t size = box.end[a] - box.begin[a];
            like_before &= size == listed_size[a];
            listed_size[a] = size;
        }
        lines = listed_size[0] * listed_size[1] * listed_size[2];
        if (!like_before) list_vectors();
    }

    void list_vectors() {
        const index_t* st = p.coarse_operand.stride;
        const index_t image = run.coarse_in_place ? st[0] : listed_size[1] * listed_size[2] * vectors * 8;
        const index_t depth = run.coarse_in_place ? st[2] : listed_size[2] * vectors * 8;
        const index_t line = run.coarse_in_place ? st[3] : vectors * 8;
        steps = 0;
        for (index_t n = 0; n < listed_size[0]; ++n)
            for (index_t d = 0; d < listed_size[1]; ++d)
                for (index_t r = 0; r < listed_size[2]; ++r)
                    for (index_t v = 0; v < vectors; ++v)
                        pixel[steps++] = Pixel{int(n * t.unit + d * t.plane + r * t.pitch + v * 8),
                                               int(n * image + d * depth + r * line + v * 8)};
    }

    // The coarse values of the block: where they lie, or copied to lines of whole vectors.
    void load_coarse() {
        const cg_tensor& tensor = p.coarse_operand;
        const index_t* st = tensor.stride;
        const index_t first = group * p.coarse_channels, channels = groups * p.coarse_channels;
        const index_t at =
            box.begin[0] * st[0] + first * st[1] + box.begin[1] * st[2] + box.begin[2] * st[3] + box.begin[3] * st[4];
        coarse = copied;
        coarse_plane = lines * vectors * 8;
        if (run.coarse_in_place) {
            coarse = (const float*)tensor.data + at;
            coarse_plane = st[1];
        } else {
            copy_coarse(at, channels);
        }
        next_coarse = Prefetch();
        if (run.prefetches_coarse && !last_block)
            next_coarse.start(tensor, next_box.begin[0], next_box.end[0], first, channels, next_box.begin + 1,
                              next_box.end + 1);
        if (plan.bias_sums == 0) return;
        double* sums = run.bias_sums + partial * p.groups * p.coarse_channels;
        if (st[4] == 1) add_bias(run.bias, box, first, first + channels, sums);
        else
            for (index_t c = 0; c < channels; ++c) sums[first + c] += plane_sum(copied + c * coarse_plane);
    }

    void copy_coarse(index_t at, index_t channels) {
        const index_t* st = p.coarse_operand.stride;
        const index_t cells = listed_size[3], pitch = vectors * 8;
        if (cells < pitch)
            for (index_t i = 0; i < channels * lines; ++i) zero(copied + i * pitch + cells, pitch - cells);
        float* to = copied;
        for (index_t n = 0; n < listed_size[0]; ++n)
            for (index_t d = 0; d < listed_size[1]; ++d, to += listed_size[2] * pitch) {
                const index_t plane = at + n * st[0] + d * st[2];
                if (channels_touch(p.coarse_operand))
                    for (index_t r = 0; r < listed_size[2]; ++r)
                        run.coarse.transposed(run.coarse, plane + r * st[3], cells, st[4], channels, to + r * pitch,
                                              coarse_plane);
                else
                    for (index_t c = 0; c < channels; ++c)
                        run.coarse.rows(run.coarse, plane + c * st[1], listed_size[2], st[3], cells, st[4],
                                        to + c * coarse_plane, pitch);
            }
    }

    double plane_sum(const float* values) const {
        DoubleSum sum;
        for (index_t i = 0; i < coarse_plane; i += 8) sum.add(load8(values + i));
        return sum.total();
    }

    // The cells of fine channels [f, f + channels) of every group, and where the rows of the result find theirs. All of
    // the tile is filled, and what the last vector reads beyond it: zero times anything must be zero.
    void load_tile(index_t f, index_t channels) {
        fill_tile(run.fine, p.fine, t, box, group * p.fine_channels + f, groups * channels, nullptr, tile, &report,
                  nullptr, padding_zeroed);
        padding_zeroed = true;
        zero(tile + groups * channels * t.channel, 8);
        tap_offsets(t, plan.taps, row);
        for (index_t c = 1; c < channels; ++c)
            for (index_t i = 0; i < plan.count; ++i) row[c * plan.count + i] = row[i] + int(c * t.channel);
    }

    void multiply(index_t f, index_t channels) {
        const index_t parts = ceil_div(p.coarse_channels, MAX_TOGETHER);
        const index_t rows = channels * plan.count, at_once = few_rows(int(ceil_div(p.coarse_channels, parts)));
        const index_t row_floats = p.coarse_channels * 8, calls = groups * parts * ceil_div(rows, at_once);
        const bool last_tile = f + channels == p.fine_channels;
        Prefetch next_fine;
        if (run.prefetches_fine && !(last_tile && last_block)) {
            const index_t from = last_tile ? 0 : f + channels;
            next_fine =
                tile_prefetch(p.fine_operand, p.fine, p.stride, plan.span, t, last_tile ? next_box : box,
                              group * p.fine_channels + from, groups * min(plan.tile_channels, p.fine_channels - from));
        }
        const index_t fine_pace = ceil_div(next_fine.cache_lines(), calls);
        const index_t coarse_pace = ceil_div(next_coarse.cache_lines(), calls);
        for (index_t j = 0; j < groups; ++j) {
            const float* cells = tile + j * channels * t.channel;
            const float* values = coarse + j * p.coarse_channels * coarse_plane;
            float* sums = sums_of(j) + f * plan.count * row_floats;
            for (index_t i = 0; i < parts; ++i) {
                const index_t first = p.coarse_channels * i / parts, last = p.coarse_channels * (i + 1) / parts;
                for (index_t r = 0; r < rows; r += at_once) {
                    next_fine.advance<READS>(fine_pace);
                    next_coarse.advance<READS>(coarse_pace);
                    run.kernel[last - first][min(at_once, rows - r)](steps, pixel, cells, row + r,
                                                                     values + first * coarse_plane, coarse_plane,
                                                                     sums + r * row_floats + first * 8, row_floats);
                }
            }
        }
    }
};

// Adds the runs of pixels in their order, then the lanes, and writes the weights of fine channel f of a group.
static void write_few(FewRun& run, index_t group, index_t f) {
    enum { LINE = 64 };
    const cg_problem& p = run.p;
    const index_t *st = run.target.tensor->stride, channels = p.coarse_channels, count = run.plan.count;
    const index_t at = group * channels * st[0] + f * st[1], all = p.groups * run.group_sums();
    const float* sums = run.sums + group * run.group_sums() + f * count * channels * 8;
    const bool dense = dense_window(p);
    float line[MAX_FEW_CHANNELS * LINE];
    bool finite = true;
    for (index_t begin = 0; begin < count; begin += LINE) {
        const index_t length = min(LINE, count - begin);
        for (index_t i = 0; i < length * channels; ++i, sums += 8) {
            v8 v = load8(sums);
            for (index_t s = 1; s < run.plan.partials; ++s) v += load8(sums + s * all);
            line[i % channels * LINE + i / channels] = sum8(v);
        }
        for (index_t c = 0; c < channels; ++c) finite &= all_finite(line + c * LINE, length);
        if (dense) {
            run.target.rows(run.target, at + begin, channels, st[0], length, 1, line, LINE);
            continue;
        }
        for (index_t i = 0; i < length; ++i)
            run.target.rows(run.target, at + tap_place(p, begin + i, st), channels, st[0], 1, 1, line + i, LINE);
    }
    if (!finite) raise_flag(&run.broken);
}

static int run_few_channels(const Call& call, const Plan& whole) {
    const cg_problem& p = call.p;
    const FewPlan& plan = whole.few;
    const int threads = call.threads;
    const BiasRun bias(p);
    FewRun run{p,
               plan,
               make_source(p.fine_operand),
               make_source(p.coarse_operand),
               make_target(p.to_weight),
               bias,
               lines_are_vectors(p, plan),
               false,
               false};
    run.prefetches_fine = exceeds_cache(p.fine_operand, p.batch * p.groups * p.fine_channels, p.fine);
    run.prefetches_coarse = exceeds_cache(p.coarse_operand, p.batch * p.groups * p.coarse_channels, p.coarse);
    for (int channels = 1; channels <= MAX_TOGETHER; ++channels)
        for (int rows = 1; rows <= few_rows(channels); ++rows)
            run.kernel[channels][rows] = few_kernel_for(rows, channels);
    const SharedScratch shared(plan.shared);
    if (shared.memory == nullptr) return CG_OUT_OF_MEMORY;
    run.bias_sums = shared.at(plan.bias);
    run.sums = shared.at(plan.sums);
    for (index_t i = 0; i < plan.bias_sums; ++i) run.bias_sums[i] = 0;
    const index_t group_parts = ceil_div(p.groups, plan.groups_per_task);
    auto sum = [&](index_t task, char* scratch) {
        const index_t partial = task / group_parts, group = task % group_parts * plan.groups_per_task;
        FewWork work(run, partial, group, min(plan.groups_per_task, p.groups - group), scratch);
        const index_t end = plan.blocks.total * (partial + 1) / plan.partials;
        for (index_t b = plan.blocks.total * partial / plan.partials; b < end; ++b) {
            work.go_to(b, end);
            work.load_coarse();
            for (index_t f = 0; f < p.fine_channels; f += plan.tile_channels) {
                const index_t channels = min(plan.tile_channels, p.fine_channels - f);
                work.load_tile(f, channels);
                work.multiply(f, channels);
            }
        }
        if (work.report.padded) raise_flag(&run.padding_met);
    };
    int status = in_parallel(threads, plan.partials * group_parts, plan.task.bytes, sum);
    if (status != CG_OK) return status;
    auto write = [&](index_t task, char*) { write_few(run, task / p.fine_channels, task % p.fine_channels); };
    status = in_parallel(threads, p.groups * p.fine_channels, 0, write);
    if (status != CG_OK) return status;
    if (plan.bias_sums > 0) store_bias(bias, run.bias_sums, plan.partials);
    const bool zeros_met = is_raised(&run.padding_met) || p.coarse[2] % 8 != 0;
    return is_raised(&run.broken) && zeros_met ? int(STATUS_REDO_PLAIN) : int(CG_OK);
}

}  // namespace
}  // namespace cg
