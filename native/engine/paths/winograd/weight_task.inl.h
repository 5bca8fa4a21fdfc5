// Weight gradients with fewer multiplications.
#pragma once

#include "blocking/blocking_numbers.h"
#include "isa.h"
#include "paths.h"
#include "paths/winograd/cells.inl.h"
#include "paths/winograd/kernels.inl.h"
#include "scratch.inl.h"
#include "tasks.inl.h"

namespace cg {
namespace {

struct WinogradWeight {
    const Transforms transforms;
    const cg_problem& p;
    const WinogradPlan& plan;
    const TileGrid& grid;
    const Source fine, coarse, before;  // before: the result, read again to be added to
    const Target target;
    const WindowTaps window;
    const index_t width;  // fine channels in whole vectors
    int spoiled = 0;

    WinogradWeight(const Call& call, const WinogradPlan& w, const Transforms& t)
        : transforms(t),
          p(call.p),
          plan(w),
          grid(w.grid),
          fine(make_source(p.fine_operand)),
          coarse(make_source(p.coarse_operand)),
          before(make_source(p.to_weight)),
          target(make_target(p.to_weight)),
          window(w.grid),
          width(round_up(p.fine_channels, WINOGRAD_CHANNELS)) {}

    // S (+)= Y * X over the tiles of some items, for one tap of the depth.
    void multiply(index_t first, index_t count, index_t depth_tap, index_t rows, const float* y, const float* x,
                  index_t x_pitch, index_t columns, float* s, bool add) const {
        const auto product = [&](index_t tiles, const float* a, const float* b) {
            for (index_t c = 0; c < columns; c += WINOGRAD_PANEL)
                for (index_t t = 0; t < tiles; t += WINOGRAD_WEIGHT_CHAIN)
                    winograd_multiply(rows, min(WINOGRAD_PANEL, columns - c), min(WINOGRAD_WEIGHT_CHAIN, tiles - t),
                                      a + t * plan.chunk_coarse, 1, plan.chunk_coarse, b + t * x_pitch + c, x_pitch,
                                      s + c, plan.chunk_fine, add || t > 0);
        };
        if (grid.taps == 1) return product(count * grid.tiles, y, x);
        for (index_t i = 0; i < count; ++i) {  // the planes of each run that this tap ties to a plane of the source
            const index_t plane = place_of(grid, first + i).plane, planes = min(grid.run, grid.cells[0] - plane);
            const index_t shift = plane - grid.before[0] + depth_tap * grid.dilation[0];
            const index_t begin = clamp(-shift, 0, planes), end = clamp(grid.source[0] - shift, begin, planes);
            const index_t from = i * grid.source_planes + depth_tap * grid.dilation[0] + begin;
            product((end - begin) * grid.tiles, y + (i * grid.run + begin) * grid.tiles * plan.chunk_coarse,
                    x + from * grid.tiles * x_pitch);
        }
    }

    // The windows of coarse channels [k0, k0 + rows) and fine channels [c0, c0 + columns) of a group, from their sums.
    template <class F> void windows(index_t rows, index_t columns, const float* s, F&& body) {
        uf seen = uf{};
        for (index_t k = 0; k < rows; ++k)
            for (index_t c = 0; c < columns; c += LANES) {
                alignas(64) float taps[WINOGRAD_MOST_TAPS * LANES];
                transforms.windows(s + k * plan.chunk_fine + c, plan.sums_apart, taps, window.columns * LANES, LANES,
                                   &seen);
                body(k, c, taps);
            }
        if (holds_spoiled(seen)) raise_flag(&spoiled);
    }

    index_t window_at(index_t group, index_t k, index_t c, index_t depth_tap) const {
        const index_t* st = target.tensor->stride;
        return (group * p.coarse_channels + k) * st[0] + c * st[1] + depth_tap * st[2];
    }
    index_t lanes_from(index_t c) const { return clamp(p.fine_channels - c, 0, LANES); }

