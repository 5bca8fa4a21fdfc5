// From accumulators to the result: classes, images and layouts back in their places.
#pragma once

#include "paths/gemm_data/run.inl.h"

namespace cg {
namespace {

// Images side by side become one plane per image, classes of columns back in their places:
//   planes[n][line][x*s + class] = from[class][line][x*images + n]
static void separate_images(const float* from, index_t c_class, index_t strip, index_t images, index_t lines,
                            index_t cells, int s, float* planes, index_t plane) {
    for (index_t r = 0; r < lines; ++r)
        for (index_t n = 0; n < images; n += 8) {
            const float* line = from + r * strip + n;
            float* to = planes + n * plane + r * cells * s;
            const index_t have = min(8, images - n);
            index_t x = 0;
            // Whole groups of eight overwrite up to seven cells that the next ones write again.
            if (have == 8 && s <= 2)
                for (; x < cells; x += 8) {
                    v8 a[8], b[8];
                    UNROLL for (int k = 0; k < 8; ++k) a[k] = load8(line + (x + k) * images);
                    transpose8(a);
                    if (s == 1) {
                        UNROLL for (int k = 0; k < 8; ++k) store8(to + k * plane + x, a[k]);
                        continue;
                    }
                    UNROLL for (int k = 0; k < 8; ++k) b[k] = load8(line + c_class + (x + k) * images);
                    transpose8(b);
                    UNROLL for (int k = 0; k < 8; ++k) {
                        float* pair = to + k * plane + 2 * x;
                        store8(pair, __builtin_shufflevector(a[k], b[k], 0, 8, 1, 9, 2, 10, 3, 11));
                        store8(pair + 8, __builtin_shufflevector(a[k], b[k], 4, 12, 5, 13, 6, 14, 7, 15));
                    }
                }
            for (; x < cells; ++x)
                for (int c = 0; c < s; ++c)
                    for (index_t k = 0; k < have; ++k) to[k * plane + x * s + c] = line[c * c_class + x * images + k];
        }
}

// Writes the accumulators of a block whose images lie side by side.
static void write_images(const GatherRun& run, const Box& box, index_t group, index_t begin, index_t rows,
                         const float* c, index_t c_row, index_t c_class, index_t strip, float* planes) {
    const Gather& g = run.g;
    const index_t* st = run.target.tensor->stride;
    const ClassSet& set = run.pass.classes;
    const int s = set.per[2];
    const index_t images = box.end[0] - box.begin[0], cells = box.end[3] - box.begin[3];
    const index_t all_lines = box.end[2] - box.begin[2];
    const index_t plane = all_lines * cells * s + 16;
    index_t total = 0;
    for (int x = 0; x < s; ++x) total += max(0, min(box.end[3], set.axis[2][x].cells) - box.begin[3]);
    for (index_t d = box.begin[1]; d < box.end[1]; ++d)
        for (int yz = 0; yz < set.per[0] * set.per[1]; ++yz) {
            const AxisClass& z = set.axis[0][yz / set.per[1]];
            const AxisClass& y = set.axis[1][yz % set.per[1]];
            const index_t lines = min(box.end[2], y.cells) - box.begin[2];
            if (d >= z.cells || lines <= 0) continue;
            const index_t at = box.begin[0] * st[0] + (group * g.out_channels + begin) * st[1] +
                               (z.residue + d * g.out_step[0]) * st[2] +
                               (y.residue + box.begin[2] * g.out_step[1]) * st[3] +
                               (set.axis[2][0].residue + box.begin[3] * g.out_step[2]) * st[4];
            const float* from = c + index_t(yz) * s * c_class + (d - box.begin[1]) * all_lines * strip;
            if (channels_touch(*run.target.tensor)) {  // a cell of all images at a time
                const index_t row = g.out_step[1] * st[3], cell = (s == 1 ? g.out_step[2] : 1) * st[4];
                for (index_t r = 0; r < lines; ++r)
                    for (index_t i = 0; i < cells * s && i < total; ++i)
                        run.target.transposed(run.target, at + r * row + i * cell, rows, images, st[0],
                                              from + i % s * c_class + r * strip + i / s * images, c_row);
                continue;
            }
            for (index_t m = 0; m < rows; ++m) {
                separate_images(from + m * c_row, c_class, strip, images, lines, cells, s, planes, plane);
                for (index_t n = 0; n < images; ++n)
                    run.target.rows(run.target, at + m * st[1] + n * st[0], lines, g.out_step[1] * st[3], total,
                                    s == 1 ? g.out_step[2] * st[4] : st[4], planes + n * plane, cells * s);
            }
        }
}

// Writes the accumulators of one block: classes are put back in their places.
static void write_block(const GatherRun& run, const Box& box, index_t group, index_t begin, index_t rows,
                        const float* c, index_t c_row, index_t c_class, const int* unit_column, index_t pitch,
                        float* plane) {
    const Gather& g = run.g;
    const Target& t = run.target;
    const index_t* st = t.tensor->stride;
    const ClassSet& set = run.pass.classes;
    const bool across = channels_touch(*t.tensor);
    const index_t column = g.out_step[2] * st[4];
    index_t unit = 0;
    for (index_t n = box.begin[0]; n < box.end[0]; ++n)
        for (index_t d = box.begin[1]; d < box.end[1]; ++d, ++unit)
            for (int yz = 0; yz < set.per[0] * set.per[1]; ++yz) {
                const AxisClass& z = set.axis[0][yz / set.per[1]];
                const AxisClass& y = set.axis[1][yz % set.per[1]];
                const index_t lines = min(box.end[2], y.cells) - box.begin[2];
                if (d >= z.cells || lines <= 0) continue;
                const index_t at = n * st[0] + (group * g.out_channels + begin) * st[1] +
                                   (z.residue + d * g.out_step[0]) * st[2] +
                                   (y.residue + box.begin[2] * g.out_step[1]) * st[3] + box.begin[3] * column;
                const float* from = c + index_t(yz) * set.per[2] * c_class + unit_column[unit];
                const index_t row = g.out_step[1] * st[3];
                if (across || set.per[2] == 1) {
                    for (int x = 0; x < set.per[2]; ++x) {
                        const AxisClass& xc = set.axis[2][x];
                        const index_t cells = min(box.end[3], xc.cells) - box.begin[3];
                        if (cells <= 0) continue;
                        const float* part = from + x * c_class;
                        const index_t first = at + xc.residue * st[4];
                        if (across)
                            for (index_t r = 0; r < lines; ++r)
                                t.transposed(t, first + r * row, rows, cells, column, part + r * pitch, c_row);
                        else
                            for (index_t m = 0; m < rows; ++m)
                                t.rows(t, first + m * st[1], lines, row, cells, column, part + m * c_row, pitch);
                    }
                    continue;
                }
                const int s = set.per[2];
                const index_t cells = box.end[3] - box.begin[3];
                // Pairs of a float32 result need no plane in between.
                const bool in_place = s == 2 && st[4] == 1 && t.kind == STORE_F32;
                index_t total = 0;
                for (int x = 0; x < s; ++x) total += max(0, min(box.end[3], set.axis[2][x].cells) - box.begin[3]);
                const index_t pairs = s == 2 ? total / 2 : 0;
                for (index_t m = 0; m < rows; ++m) {
                    for (index_t r = 0; r < lines; ++r) {
                        const float* part = from + m * c_row + r * pitch;
                        float* to =
                            in_place ? (float*)t.tensor->data + at + m * st[1] + r * row : plane + r * cells * s;
                        index_t i = 0;
                        for (; pairs >= 8 && i < pairs; i += 8) {
                            i = min(i, pairs - 8);  // the last eight overlap the ones before
                            const v8 a = load8(part + i), b = load8(part + c_class + i);
                            store8(to + 2 * i, __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11));
                            store8(to + 2 * i + 8, __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15));
                        }
                        for (; i < cells; ++i)
                            for (int x = 0; x < s && i * s + x < total; ++x) to[i * s + x] = part[x * c_class + i];
                    }
                    if (!in_place) t.rows(t, at + m * st[1], lines, row, total, st[4], plane, cells * s);
                }
            }
}

