// Software prefetch. Hardware prefetchers follow a row; they do not find the next plane, block or cell, so those are
// prefetched explicitly.
#pragma once

#include "blocking/tile.inl.h"

namespace cg {
namespace {

// READS and WRITES prefetch into L2: whole planes would evict each other from L1. What the weight contraction copies
// next is prefetched into L1 (READS_NEAR), where its copy was measured to wait half as long.
enum PrefetchFor { READS, WRITES, READS_NEAR };

// A box of a tensor that is read or written next, prefetched a few cache lines at a time while others are
// multiplied: the rows of planes that follow each other in memory, or the channels of cells where these lie side by
// side.
struct Prefetch {
    const char* data = nullptr;
    index_t image = 0, outer = 0, inner = 0, run = 0;  // bytes from one to the next; cache lines side by side
    index_t images = 0, outers = 0, inners = 0, n = 0, o = 0, i = 0;
    const char *at = nullptr, *next = nullptr;  // of the run at hand; its next cache line
    index_t left = 0;                           // lines of that run; none when all have been prefetched

    void start(const cg_tensor& t, index_t first_image, index_t last_image, index_t first_channel, index_t channels,
               const index_t low[3], const index_t high[3]) {
        const index_t* st = t.stride;
        const index_t size = bytes_per_element(t.dtype);
        const index_t depths = high[0] - low[0], rows = high[1] - low[1], columns = high[2] - low[2];
        if (depths <= 0 || rows <= 0 || columns <= 0) return;
        if (st[4] == 1 && (rows == 1 || st[3] <= columns)) {
            describe(size, depths, st[2], channels, st[1], (rows > 1 ? (rows - 1) * st[3] : 0) + columns);
        } else if (channels_touch(t) && (rows == 1 || st[3] == columns * st[4])) {
            describe(size, depths, st[2], rows * columns, st[4], channels);
        } else if (channels_touch(t) && depths == 1) {
            describe(size, rows, st[3], columns, st[4], channels);
        } else {
            return;
        }
        data = (const char*)t.data +
               (first_image * st[0] + first_channel * st[1] + low[0] * st[2] + low[1] * st[3] + low[2] * st[4]) * size;
        images = last_image - first_image;
        image = images > 1 ? st[0] * size : 0;
        // A few channels begin anywhere in a cache line, and so may end in the next one.
        const index_t offset = index_t((uintptr_t)data % 64);
        data -= offset;
        run = ceil_div(offset + run, 64);
        at = next = data;
        left = images > 0 && inners > 0 ? run : 0;
    }

    void describe(index_t size, index_t many, index_t many_stride, index_t within, index_t within_stride,
                  index_t elements) {
        outers = many;
        outer = many > 1 ? many_stride * size : 0;  // the stride of a single one means nothing
        inners = within;
        inner = within > 1 ? within_stride * size : 0;
        run = elements * size;
    }

    index_t cache_lines() const { return images * outers * inners * run; }

    template <int FOR> INLINE void advance(index_t lines) {
        for (; lines > 0 && left > 0; --lines) {
            __builtin_prefetch(next, FOR == WRITES, FOR == READS_NEAR ? 3 : 2);
            next += 64;
            if (--left > 0) continue;
            at += inner;
            if (++i == inners && !next_plane()) return;
            next = at;
            left = run;
        }
    }

    OUTLINE bool next_plane() {
        i = 0;
        if (++o == outers) o = 0, ++n;
        at = data + n * image + o * outer;
        return n < images;
    }
};

// The cells that the tile of a block takes; of the depths its windows reach only as many are new as it has itself.
static Prefetch tile_prefetch(const cg_tensor& tensor, const index_t extent[3], const index_t step[3],
                              const index_t span[3], const Tile& t, const Box& box, index_t channel, index_t channels) {
    Prefetch prefetch;
    index_t low[3], high[3];
    for (int a = 0; a < 3; ++a) {
        const index_t first = t.axis[a].low;
        if (step[a] > (1 << 20) || magnitude(first) > (1 << 30)) return prefetch;  // products that could overflow
        low[a] = clamp(step[a] * (box.begin[a + 1] + first), 0, extent[a]);
        high[a] = clamp(step[a] * (box.end[a + 1] + first + span[a]), low[a], extent[a]);
    }
    low[0] = max(low[0], high[0] - step[0] * (box.end[1] - box.begin[1]));
    prefetch.start(tensor, box.begin[0], box.end[0], channel, channels, low, high);
    return prefetch;
}

// Whether so many planes of so many cells exceed what L2 and a share of L3 hold (4 MiB); what these have need not be
// prefetched.
static bool exceeds_cache(const cg_tensor& t, index_t planes, const index_t cells[3]) {
    const double plane = double(cells[0]) * double(cells[1]) * double(cells[2]);
    return plane * double(planes) * double(bytes_per_element(t.dtype)) > (4 << 20);
}

}  // namespace
}  // namespace cg
