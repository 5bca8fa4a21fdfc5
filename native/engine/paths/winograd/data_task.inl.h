// Data gradients with fewer multiplications.
#pragma once

#include "blocking/blocking_numbers.h"
#include "blocking/gather.h"
#include "isa.h"
#include "paths.h"
#include "paths/winograd/cells.inl.h"
#include "paths/winograd/kernels.inl.h"
#include "scratch.inl.h"
#include "tasks.inl.h"

namespace cg {
namespace {

struct WinogradData {
    const Transforms transforms;
    const Gather g;
    const WinogradPlan& plan;
    const TileGrid& grid;
    const bool turned;  // to fine: the window is read backwards
    const Source source, weight;
    const Target target;
    const WindowTaps window;
    const index_t reduced, result;  // channels in whole vectors
    int spoiled = 0;

    WinogradData(const Call& call, const WinogradPlan& w, const Transforms& t)
        : transforms(t),
          g(make_gather(call.p, call.contraction == TO_FINE)),
          plan(w),
          grid(w.grid),
          turned(call.contraction == TO_FINE),
          source(make_source(*g.source)),
          weight(make_source(*g.weight)),
          target(make_target(*g.target)),
          window(w.grid),
          reduced(round_up(g.in_channels, WINOGRAD_CHANNELS)),
          result(round_up(g.out_channels, WINOGRAD_CHANNELS)) {}

    Cells cells_of(index_t group, index_t first, index_t count) const {
        return Cells{source, group * g.in_channels + first, count, count};
    }

    // The windows of output channels [c, c + LANES) and one reduced channel.
    void transform_window(index_t group, index_t k, index_t c, index_t depth_tap, float* to, index_t apart) const {
        const index_t* st = weight.tensor->stride;
        const index_t tap = turned ? grid.taps - 1 - depth_tap : depth_tap;
        const index_t at = group * g.weight_group + k * g.weight_in + c * g.weight_out + tap * st[2];
        alignas(64) float taps[WINOGRAD_MOST_TAPS * LANES];
        load_windows(weight, window, at, g.weight_out, clamp(g.out_channels - c, 0, LANES), taps);
        const index_t last = turned ? (window.count - 1) * LANES : 0, step = turned ? -LANES : LANES;
        transforms.taps(taps + last, window.columns * step, step, to, apart);
    }

    // Prefetch of the windows transform_window reads for channel k: hardware does not find them.
    void prefetch_windows(index_t group, index_t k, index_t c, index_t depth_tap) const {
        if (weight.kind != LOAD_F32 || k >= g.in_channels) return;
        const index_t tap = turned ? grid.taps - 1 - depth_tap : depth_tap;
        const float* at = (const float*)weight.tensor->data + group * g.weight_group + k * g.weight_in +
                          c * g.weight_out + tap * weight.tensor->stride[2];
        for (index_t i = 0; i < min(LANES, g.out_channels - c); ++i) __builtin_prefetch(at + i * g.weight_out);
    }

    // S (+)= V * U for one panel of output channels: reduced channels [k0, k0 + depth), the items of a block.
    void multiply(index_t first, index_t count, index_t depth_tap, index_t k0, index_t depth, const float* v,
                  const float* u, index_t width, float* s, index_t s_pitch, bool add) const {
        const auto product = [&](index_t rows, const float* a, float* c) {
            for (index_t k = 0; k < depth; k += WINOGRAD_DATA_CHAIN)
                winograd_multiply(rows, width, min(WINOGRAD_DATA_CHAIN, depth - k), a + k0 + k, reduced, 1,
                                  u + k * width, width, c, s_pitch, add || k > 0);
        };
        if (grid.taps == 1) return product(count * grid.tiles, v, s);
        for (index_t i = 0; i < count; ++i) {  // the planes of each run that this tap ties to a plane of the source
            const index_t plane = place_of(grid, first + i).plane;
            const index_t shift = plane - grid.before[0] + depth_tap * grid.dilation[0];
            const index_t begin = clamp(-shift, 0, grid.run), end = clamp(grid.source[0] - shift, begin, grid.run);
            const index_t from = i * grid.source_planes + depth_tap * grid.dilation[0] + begin;
            product((end - begin) * grid.tiles, v + from * grid.tiles * reduced,
                    s + (i * grid.run + begin) * grid.tiles * s_pitch);
        }
    }

    int weights_stay(int threads) {
        const SharedScratch shared(plan.shared);
        if (shared.memory == nullptr) return CG_OUT_OF_MEMORY;
        float* u = shared.at(plan.weights);
        int status = CG_OK;
        for (index_t group = 0; group < g.groups && status == CG_OK; ++group) {
            status = transform_all_windows(threads, group, u);
            auto block = [&](index_t task, char* scratch) {
                const Scratch pieces{scratch};
                float *strip = pieces.at(plan.strip), *v = pieces.at(plan.source), *s = pieces.at(plan.sums);
                const index_t first = task * plan.block_items, count = min(plan.block_items, grid.items - first);
                transform_source(grid, transforms.source, cells_of(group, 0, g.in_channels), first, count, v,
                                 plan.source_apart, reduced, strip);
                for (index_t p = 0; p < plan.products; ++p) {
                    float* sums = s + p * plan.sums_apart;
                    if (grid.taps > 1) zero_floats(sums, count * grid.run * grid.tiles * result);
                    for (index_t c = 0; c < result; c += WINOGRAD_PANEL)
                        for (index_t z = 0; z < grid.taps; ++z)
                            multiply(first, count, z, 0, g.in_channels, v + p * plan.source_apart,
                                     u + (z * plan.products + p) * plan.weights_apart + c * g.in_channels,
                                     min(WINOGRAD_PANEL, result - c), sums + c, result, grid.taps > 1);
                }
                uf seen = uf{};
                write_cells(grid, transforms.results, target, group * g.out_channels, g.out_channels, first, count, s,
                            plan.sums_apart, result, strip, &seen);
                if (holds_spoiled(seen)) raise_flag(&spoiled);
            };
            if (status == CG_OK) status = in_parallel(threads, plan.blocks, plan.task.bytes, block);
        }
        return status;
    }