    // A run of blocks and a chunk of channels: every tap of the depth has its sums.
    void sum_run(index_t group, index_t partial, index_t k0, index_t c0, float* partials, const Scratch& pieces) {
        float *strip = pieces.at(plan.strip), *x = pieces.at(plan.source), *y = pieces.at(plan.window);
        float* s = pieces.at(plan.sums);
        const index_t rows = min(plan.chunk_coarse, p.coarse_channels - k0);
        const index_t columns = min(plan.chunk_fine, width - c0);
        const Cells of_fine{fine, group * p.fine_channels + c0, min(columns, p.fine_channels - c0), columns};
        const Cells of_coarse{coarse, group * p.coarse_channels + k0, rows, rows};
        const index_t end = plan.blocks * (partial + 1) / plan.partials;
        zero_floats(s, grid.taps * plan.products * plan.sums_apart);
        for (index_t b = plan.blocks * partial / plan.partials; b < end; ++b) {
            const index_t first = b * plan.block_items, count = min(plan.block_items, grid.items - first);
            transform_source(grid, transforms.source, of_fine, first, count, x, plan.source_apart, plan.chunk_fine,
                             strip);
            transform_cells(grid, transforms.cells, of_coarse, first, count, y, plan.window_apart, plan.chunk_coarse,
                            strip);
            for (index_t q = 0; q < plan.products; ++q)
                for (index_t z = 0; z < grid.taps; ++z)
                    multiply(first, count, z, rows, y + q * plan.window_apart, x + q * plan.source_apart,
                             plan.chunk_fine, columns, s + (z * plan.products + q) * plan.sums_apart, true);
        }
        for (index_t z = 0; z < grid.taps; ++z)
            windows(rows, columns, s + z * plan.products * plan.sums_apart,
                    [&](index_t k, index_t c, const float* taps) {
                        if (plan.partials == 1)
                            return store_windows(target, window, window_at(group, k0 + k, c0 + c, z),
                                                 lanes_from(c0 + c), taps);
                        float* to = partials + partial_at(partial, k0 + k, z) + c0 + c;
                        for (index_t tap = 0; tap < window.count; ++tap)
                            store(to + tap * width, load(taps + tap * LANES));
                    });
    }

    index_t partial_at(index_t partial, index_t k, index_t depth_tap) const {
        return ((partial * p.coarse_channels + k) * grid.taps + depth_tap) * window.count * width;
    }

    // Runs of blocks are added in their order.
    void add_partials(index_t group, index_t k, const float* partials) const {
        for (index_t z = 0; z < grid.taps; ++z)
            for (index_t c = 0; c < width; c += LANES) {
                alignas(64) float taps[WINOGRAD_MOST_TAPS * LANES];
                for (index_t tap = 0; tap < window.count; ++tap) {
                    vf sum = load(partials + partial_at(0, k, z) + tap * width + c);
                    for (index_t i = 1; i < plan.partials; ++i)
                        sum = sum + load(partials + partial_at(i, k, z) + tap * width + c);
                    store(taps + tap * LANES, sum);
                }
                store_windows(target, window, window_at(group, k, c, z), lanes_from(c), taps);
            }
    }

    int runs(int threads) {
        const SharedScratch shared(plan.shared);
        if (shared.memory == nullptr) return CG_OUT_OF_MEMORY;
        float* partials = shared.at(plan.partial_sums);
        const index_t rows = ceil_div(p.coarse_channels, plan.chunk_coarse), columns = ceil_div(width, plan.chunk_fine);
        int status = CG_OK;
        for (index_t group = 0; group < p.groups && status == CG_OK; ++group) {
            auto sum = [&](index_t task, char* scratch) {
                const index_t chunk = task / plan.partials;
                sum_run(group, task % plan.partials, chunk % rows * plan.chunk_coarse, chunk / rows * plan.chunk_fine,
                        partials, Scratch{scratch});
            };
            status = in_parallel(threads, rows * columns * plan.partials, plan.task.bytes, sum);
            auto add = [&](index_t k, char*) { add_partials(group, k, partials); };
            if (status == CG_OK && plan.partials > 1) status = in_parallel(threads, p.coarse_channels, 0, add);
        }
        return status;
    }

    int shared_tiles(int threads) {
        const SharedScratch shared(plan.shared);
        if (shared.memory == nullptr) return CG_OUT_OF_MEMORY;
        float* x = shared.at(plan.source);
        const bool keeps = plan.blocks > 1 && store_kind(p.to_weight) != STORE_F32;
        float* kept = keeps ? shared.at(plan.partial_sums) : nullptr;
        const index_t parts = ceil_div(width, plan.shared_fine), blocks = parts * plan.blocks;
        int status = CG_OK;
        for (index_t number = 0; number < p.groups * blocks && status == CG_OK; ++number) {
            const index_t group = number / blocks, first = number % plan.blocks * plan.block_items;
            const Block b{group, first, min(plan.block_items, grid.items - first),
                          number % blocks / plan.blocks * plan.shared_fine};
            status = transform_block(threads, b, x);
            auto chunk = [&](index_t task, char* scratch) {
                sum_chunk(b, task * plan.chunk_coarse, x, kept, Scratch{scratch});
            };
            const index_t chunks = ceil_div(p.coarse_channels, plan.chunk_coarse);
            if (status == CG_OK) status = in_parallel(threads, chunks, plan.task.bytes, chunk);
        }
        return status;
    }