// Where pixels that follow each other in a strip of columns do so in a float32 result, the microkernel of the last K
// block writes them there. Panels that reach beyond a strip are copied.
struct Straight {
    bool possible = false;
    float* data = nullptr;                            // of the first output channel of the chunk, first pixel
    index_t row = 0, image = 0, depth = 0, line = 0;  // from one to the next
    index_t depths = 0, lines = 0;                    // strips of one image: lines of each of the depths
    index_t strip_width = 0, pixels = 0;              // columns of a strip, those of them that are pixels

    bool holds(index_t column, index_t width) const { return column % strip_width + width <= pixels; }

    float* at(index_t channel, index_t column) const {
        const index_t strip = column / strip_width, z = strip / lines;
        return data + channel * row + z / depths * image + z % depths * depth + strip % lines * line +
               column % strip_width;
    }

    void copy(index_t channel, index_t channels, index_t column, index_t columns, const float* from,
              index_t from_row) const {
        for (index_t i = 0; i < columns; ++i) {
            if ((column + i) % strip_width >= pixels) continue;
            float* to = at(channel, column + i);
            for (index_t m = 0; m < channels; ++m) to[m * row] = from[m * from_row + i];
        }
    }
};

// Strips are one line each (images side by side) or all lines of one depth of one image, `pitch` columns each.
static Straight straight_strips(const GatherRun& run, const Box& box, index_t channel, index_t strip_width,
                                index_t pitch) {
    const Gather& g = run.g;
    const index_t* st = run.target.tensor->stride;
    const ClassSet& set = run.pass.classes;
    const bool one_line = run.pass.side_by_side;
    const index_t lines = box.end[2] - box.begin[2], cells = box.end[3] - box.begin[3];
    const index_t depths = box.end[1] - box.begin[1];
    Straight s;
    s.line = lines > 1 ? g.out_step[1] * st[3] : 0;  // the stride of a single one means nothing
    // Weights read in place are judged by the sums in the accumulators.
    if (set.count > 1 || run.target.kind != STORE_F32 || g.out_step[2] != 1 || st[4] != 1 ||
        run.pass.weights_in_place || (!one_line && lines > 1 && (pitch != cells || s.line != cells)))
        return s;
    s.possible = true;
    s.row = st[1];
    s.image = st[0];
    s.depth = depths > 1 ? g.out_step[0] * st[2] : 0;
    s.depths = depths;
    s.lines = one_line ? lines : 1;
    s.strip_width = strip_width;
    s.pixels = one_line ? cells : lines * cells;
    s.data = (float*)run.target.tensor->data + box.begin[0] * st[0] + channel * st[1] +
             (set.axis[0][0].residue + box.begin[1] * g.out_step[0]) * st[2] +
             (set.axis[1][0].residue + box.begin[2] * g.out_step[1]) * st[3] + set.axis[2][0].residue + box.begin[3];
    return s;
}

}  // namespace
}  // namespace cg