    int transform_all_windows(int threads, index_t group, float* u) const {
        enum { TOGETHER = 8 };
        auto transform = [&](index_t task, char*) {
            for (index_t k = task * TOGETHER; k < min(g.in_channels, task * TOGETHER + TOGETHER); ++k)
                for (index_t z = 0; z < grid.taps; ++z)
                    for (index_t c = 0; c < result; c += LANES) {
                        const index_t panel = c / WINOGRAD_PANEL * WINOGRAD_PANEL;
                        const index_t width = min(WINOGRAD_PANEL, result - panel);
                        transform_window(group, k, c, z,
                                         u + z * plan.products * plan.weights_apart + panel * g.in_channels +
                                             k * width + (c - panel),
                                         plan.weights_apart);
                    }
        };
        return in_parallel(threads, ceil_div(g.in_channels, TOGETHER), 0, transform);
    }

    int tiles_stay(int threads) {
        const SharedScratch shared(plan.shared);
        if (shared.memory == nullptr) return CG_OUT_OF_MEMORY;
        float* v = shared.at(plan.source);
        int status = CG_OK;
        for (index_t number = 0; number < g.groups * plan.blocks && status == CG_OK; ++number) {
            const index_t group = number / plan.blocks, first = number % plan.blocks * plan.block_items;
            const index_t count = min(plan.block_items, grid.items - first);
            status = transform_block(threads, group, first, count, v);
            auto panel = [&](index_t task, char* scratch) {
                multiply_panel(group, first, count, task * WINOGRAD_PANEL, v, Scratch{scratch});
            };
            if (status == CG_OK)
                status = in_parallel(threads, ceil_div(result, WINOGRAD_PANEL), plan.task.bytes, panel);
        }
        return status;
    }

    int transform_block(int threads, index_t group, index_t first, index_t count, float* v) const {
        const index_t strips = ceil_div(g.in_channels, STRIP_CHANNELS);
        const index_t parts = clamp(ceil_div(4 * threads, strips), 1, count);
        auto transform = [&](index_t task, char* scratch) {
            const index_t c = task % strips * STRIP_CHANNELS, part = task / strips;
            const index_t begin = count * part / parts, end = count * (part + 1) / parts;
            transform_source(grid, transforms.source, cells_of(group, c, min(STRIP_CHANNELS, g.in_channels - c)),
                             first + begin, end - begin, v + begin * grid.source_planes * grid.tiles * reduced + c,
                             plan.source_apart, reduced, Scratch{scratch}.at(plan.strip));
        };
        return in_parallel(threads, strips * parts, plan.task.bytes, transform);
    }

    void multiply_panel(index_t group, index_t first, index_t count, index_t c, const float* v, const Scratch& pieces) {
        float *strip = pieces.at(plan.strip), *u = pieces.at(plan.weights), *s = pieces.at(plan.sums);
        const index_t width = min(WINOGRAD_PANEL, result - c);
        if (grid.taps > 1)
            for (index_t p = 0; p < plan.products; ++p)
                zero_floats(s + p * plan.sums_apart, count * grid.run * grid.tiles * width);
        for (index_t z = 0; z < grid.taps; ++z)
            for (index_t k0 = 0; k0 < g.in_channels; k0 += WINOGRAD_DEPTH) {
                const index_t depth = min(WINOGRAD_DEPTH, g.in_channels - k0);
                for (index_t k = 0; k < depth; ++k)
                    for (index_t i = 0; i < width; i += LANES) {
                        prefetch_windows(group, k0 + k + 2, c + i, z);
                        transform_window(group, k0 + k, c + i, z, u + k * width + i, plan.weights_apart);
                    }
                for (index_t p = 0; p < plan.products; ++p)
                    multiply(first, count, z, k0, depth, v + p * plan.source_apart, u + p * plan.weights_apart, width,
                             s + p * plan.sums_apart, width, k0 > 0 || grid.taps > 1);
            }
        uf seen = uf{};
        write_cells(grid, transforms.results, target, group * g.out_channels + c, min(width, g.out_channels - c), first,
                    count, s, plan.sums_apart, width, strip, &seen);
        if (holds_spoiled(seen)) raise_flag(&spoiled);
    }
};

static int run_winograd_data(const Call& call, const WinogradPlan& plan, const Transforms& transforms) {
    WinogradData run(call, plan, transforms);
    const int status = plan.mode == WEIGHTS_STAY ? run.weights_stay(call.threads) : run.tiles_stay(call.threads);
    return status == CG_OK && is_raised(&run.spoiled) ? int(STATUS_REDO_DIRECT) : status;
}

template <int N> static int run_winograd_data(const Call& call, const Plan& plan) {
    return run_winograd_data(call, plan.winograd, square_transforms_of<N>(plan.winograd.grid.window[1]));
}

template <int N> static int run_winograd_line_data(const Call& call, const Plan& plan) {
    const WinogradPlan& w = plan.winograd;
    const cg_problem p = winograd::oriented(call.p, LINE);
    return run_winograd_data(Call{p, call.contraction, call.lanes, call.threads}, w,
                             line_transforms_of<N>(w.grid.window[1] * w.grid.window[2]));
}

}  // namespace
}  // namespace cg