    // taps = sum + taps, and a copy.
    INLINE void add_taps(const float* sum, float* taps) const {
        for (index_t i = 0; i < window.count * LANES; i += LANES) store(taps + i, load(sum + i) + load(taps + i));
    }
    INLINE void copy_taps(const float* taps, float* to) const {
        for (index_t i = 0; i < window.count * LANES; i += LANES) store(to + i, load(taps + i));
    }

    // Items, and fine channels from `fine` on, whose transformed tiles are shared.
    struct Block {
        index_t group, first, count, fine;
    };
    index_t fine_end(const Block& b) const { return min(width, b.fine + plan.shared_fine); }

    int transform_block(int threads, const Block& b, float* x) const {
        const index_t strips = (fine_end(b) - b.fine) / STRIP_CHANNELS;
        const index_t parts = clamp(ceil_div(4 * threads, strips), 1, b.count);
        auto transform = [&](index_t task, char* scratch) {
            const index_t to = task % strips * STRIP_CHANNELS, c = b.fine + to, part = task / strips;
            const index_t begin = b.count * part / parts, end = b.count * (part + 1) / parts;
            const Cells cells{fine, b.group * p.fine_channels + c, max(0, p.fine_channels - c), STRIP_CHANNELS};
            transform_source(grid, transforms.source, cells, b.first + begin, end - begin,
                             x + begin * grid.source_planes * grid.tiles * plan.shared_fine + to, plan.source_apart,
                             plan.shared_fine, Scratch{scratch}.at(plan.strip));
        };
        return in_parallel(threads, strips * parts, plan.task.bytes, transform);
    }

    // A chunk of coarse channels with all fine ones that are shared, over the tiles of a block; added to the blocks
    // before.
    void sum_chunk(const Block& b, index_t k0, const float* x, float* kept, const Scratch& pieces) {
        float *strip = pieces.at(plan.strip), *y = pieces.at(plan.window), *s = pieces.at(plan.sums);
        const index_t rows = min(plan.chunk_coarse, p.coarse_channels - k0);
        const Cells of_coarse{coarse, b.group * p.coarse_channels + k0, rows, rows};
        const bool last = b.first + b.count == grid.items;
        transform_cells(grid, transforms.cells, of_coarse, b.first, b.count, y, plan.window_apart, plan.chunk_coarse,
                        strip);
        for (index_t c0 = b.fine; c0 < fine_end(b); c0 += plan.chunk_fine)
            for (index_t z = 0; z < grid.taps; ++z) {
                const index_t columns = min(plan.chunk_fine, fine_end(b) - c0);
                if (grid.taps > 1) zero_floats(s, plan.products * plan.sums_apart);
                for (index_t q = 0; q < plan.products; ++q)
                    multiply(b.first, b.count, z, rows, y + q * plan.window_apart,
                             x + q * plan.source_apart + c0 - b.fine, plan.shared_fine, columns,
                             s + q * plan.sums_apart, grid.taps > 1);
                windows(rows, columns, s, [&](index_t k, index_t c, float* taps) {
                    const index_t at = window_at(b.group, k0 + k, c0 + c, z), lanes = lanes_from(c0 + c);
                    if (kept != nullptr) {  // the result has no room for float32 sums
                        float* sum =
                            kept + (((k0 + k) * grid.taps + z) * plan.shared_fine + c0 - b.fine + c) * window.count;
                        if (b.first > 0) add_taps(sum, taps);
                        if (!last) return copy_taps(taps, sum);
                    } else if (b.first > 0) {
                        alignas(64) float sum[WINOGRAD_MOST_TAPS * LANES];
                        load_windows(before, window, at, target.tensor->stride[1], lanes, sum);
                        add_taps(sum, taps);
                    }
                    store_windows(target, window, at, lanes, taps);
                });
            }
    }
};

static int run_winograd_weight(const Call& call, const WinogradPlan& plan, const Transforms& transforms) {
    WinogradWeight run(call, plan, transforms);
    const int status = plan.mode == RUNS ? run.runs(call.threads) : run.shared_tiles(call.threads);
    return status == CG_OK && is_raised(&run.spoiled) ? int(STATUS_REDO_DIRECT) : status;
}

template <int N> static int run_winograd_weight(const Call& call, const Plan& plan) {
    return run_winograd_weight(call, plan.winograd, square_transforms_of<N>(plan.winograd.grid.window[1]));
}

template <int N> static int run_winograd_line_weight(const Call& call, const Plan& plan) {
    const WinogradPlan& w = plan.winograd;
    const cg_problem p = winograd::oriented(call.p, LINE);
    return run_winograd_weight(Call{p, call.contraction, call.lanes, call.threads}, w,
                               line_transforms_of<N>(w.grid.window[1] * w.grid.window[2]));
}

}  // namespace
}  // namespace cg
