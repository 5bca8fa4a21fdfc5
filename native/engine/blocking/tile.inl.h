// A block of source pixels copied once into zero-padded float32: after this no loop checks a bound or a dtype.
#pragma once

#include "blocking/blocking_numbers.h"
#include "blocking/blocks.h"
#include "blocking/tile_size.h"
#include "numbers/load.inl.h"

namespace cg {
namespace {

// Layout of one channel: [batch][depth slot][depth][row slot][column slot][row][column], or, with `images` side by
// side, [depth slot][depth][row slot][column slot][row][column][batch]. With all channels of a cell side by side the
// tile is [batch][depth slot][depth][row slot][column slot][row][column][channel].
struct Tile {
    TileAxis axis[3];
    index_t cells[3], slots[3];
    index_t images;  // 1 when the batch is outermost
    index_t shared;  // columns of padding that two rows have in common
    index_t column;  // from one column to the next
    index_t pitch, column_slot, row_slot, plane, depth_slot, unit, channel;
};

// `shared` columns of padding are the last of a row and the first of the next. A microkernel that reads the tile itself
// wants the same pixels of many planes at once: with `pads_planes` they are an odd number of cache lines long, or no
// whole number, so that these do not fall on a few sets of the cache.
static void shape_tile(const Box& box, const index_t span[3], const index_t slots[3], bool side_by_side, Tile* t,
                       index_t shared = 0, index_t channels_inside = 0, bool pads_planes = false) {
    const index_t batch = box.end[0] - box.begin[0];
    t->images = side_by_side ? batch : 1;
    t->column = channels_inside > 0 ? channels_inside : t->images;
    for (int a = 0; a < 3; ++a) {
        t->cells[a] = box.end[a + 1] - box.begin[a + 1] + span[a];
        t->slots[a] = slots[a];
    }
    t->shared = shared;
    t->pitch = t->cells[2] * t->column - shared;
    t->column_slot = t->cells[1] * t->pitch;
    if (pads_planes && t->column_slot % (2 * CACHE_LINE) == 0) t->column_slot += CACHE_LINE;
    t->row_slot = t->slots[2] * t->column_slot;
    t->plane = t->slots[1] * t->row_slot;
    t->depth_slot = t->cells[0] * t->plane;
    t->unit = t->slots[0] * t->depth_slot;
    t->channel = channels_inside > 0 ? 1 : side_by_side ? t->unit : batch * t->unit;
}

static INLINE void zero(float* p, index_t count) { __builtin_memset(p, 0, size_t(count) * 4); }

// Where planes are padded: the padding. Pairs of leftover numbers could look as if they were not exact.
static void zero_gaps(const Tile& t, index_t units, index_t channels, float* tile) {
    const index_t filled = t.cells[1] * t.pitch, planes = t.slots[0] * t.cells[0] * t.slots[1] * t.slots[2];
    if (t.column_slot == filled) return;
    for (index_t i = 0; i < units * channels * planes; ++i) zero(tile + i * t.column_slot + filled, CACHE_LINE);
}

// Where a tile holds whole planes, all `channels` of an image can be one run of memory, in the tensor as in the tile:
// images are outermost then.
static void join_planes(const index_t extent[3], index_t channels, Tile* t) {
    if (channels == 1 || t->images > 1 || t->column > 1 || t->shared > 0 || t->cells[0] > 1) return;
    for (int a = 0; a < 3; ++a)
        if (t->slots[a] > 1 || t->cells[a] != extent[a]) return;
    t->channel = t->unit;
    t->unit *= channels;
}

// Where tap number `tap` of an axis finds the source of output cell 0 of the block.
static INLINE index_t tap_slot(const TileAxis& a, index_t tap) { return a.scale == 1 ? 0 : tap % a.slots; }
static INLINE index_t tap_cell(const TileAxis& a, const AxisTaps& taps, index_t tap) {
    return floor_div(taps.first_offset + tap * taps.offset_step, a.scale) - a.low;
}

// Tile offsets of all taps of a class, in tap order.
static index_t tap_offsets(const Tile& t, const AxisTaps taps[3], int* to) {
    index_t n = 0;
    for (index_t z = 0; z < taps[0].count; ++z)
        for (index_t y = 0; y < taps[1].count; ++y)
            for (index_t x = 0; x < taps[2].count; ++x)
                to[n++] = int(tap_slot(t.axis[0], z) * t.depth_slot + tap_cell(t.axis[0], taps[0], z) * t.plane +
                              tap_slot(t.axis[1], y) * t.row_slot + tap_slot(t.axis[2], x) * t.column_slot +
                              tap_cell(t.axis[1], taps[1], y) * t.pitch + tap_cell(t.axis[2], taps[2], x) * t.column);
    return n;
}

struct Range {
    index_t begin, end, source;  // valid positions; source index of position 0
};

static INLINE Range valid_range(const Tile& t, int axis, index_t slot, index_t block_begin, index_t extent) {
    const TileAxis& a = t.axis[axis];
    const index_t residue = a.scale == 1 ? 0 : modulo(a.first + slot * a.step, a.scale);
    Range r;
    r.source = a.scale * (a.low + block_begin) + residue;
    r.begin = r.source >= 0 ? 0 : min(t.cells[axis], ceil_div(-r.source, a.scale));
    r.end = extent - 1 < r.source ? 0 : min(t.cells[axis], (extent - 1 - r.source) / a.scale + 1);
    if (r.end < r.begin) r.end = r.begin;
    return r;
}

static INLINE void zero_border(float* plane, index_t rows, index_t pitch, const Range& y, const Range& x) {
    if (y.begin == y.end || x.begin == x.end) return zero(plane, rows * pitch);
    if (y.begin > 0) zero(plane, y.begin * pitch);
    if (x.begin > 0 || x.end < pitch)
        for (index_t r = y.begin; r < y.end; ++r) {
            float* row = plane + r * pitch;
            for (index_t c = 0; c < x.begin; ++c) row[c] = 0;
            for (index_t c = x.end; c < pitch; ++c) row[c] = 0;
        }
    if (y.end < rows) zero(plane + y.end * pitch, (rows - y.end) * pitch);
}

struct FillReport {
    bool finite = true, padded = false;
};

// to[x*images + n] = from[n*from_row + x]. Reads up to seven floats beyond a row.
static void interleave_images(const float* from, index_t from_row, index_t images, index_t columns, float* to) {
    index_t n = 0;
    for (; n + 8 <= images; n += 8)
        for (index_t x = 0; x < columns; x += 8) {
            v8 v[8];
            UNROLL for (int k = 0; k < 8; ++k) v[k] = load8(from + (n + k) * from_row + x);
            transpose8(v);
            const index_t have = min(8, columns - x);
            for (index_t k = 0; k < have; ++k) store8(to + (x + k) * images + n, v[k]);
        }
    for (; n < images; ++n)
        for (index_t x = 0; x < columns; ++x) to[x * images + n] = from[n * from_row + x];
}

// A plane of one channel at stride 2: even and odd columns are read together and go to their two slots.
static void fill_pairs(const Source& s, const Tile& t, const Range& y, index_t block_begin, index_t extent, index_t at,
                       index_t row, index_t next, float* slots, bool padding_zeroed, FillReport* report) {
    Range x[2];
    float* plane[2];  // of the even and the odd columns
    for (int slot = 0; slot < 2; ++slot) {
        const index_t odd = modulo(t.axis[2].first + slot * t.axis[2].step, 2);
        x[odd] = valid_range(t, 2, slot, block_begin, extent);
        plane[odd] = slots + slot * t.column_slot;
    }
    for (int odd = 0; odd < 2; ++odd) {
        const bool padded = y.begin > 0 || x[odd].begin > 0 || y.end < t.cells[1] || x[odd].end < t.cells[2];
        report->padded |= padded;
        if (padded && !padding_zeroed) zero_border(plane[odd], t.cells[1], t.pitch, y, x[odd]);
    }
    const index_t begin = max(x[0].begin, x[1].begin), end = min(x[0].end, x[1].end), rows = y.end - y.begin;
    if (rows > 0 && begin < end)
        report->finite &=
            s.pairs(s, at + x[0].source + 2 * begin, rows, row, end - begin, plane[0] + y.begin * t.pitch + begin,
                    plane[1] + y.begin * t.pitch + begin, t.pitch, next);
    // What only one of them has: a column before or after.
    for (int odd = 0; odd < 2; ++odd)
        for (index_t c = x[odd].begin; c < x[odd].end; ++c) {
            if (c == begin && begin < end) c = end;
            if (c >= x[odd].end) break;
            report->finite &=
                s.rows(s, at + x[odd].source + 2 * c, rows, row, 1, 2, plane[odd] + y.begin * t.pitch + c, t.pitch);
        }
}

// Copies channels [channel, channel + channels) of the source cells a block needs. When the block is one output deep
// and `depth_taps` is given, only the depth planes some tap reads are filled. `row_buffer` holds the rows of a plane
// of every image before they are put side by side. A `padding_zeroed` tile has its zeros from a block like this one.
static void fill_tile(const Source& s, const index_t extent[3], const Tile& t, const Box& box, index_t channel,
                      index_t channels, const AxisTaps* depth_taps, float* to, FillReport* report,
                      float* row_buffer = nullptr, bool padding_zeroed = false) {
    const index_t* stride = s.tensor->stride;
    const bool side_by_side = row_buffer != nullptr && t.images > 1, channels_inside = t.channel == 1 && t.column > 1;
    const bool across = channels_touch(*s.tensor);  // transpose while copying
    const index_t column = t.axis[2].scale * stride[4], row = t.axis[1].scale * stride[3];
    const bool in_pairs = t.axis[2].scale == 2 && t.slots[2] == 2 && stride[4] == 1 && !side_by_side;
    const bool by_tap = depth_taps != nullptr && box.end[1] - box.begin[1] == 1;
    const index_t planes = by_tap ? depth_taps->count : t.slots[0] * t.cells[0];
    for (index_t n = box.begin[0]; n < box.end[0]; n += t.images)
        for (index_t i = 0; i < planes; ++i) {
            const index_t slot = by_tap ? tap_slot(t.axis[0], i) : i / t.cells[0];
            const index_t cell = by_tap ? tap_cell(t.axis[0], *depth_taps, i) : i % t.cells[0];
            const Range z = valid_range(t, 0, slot, box.begin[1], extent[0]);
            const bool inside = cell >= z.begin && cell < z.end;
            const index_t depth = z.source + cell * t.axis[0].scale;
            for (index_t ys = 0; ys < t.slots[1]; ++ys) {
                Range y = valid_range(t, 1, ys, box.begin[2], extent[1]);
                if (!inside) y.end = y.begin;
                float* slots =
                    to + (n - box.begin[0]) * t.unit + slot * t.depth_slot + cell * t.plane + ys * t.row_slot;
                if (in_pairs) {
                    const index_t at = n * stride[0] + channel * stride[1] + depth * stride[2] +
                                       (y.source + y.begin * t.axis[1].scale) * stride[3];
                    for (index_t c = 0; c < channels; ++c)
                        fill_pairs(s, t, y, box.begin[3], extent[2], at + c * stride[1], row,
                                   c + 1 < channels ? stride[1] : 0, slots + c * t.channel, padding_zeroed, report);
                    continue;
                }
                for (index_t xs = 0; xs < t.slots[2]; ++xs) {
                    const Range x = valid_range(t, 2, xs, box.begin[3], extent[2]);
                    float* plane = slots + xs * t.column_slot;
                    const bool padded = y.begin > 0 || x.begin > 0 || y.end < t.cells[1] || x.end < t.cells[2];
                    report->padded |= padded;
                    const index_t rows = y.end - y.begin, columns = x.end - x.begin;
                    const index_t at = n * stride[0] + channel * stride[1] + depth * stride[2] +
                                       (y.source + y.begin * t.axis[1].scale) * stride[3] +
                                       (x.source + x.begin * t.axis[2].scale) * stride[4];
                    if (padded && !padding_zeroed)
                        for (index_t c = 0; c < (channels_inside ? 1 : channels); ++c) {
                            float* one = plane + c * t.channel;
                            zero_border(one, t.cells[1], t.pitch, y, Range{x.begin * t.column, x.end * t.column, 0});
                            zero(one + t.cells[1] * t.pitch, t.shared);
                        }
                    if (rows == 0 || columns == 0) continue;
                    float* first = plane + y.begin * t.pitch + x.begin * t.column;
                    const bool joined = !padded && planes == 1 && column == 1 && row == columns && t.pitch == columns &&
                                        t.channel == rows * columns && stride[1] == t.channel;
                    if (channels_inside) {
                        for (index_t r = 0; r < rows; ++r)
                            report->finite &=
                                s.rows(s, at + r * row, columns, column, channels, 1, first + r * t.pitch, t.column);
                    } else if (side_by_side && across) {
                        for (index_t r = 0; r < rows; ++r)
                            for (index_t i = 0; i < columns; ++i)
                                report->finite &= s.transposed(s, at + r * row + i * column, t.images, stride[0],
                                                               channels, first + r * t.pitch + i * t.images, t.channel);
                    } else if (side_by_side) {
                        // Whole contiguous planes are one long row.
                        const bool joined = column == 1 && row == columns;
                        const index_t runs = joined ? 1 : rows, length = joined ? rows * columns : columns;
                        for (index_t c = 0; c < channels; ++c)
                            for (index_t r = 0; r < runs; ++r) {
                                report->finite &= s.rows(s, at + c * stride[1] + r * row, t.images, stride[0], length,
                                                         column, row_buffer, length);
                                for (index_t k = 0; k < rows / runs; ++k)
                                    interleave_images(row_buffer + k * columns, length, t.images, columns,
                                                      first + c * t.channel + (r + k) * t.pitch);
                            }
                    } else if (joined) {
                        report->finite &= s.rows(s, at, 1, 0, channels * t.channel, 1, first, 0);
                    } else if (across)
                        for (index_t r = 0; r < rows; ++r)
                            report->finite &= s.transposed(s, at + r * row, columns, column, channels,
                                                           first + r * t.pitch, t.channel);
                    else if (rows == 1)
                        report->finite &= s.rows(s, at, channels, stride[1], columns, column, first, t.channel);
                    else
                        for (index_t c = 0; c < channels; ++c)
                            report->finite &= s.rows(s, at + c * stride[1], rows, row, columns, column,
                                                     first + c * t.channel, t.pitch);
                }
            }
        }
}

}  // namespace
}  // namespace cg
