// Depthwise with channels side by side in memory: eight channels per vector, or as many as it has, no padding anywhere.
// Only tied cells are read, so nothing special happens to an inf or NaN.
#pragma once

#include "blocking/prefetch.inl.h"
#include "numbers/load.inl.h"
#include "paths/depthwise_channels/plan.h"

namespace cg {
namespace {

// The same names for vectors of eight and for the widest: a channel keeps its lane, its sums are the same in both.
struct EightChannels {
    typedef v8 vector;
    enum { COUNT = 8 };
    static INLINE v8 read(const float* p) { return load8(p); }
    static INLINE v8 read_once(const float* p) { return load8_once(p); }
    static INLINE void write(float* p, v8 v) { store8(p, v); }
    static INLINE v8 add_product(v8 a, v8 b, v8 c) { return fma8(a, b, c); }
};
struct WideChannels {
    typedef vf vector;
    enum { COUNT = LANES };
    static INLINE vf read(const float* p) { return load(p); }
    static INLINE vf read_once(const float* p) { return load_once(p); }
    static INLINE void write(float* p, vf v) { store(p, v); }
    static INLINE vf add_product(vf a, vf b, vf c) { return fma(a, b, c); }
};

// Eight channels of a source box. Float32 is read where it lies; anything else is converted into a buffer first.
struct ChannelView {
    const float* base;  // of cell (0, 0, 0), which may lie outside the buffer
    index_t depth, row, cell;
};

struct SourceBox {
    index_t begin[3], end[3];
};

static bool reads_in_place(const Source& s, const ChannelPlan& plan) {
    return s.kind == LOAD_F32 && plan.channels % 8 == 0 && !plan.copies;
}

static ChannelView view_channels(const Source& s, bool in_place, index_t n, index_t channel, index_t channels,
                                 index_t block, const SourceBox& box, float* buffer) {
    const index_t* st = s.tensor->stride;
    const index_t at = n * st[0] + channel;
    if (in_place) return ChannelView{(const float*)s.tensor->data + at, st[2], st[3], st[4]};
    const index_t cells = box.end[2] - box.begin[2], rows = box.end[1] - box.begin[1];
    ChannelView v{buffer, rows * cells * block, cells * block, block};
    for (index_t z = box.begin[0]; z < box.end[0]; ++z)
        for (index_t y = box.begin[1]; y < box.end[1]; ++y)
            s.rows(s, at + z * st[2] + y * st[3] + box.begin[2] * st[4], cells, st[4], channels, 1,
                   buffer + (z - box.begin[0]) * v.depth + (y - box.begin[1]) * v.row, block);
    v.base -= box.begin[0] * v.depth + box.begin[1] * v.row + box.begin[2] * v.cell;
    return v;
}

// Software prefetch of the lines that are read or written next, a few cache lines at a time: what goes a vector of
// channels at a time jumps from cell to cell, which no hardware prefetcher follows.
struct LinePrefetch {
    const char *at = nullptr, *end = nullptr;
    index_t pace = 0;

    LinePrefetch() = default;
    // Lines [first, last) of what is read in place, of `extent`, in about so many steps.
    LinePrefetch(const ChannelView& v, index_t depth, index_t first, index_t last, index_t extent, index_t cells,
                 index_t channels, index_t steps) {
        first = clamp(first, 0, extent);
        last = clamp(last, first, extent);
        if (first == last || v.cell < channels || v.row < cells * v.cell) return;
        at = (const char*)(v.base + depth * v.depth + first * v.row);
        end = at + ((last - first - 1) * v.row + (cells - 1) * v.cell + channels) * 4;
        pace = ceil_div((end - at) / 64 + 1, max(1, steps));
    }
    template <int FOR = READS> INLINE void advance() {
        for (index_t i = 0; i < pace && at < end; ++i, at += 64) __builtin_prefetch(at, FOR == WRITES, 2);
    }
};

}  // namespace
}  // namespace cg
