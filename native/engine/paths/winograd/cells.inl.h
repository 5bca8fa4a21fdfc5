// Cells of a tensor to strips of a row of tiles and back; windows of weights likewise. A strip has its channels inside,
// [row][column][channel], so that transforms are arithmetic of whole vectors whatever the size of a plane.
#pragma once

#include "blocking/weight_window.inl.h"
#include "numbers/load.inl.h"
#include "numbers/store.inl.h"
#include "paths/winograd/plan.h"
#include "paths/winograd/transforms.inl.h"

namespace cg {
namespace {

enum { STRIP_CHANNELS = LANES < 8 ? 8 : LANES };  // eight at least: they are transposed by eights

// Where an item's tiles begin.
struct ItemPlace {
    index_t image, plane, row, column;  // of its first cell
};
static INLINE ItemPlace place_of(const TileGrid& g, index_t item) {
    ItemPlace at;
    at.column = item % g.segments * g.length * g.tile[2] * g.dilation[2];
    item /= g.segments;
    at.row = item % g.tile_rows * g.tile[1] * g.dilation[1];
    item /= g.tile_rows;
    at.row += item % g.phases;
    item /= g.phases;
    at.plane = item % g.depth_runs * g.run;
    at.image = item / g.depth_runs;
    return at;
}

static INLINE void zero_floats(float* p, index_t count) { __builtin_memset(p, 0, size_t(count) * sizeof(float)); }

// Rows y, y + step, ... and columns [x, x + columns) of some channels of a plane; zero outside of it and in the
// channels a strip has beyond.
static void fill_strip(const Source& s, index_t plane, const index_t* extent, index_t y, index_t step, index_t rows,
                       index_t x, index_t columns, index_t channels, float* strip) {
    const index_t* st = s.tensor->stride;
    const index_t begin = clamp(-x, 0, columns), end = clamp(extent[2] - x, begin, columns);
    for (index_t r = 0; r < rows; ++r, y += step, strip += columns * STRIP_CHANNELS) {
        const bool outside = y < 0 || y >= extent[1] || begin == end || channels == 0;
        if (outside || channels < STRIP_CHANNELS) {
            zero_floats(strip, columns * STRIP_CHANNELS);
            if (outside) continue;
        } else {
            zero_floats(strip, begin * STRIP_CHANNELS);
            zero_floats(strip + end * STRIP_CHANNELS, (columns - end) * STRIP_CHANNELS);
        }
        const index_t at = plane + y * st[3] + (x + begin) * st[4];
        float* to = strip + begin * STRIP_CHANNELS;
        if (st[4] == 1) {
            // Eight planes at a time: they may lie whole pages apart, and a set of the cache holds eight lines.
            const index_t some = channels == STRIP_CHANNELS ? 8 : channels;
            for (index_t c = 0; c < channels; c += some)
                s.transposed(s, at + c * st[1], some, st[1], end - begin, to + c, STRIP_CHANNELS);
        } else s.rows(s, at, end - begin, st[4], channels, st[1], to, STRIP_CHANNELS);
    }
}

// The way back; what lies outside of the plane is left out.
static void write_strip(const Target& t, index_t plane, const index_t* extent, index_t y, index_t step, index_t rows,
                        index_t x, index_t columns, index_t channels, const float* strip) {
    const index_t* st = t.tensor->stride;
    const index_t wide = min(columns, extent[2] - x);
    for (index_t r = 0; r < rows && y < extent[1]; ++r, y += step, strip += columns * STRIP_CHANNELS) {
        const index_t at = plane + y * st[3] + x * st[4];
        if (st[4] == 1) t.transposed(t, at, wide, channels, st[1], strip, STRIP_CHANNELS);
        else t.rows(t, at, wide, st[4], channels, st[1], strip, STRIP_CHANNELS);
    }
}

// The tiles of one plane of an item: cell of the first one's corner in the strip, and steps from cell to cell.
template <class F> static INLINE void each_tile(const TileGrid& g, F&& body) {
    for (index_t t = 0; t < g.tiles; ++t) {
        const index_t phase = t / g.length, number = t % g.length;
        body(t, (number * g.tile[2] * g.dilation[2] + phase) * STRIP_CHANNELS);
    }
}

// Floats from cell to cell of a tile in a strip of so many columns: along its only axis, or along its rows.
static INLINE index_t step_in_strip(const TileGrid& g, index_t columns) {
    return (g.side[2] > 1 ? g.dilation[2] : columns) * STRIP_CHANNELS;
}

// What is transformed: channels of a tensor, and zeros up to `width` of them.
struct Cells {
    const Source& source;
    index_t first, channels, width;

