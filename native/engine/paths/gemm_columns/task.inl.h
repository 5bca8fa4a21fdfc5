// The weight contraction of few pixels, where most of the time would go into putting the results in order:
//
//   weight[c, (f, tap)] = sum over pixels of coarse[c, pixel] * column[pixel][(f, tap)]
//
// The columns are the cells under every tap, zero where it meets padding. They are laid out once; the results then come
// out as long rows of the weight tensor.
#pragma once

#include "blocking/weight_window.inl.h"
#include "isa.h"
#include "numbers/load.inl.h"
#include "numbers/store.inl.h"
#include "paths.h"
#include "paths/gemm_data/kernels.inl.h"
#include "scratch.inl.h"
#include "tasks.inl.h"

namespace cg {
namespace {

struct ColumnRun {
    const cg_problem& p;
    const ColumnPlan& plan;
    const Source fine, coarse;
    const Target target;
    float *columns = nullptr, *rows = nullptr;  // panels [pixel][LANES*2] of (f, tap); panels [pixel][ISA_MR] of c
    int coarse_broken = 0, padding_met = 0;
    GatherKernel kernel[ISA_MR + 1] = {};
};

// cell[tap*pixels + pixel] = where in the planes of a channel, all images, the tap finds its value; -1 on padding.
OUTLINE static bool find_cells(const cg_problem& p, index_t pixels, int* cell) {
    bool padded = false;
    index_t tap = 0;
    for (index_t z = 0; z < p.window[0]; ++z)
        for (index_t y = 0; y < p.window[1]; ++y)
            for (index_t x = 0; x < p.window[2]; ++x, ++tap) {
                int* to = cell + tap * pixels;
                const index_t at[3] = {z * p.dilation[0] - p.pad[0], y * p.dilation[1] - p.pad[1],
                                       x * p.dilation[2] - p.pad[2]};
                for (index_t n = 0; n < p.batch; ++n)
                    for (index_t d = 0; d < p.coarse[0]; ++d)
                        for (index_t r = 0; r < p.coarse[1]; ++r)
                            for (index_t c = 0; c < p.coarse[2]; ++c) {
                                const index_t i = d * p.stride[0] + at[0], j = r * p.stride[1] + at[1],
                                              k = c * p.stride[2] + at[2];
                                const bool inside =
                                    i >= 0 && i < p.fine[0] && j >= 0 && j < p.fine[1] && k >= 0 && k < p.fine[2];
                                padded |= !inside;
                                *to++ = inside ? int(((n * p.fine[0] + i) * p.fine[1] + j) * p.fine[2] + k) : -1;
                            }
            }
    return padded;
}

// Columns of channels [begin, end) of a group, `first` being the channel the panels begin with.
static void lay_columns(ColumnRun& run, index_t group, index_t first, index_t begin, index_t end, char* scratch) {
    const cg_problem& p = run.p;
    const ColumnPlan& plan = run.plan;
    const index_t panel = 2 * LANES;
    const Scratch pieces{scratch};
    int* cell = pieces.at(plan.cells);
    float* planes = pieces.at(plan.planes);
    if (find_cells(p, plan.pixels, cell)) raise_flag(&run.padding_met);
    const index_t* st = run.fine.tensor->stride;
    for (index_t f = begin; f < end; ++f) {
        float* to = planes;
        for (index_t n = 0; n < p.batch; ++n)
            for (index_t d = 0; d < p.fine[0]; ++d, to += p.fine[1] * p.fine[2])
                run.fine.rows(run.fine, n * st[0] + (group * p.fine_channels + f) * st[1] + d * st[2], p.fine[1], st[3],
                              p.fine[2], st[4], to, p.fine[2]);
        for (index_t tap = 0; tap < plan.taps; ++tap) {
            const index_t column = (f - first) * plan.taps + tap;
            float* out = run.columns + column / panel * panel * plan.pixels + column % panel;
            const int* from = cell + tap * plan.pixels;
            for (index_t k = 0; k < plan.pixels; ++k) out[k * panel] = from[k] < 0 ? 0.0f : planes[from[k]];
        }
    }
}

// ISA_MR coarse channels as [pixel][ISA_MR].
static void pack_row_panel(ColumnRun& run, index_t group, index_t panel) {
    const cg_problem& p = run.p;
    const index_t* st = run.coarse.tensor->stride;
    const index_t begin = panel * ISA_MR, height = min(index_t(ISA_MR), p.coarse_channels - begin);
    float* out = run.rows + begin * run.plan.pixels;
    float line[256];
    bool finite = true;
    for (index_t i = 0; i < height; ++i) {
        float* to = line;
        const index_t at = (group * p.coarse_channels + begin + i) * st[1];
        for (index_t n = 0; n < p.batch; ++n)
            for (index_t d = 0; d < p.coarse[0]; ++d, to += p.coarse[1] * p.coarse[2])
                finite &= run.coarse.rows(run.coarse, at + n * st[0] + d * st[2], p.coarse[1], st[3], p.coarse[2],
                                          st[4], to, p.coarse[2]);
        for (index_t k = 0; k < run.plan.pixels; ++k) out[k * height + i] = line[k];
    }
    if (!finite) raise_flag(&run.coarse_broken);
}

// Rows [ISA_MR*panel, ...) of the weights of a group: channels [first, last) and all of their taps.
static void multiply_row_panel(ColumnRun& run, index_t group, index_t first, index_t last, index_t panel,
                               char* scratch) {
    const cg_problem& p = run.p;
    const ColumnPlan& plan = run.plan;
    const index_t width = 2 * LANES, begin = panel * ISA_MR, height = min(index_t(ISA_MR), p.coarse_channels - begin);
    const index_t count = (last - first) * plan.taps;
    const index_t* st = run.target.tensor->stride;
    const index_t at = (group * p.coarse_channels + begin) * st[0] + first * st[1];
    const float* weights = run.rows + begin * plan.pixels;
    const bool dense = dense_window(p) && (p.fine_channels == 1 || st[1] == plan.taps);
    const bool in_place = dense && run.target.kind == STORE_F32;
    // Whole panels go straight into the tensor; the rest by way of a line of results.
    const index_t whole = in_place ? count / width * width : 0;
    float* result = (float*)run.target.tensor->data + at;
    const PanelColumn straight{plan.pixels, CHAIN, nullptr, 1, 0, st[0], st[0], false};
    for (index_t i = 0; i < whole; i += width)
        run.kernel[height](straight, 1, weights, run.columns + i * plan.pixels, result + i, result + i);
    float* line = Scratch{scratch}.at(plan.line);
    const PanelColumn by_line{plan.pixels, CHAIN, nullptr, 1, 0, COLUMN_LINE, COLUMN_LINE, false};
    for (index_t i = whole; i < count; i += COLUMN_LINE) {
        const index_t length = min(COLUMN_LINE, count - i);
        for (index_t j = 0; j < length; j += width)
            run.kernel[height](by_line, 1, weights, run.columns + (i + j) * plan.pixels, line + j, line + j);
        if (dense) {
            run.target.rows(run.target, at + i, height, st[0], length, 1, line, COLUMN_LINE);
            continue;
        }
        for (index_t j = 0; j < length; ++j) {
            const index_t to = at + (i + j) / plan.taps * st[1] + tap_place(p, (i + j) % plan.taps, st);
            for (index_t r = 0; r < height; ++r)
                run.target.rows(run.target, to + r * st[0], 1, 0, 1, 1, line + r * COLUMN_LINE + j, 0);
        }
    }
}

static int run_gemm_columns(const Call& call, const Plan& whole) {
    const cg_problem& p = call.p;
    const ColumnPlan& plan = whole.columns;
    const int threads = call.threads;
    ColumnRun run{p, plan, make_source(p.fine_operand), make_source(p.coarse_operand), make_target(p.to_weight)};
    for (int rows = 1; rows <= ISA_MR; ++rows) run.kernel[rows] = gather_kernel_for<PACKED_BOTH, false>(rows, 2);
    const SharedScratch shared(plan.shared);
    if (shared.memory == nullptr) return CG_OUT_OF_MEMORY;
    run.rows = shared.at(plan.rows);
    run.columns = shared.at(plan.columns);
    const index_t row_panels = ceil_div(p.coarse_channels, ISA_MR);
    for (index_t group = 0; group < p.groups; ++group)
        for (index_t first = 0; first < p.fine_channels; first += plan.channels_at_once) {
            const index_t last = min(p.fine_channels, first + plan.channels_at_once);
            const index_t parts = ceil_div(last - first, plan.channels_per_task);
            auto lay = [&](index_t task, char* scratch) {
                if (task >= parts) return pack_row_panel(run, group, task - parts);
                const index_t begin = first + task * plan.channels_per_task;
                lay_columns(run, group, first, begin, min(last, begin + plan.channels_per_task), scratch);
            };
            int status = in_parallel(threads, parts + (first == 0 ? row_panels : 0), plan.task.bytes, lay);
            if (status != CG_OK) return status;
            auto multiply = [&](index_t task, char* scratch) {
                multiply_row_panel(run, group, first, last, task, scratch);
            };
            status = in_parallel(threads, row_panels, plan.task.bytes, multiply);
            if (status != CG_OK) return status;
        }
    return is_raised(&run.coarse_broken) && is_raised(&run.padding_met) ? int(STATUS_REDO_PLAIN) : int(CG_OK);
}

}  // namespace
}  // namespace cg