    index_t in_strip(index_t c) const { return clamp(channels - c, 0, STRIP_CHANNELS); }
};

// The source tiles of items [first, first + count): to[product][item][plane][tile][channel], `pitch` floats from tile
// to tile.
static void transform_source(const TileGrid& g, TransformIn transform, const Cells& cells, index_t first, index_t count,
                             float* to, index_t apart, index_t pitch, float* strip) {
    const index_t* st = cells.source.tensor->stride;
    const index_t row = g.source_columns * STRIP_CHANNELS, step = step_in_strip(g, g.source_columns);
    for (index_t i = 0; i < count; ++i)
        for (index_t c = 0; c < cells.width; c += STRIP_CHANNELS) {
            const ItemPlace at = place_of(g, first + i);
            for (index_t j = 0; j < g.source_planes; ++j) {
                const index_t plane = at.plane - g.before[0] + j;
                const bool inside = plane >= 0 && plane < g.source[0];
                if (!inside && g.taps > 1) continue;  // no plane of the run reads it
                const index_t from = at.image * st[0] + (cells.first + c) * st[1] + plane * st[2];
                const index_t y = inside ? at.row - g.before[1] : g.source[1];  // beyond: zeros
                fill_strip(cells.source, from, g.source, y, g.dilation[1], g.side[1], at.column - g.before[2],
                           g.source_columns, cells.in_strip(c), strip);
                float* tiles = to + (i * g.source_planes + j) * g.tiles * pitch + c;
                each_tile(g, [&](index_t t, index_t corner) {
                    for (index_t v = 0; v < STRIP_CHANNELS; v += LANES)
                        transform(strip + corner + v, row, step, tiles + t * pitch + v, apart);
                });
            }
        }
}

// The same of the cells that are cut into tiles: the coarse operand of a weight gradient.
static void transform_cells(const TileGrid& g, TransformIn transform, const Cells& cells, index_t first, index_t count,
                            float* to, index_t apart, index_t pitch, float* strip) {
    const index_t* st = cells.source.tensor->stride;
    const index_t columns = g.length * g.tile[2] * g.dilation[2], step = step_in_strip(g, columns);
    for (index_t i = 0; i < count; ++i)
        for (index_t c = 0; c < cells.width; c += STRIP_CHANNELS) {
            const ItemPlace at = place_of(g, first + i);
            for (index_t j = 0; j < min(g.run, g.cells[0] - at.plane); ++j) {
                const index_t from = at.image * st[0] + (cells.first + c) * st[1] + (at.plane + j) * st[2];
                fill_strip(cells.source, from, g.cells, at.row, g.dilation[1], g.tile[1], at.column, columns,
                           cells.in_strip(c), strip);
                float* tiles = to + (i * g.run + j) * g.tiles * pitch + c;
                each_tile(g, [&](index_t t, index_t corner) {
                    for (index_t v = 0; v < STRIP_CHANNELS; v += LANES)
                        transform(strip + corner + v, columns * STRIP_CHANNELS, step, tiles + t * pitch + v, apart);
                });
            }
        }
}

// Sums of products back to cells of the result: some channels from `first_channel` on.
static void write_cells(const TileGrid& g, TransformOut transform, const Target& target, index_t first_channel,
                        index_t channels, index_t first, index_t count, const float* sums, index_t apart, index_t pitch,
                        float* strip, uf* seen) {
    const index_t* st = target.tensor->stride;
    const index_t columns = g.length * g.tile[2] * g.dilation[2], step = step_in_strip(g, columns);
    for (index_t i = 0; i < count; ++i)
        for (index_t c = 0; c < channels; c += STRIP_CHANNELS) {
            const ItemPlace at = place_of(g, first + i);
            for (index_t j = 0; j < min(g.run, g.cells[0] - at.plane); ++j) {
                const float* tiles = sums + (i * g.run + j) * g.tiles * pitch + c;
                each_tile(g, [&](index_t t, index_t corner) {
                    for (index_t v = 0; v < STRIP_CHANNELS; v += LANES)
                        transform(tiles + t * pitch + v, apart, strip + corner + v, columns * STRIP_CHANNELS, step,
                                  seen);
                });
                write_strip(target, at.image * st[0] + (first_channel + c) * st[1] + (at.plane + j) * st[2], g.cells,
                            at.row, g.dilation[1], g.tile[1], at.column, columns, min(channels - c, STRIP_CHANNELS),
                            strip);
            }
        }
}

// ---- windows ---------------------------------------------------------------------------------------------------

// The taps of a window that are transformed: rows and columns, one of them alone for lines.
struct WindowTaps {
    index_t rows, columns, count;

    explicit WindowTaps(const TileGrid& g) : rows(g.window[1]), columns(g.window[2]), count(rows * columns) {}
    bool follow(const index_t* st) const { return (columns == 1 || st[4] == 1) && (rows == 1 || st[3] == columns); }
    index_t at(const index_t* st, index_t tap) const { return tap / columns * st[3] + tap % columns * st[4]; }
};

// The taps of the windows of LANES channels, `channel` elements apart: to[tap][lane], zero beyond `count`.
static INLINE void load_windows(const Source& s, const WindowTaps& taps, index_t at, index_t channel, index_t count,
                                float* to) {
    const index_t* st = s.tensor->stride;
    if (count < LANES) zero_floats(to, taps.count * LANES);
    if (taps.follow(st)) {
        s.transposed(s, at, count, channel, taps.count, to, LANES);
        return;
    }
    for (index_t tap = 0; tap < taps.count; ++tap)
        s.rows(s, at + taps.at(st, tap), 1, 0, count, channel, to + tap * LANES, 0);
}

static INLINE void store_windows(const Target& t, const WindowTaps& taps, index_t at, index_t count,
                                 const float* from) {
    const index_t* st = t.tensor->stride;
    if (taps.follow(st)) {
        t.transposed(t, at, taps.count, count, st[1], from, LANES);
        return;
    }
    for (index_t tap = 0; tap < taps.count; ++tap)
        t.rows(t, at + taps.at(st, tap), 1, 0, count, st[1], from + tap * LANES, 0);
}

}  // namespace
}  // namespace cg
