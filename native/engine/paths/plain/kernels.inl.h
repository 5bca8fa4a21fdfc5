// The law as plain loops, in float32 or float64: tiny problems, float64, and whatever holds an inf or NaN that must
// not meet a padding zero (0 * inf would be a NaN the law does not know). Only tied cells are ever multiplied.
#pragma once

#include "blocking/gather.h"
#include "blocking/ties.inl.h"
#include "numbers/load.inl.h"
#include "numbers/store.inl.h"
#include "paths.h"
#include "tasks.inl.h"

namespace cg {
namespace {

template <class T> static INLINE T element(const Source& s, index_t at);
template <> INLINE float element<float>(const Source& s, index_t at) { return s.one(s, at); }
template <> INLINE double element<double>(const Source& s, index_t at) {
    return round_to(s.tensor->cast, load_as_double(s.tensor->data, at, s.tensor->dtype));
}

static INLINE void load_line(const Source& s, index_t at, index_t count, index_t step, float* to) {
    s.rows(s, at, 1, 0, count, step, to, 0);
}
static INLINE void load_line(const Source& s, index_t at, index_t count, index_t step, double* to) {
    if (s.tensor->dtype == CG_FLOAT64 && s.tensor->cast == CG_FLOAT64)
        for (index_t i = 0; i < count; ++i) to[i] = ((const double*)s.tensor->data)[at + i * step];
    else
        for (index_t i = 0; i < count; ++i) to[i] = element<double>(s, at + i * step);
}
// A line of operands: read in place where it lies there as T, otherwise converted into `buffer`.
static INLINE bool in_place(const Source& s, const float*) { return s.kind == LOAD_F32; }
static INLINE bool in_place(const Source& s, const double*) {
    return s.tensor->dtype == CG_FLOAT64 && s.tensor->cast == CG_FLOAT64;
}
template <class T> static INLINE const T* line_of(const Source& s, index_t at, index_t count, index_t step, T* buffer) {
    if (step == 1 && in_place(s, buffer)) return (const T*)s.tensor->data + at;
    load_line(s, at, count, step, buffer);
    return buffer;
}
static INLINE void store_line(const Target& t, index_t at, index_t count, index_t step, const float* from) {
    t.rows(t, at, 1, 0, count, step, from, 0);
}
static INLINE void store_line(const Target& t, index_t at, index_t count, index_t step, const double* from) {
    for (index_t i = 0; i < count; ++i)
        store_from_double(t.tensor->data, at + i * step, t.tensor->dtype, round_to(t.tensor->cast, from[i]));
}

template <class T>
static INLINE void multiply_add(T* __restrict to, index_t to_step, const T* __restrict from, index_t count, T factor) {
    if (to_step == 1)
        for (index_t i = 0; i < count; ++i) to[i] = fma1(factor, from[i], to[i]);
    else
        for (index_t i = 0; i < count; ++i) to[i * to_step] = fma1(factor, from[i], to[i * to_step]);
}

// A small operand that would be converted line by line, each time a line is needed, is converted once and whole.
enum { SMALL_OPERAND = 1024 };
struct SmallCopy {
    alignas(32) float values[SMALL_OPERAND];

    INLINE void stand_in(cg_tensor* t, index_t images, index_t channels, const index_t extent[3]) {
        const index_t* st = t->stride;
        const index_t plane = extent[0] * extent[1] * extent[2];
        const bool joined = (extent[1] == 1 || st[3] == extent[2] * st[4]) &&
                            (extent[0] == 1 || st[2] == extent[1] * extent[2] * st[4]);
        if (images * channels * plane > SMALL_OPERAND || !joined) return;
        if (st[4] == 1 && load_kind(*t) == LOAD_F32) return;
        const Source s = make_source(*t);
        float* to = values;
        for (index_t n = 0; n < images; ++n, to += channels * plane)
            if (st[1] == 1 && channels >= 4) s.transposed(s, n * st[0], plane, st[4], channels, to, plane);
            else s.rows(s, n * st[0], channels, st[1], plane, st[4], to, plane);
        *t = cg_tensor{values, CG_FLOAT32, CG_FLOAT32, {channels * plane, plane, extent[1] * extent[2], extent[2], 1}};
    }
};

// One task: PLAIN_ROWS output channels of one output line. In float32 the sums of every plain_chain() channels are
// added to a total: the error of a sum grows with its longest chain.
template <class T> static int plain_gather(const cg_problem& given, bool to_fine, int threads) {
    cg_problem p = given;
    SmallCopy copy;
    if (sizeof(T) == sizeof(float)) {
        if (to_fine) copy.stand_in(&p.coarse_operand, p.batch, p.groups * p.coarse_channels, p.coarse);
        else copy.stand_in(&p.fine_operand, p.batch, p.groups * p.fine_channels, p.fine);
    }
    lengthen_lines(&p, to_fine);
    const Gather g = make_gather(p, to_fine);
    const index_t chain = sizeof(T) == sizeof(float) ? plain_chain(p) : g.in_channels;
    const bool in_chains = g.in_channels > chain;
    const Source source = make_source(*g.source), weight = make_source(*g.weight);
    const Target target = make_target(*g.target);
    const index_t row_parts = ceil_div(g.out_channels, PLAIN_ROWS);
    const index_t column_parts = ceil_div(g.out[2], PLAIN_COLUMNS);
    const index_t* ss = g.source->stride;
    const index_t* ts = g.target->stride;
    auto body = [&](index_t task, char* scratch) {
        const index_t x0 = task % column_parts * PLAIN_COLUMNS;
        task /= column_parts;
        const index_t columns = min(PLAIN_COLUMNS, g.out[2] - x0);
        const index_t m0 = task % row_parts * PLAIN_ROWS;
        task /= row_parts;
        const index_t rows = min(PLAIN_ROWS, g.out_channels - m0);
        const index_t group = task % g.groups;
        task /= g.groups;
        const index_t y = task % g.out[1], z = task / g.out[1] % g.out[0], n = task / g.out[1] / g.out[0];
        T* sums = (T*)scratch;
        T* totals = sums + rows * columns;
        T* line = in_chains ? totals + rows * columns : totals;
        for (index_t i = 0; i < (in_chains ? 2 : 1) * rows * columns; ++i) sums[i] = 0;
        const auto end_chain = [&] {
            for (index_t i = 0; i < rows * columns; ++i) {
                totals[i] += sums[i];
                sums[i] = 0;
            }
        };
        for (index_t r = 0; r < g.in_channels; ++r) {
            if (in_chains && r > 0 && r % chain == 0) end_chain();
            for (index_t kz = 0; kz < p.window[0]; ++kz) {
                const index_t sz = tied_source(p, to_fine, 0, z, kz);
                if (sz < 0) continue;
                for (index_t ky = 0; ky < p.window[1]; ++ky) {
                    const index_t sy = tied_source(p, to_fine, 1, y, ky);
                    if (sy < 0) continue;
                    const index_t at = n * ss[0] + (group * g.in_channels + r) * ss[1] + sz * ss[2] + sy * ss[3];
                    const index_t w = group * g.weight_group + m0 * g.weight_out + r * g.weight_in +
                                      kz * g.weight_tap[0] + ky * g.weight_tap[1];
                    for (index_t kx = 0; kx < p.window[2]; ++kx) {
                        // Columns of this part: fine x = o*stride + shift, o in the tied range.
                        const index_t stride = p.stride[2], shift = kx * p.dilation[2] - p.pad[2];
                        Tied o = tied_cells(p.coarse[2], p.fine[2], stride, shift);
                        if (to_fine) {
                            const Tied part = tied_cells(p.coarse[2], columns, stride, shift - x0);
                            o.begin = max(o.begin, part.begin);
                            o.end = min(o.end, part.end);
                        } else {
                            o.begin = max(o.begin, x0);
                            o.end = min(o.end, x0 + columns);
                        }
                        const index_t count = o.end - o.begin;
                        if (count <= 0) continue;
                        const index_t from = to_fine ? o.begin : o.begin * stride + shift;
                        const index_t first = to_fine ? o.begin * stride + shift - x0 : o.begin - x0;
                        const index_t step = (to_fine ? 1 : stride) * ss[4];
                        const T* values = line_of(source, at + from * ss[4], count, step, line);
                        for (index_t m = 0; m < rows; ++m)
                            multiply_add(sums + m * columns + first, to_fine ? stride : index_t(1), values, count,
                                         element<T>(weight, w + m * g.weight_out + kx * g.weight_tap[2]));
                    }
                }
            }
        }
        if (in_chains) end_chain();
        for (index_t m = 0; m < rows; ++m)
            store_line(target,
                       n * ts[0] + (group * g.out_channels + m0 + m) * ts[1] + z * ts[2] + y * ts[3] + x0 * ts[4],
                       columns, ts[4], (in_chains ? totals : sums) + m * columns);
    };
    const index_t tasks = g.batch * g.out[0] * g.out[1] * g.groups * row_parts * column_parts;
    return in_parallel(threads, tasks, plain_gather_bytes(p, to_fine, sizeof(T)), body);
}

template <class T> static INLINE double dot(const T* x, const T* y, index_t count) {
    double part[4] = {0, 0, 0, 0};
    index_t i = 0;
    for (; i + 4 <= count; i += 4)
        UNROLL for (int j = 0; j < 4; ++j) part[j] = fma1(double(x[i + j]), double(y[i + j]), part[j]);
    for (; i < count; ++i) part[0] = fma1(double(x[i]), double(y[i]), part[0]);
    return (part[0] + part[2]) + (part[1] + part[3]);
}

// One task: the taps of one window line for one coarse and up to PLAIN_ROWS fine channels. Sums over pixels in float64.
template <class T> static int plain_weight(const cg_problem& given, int threads) {
    cg_problem p = given;
    SmallCopy fine_copy, coarse_copy;
    if (sizeof(T) == sizeof(float)) {
        fine_copy.stand_in(&p.fine_operand, p.batch, p.groups * p.fine_channels, p.fine);
        coarse_copy.stand_in(&p.coarse_operand, p.batch, p.groups * p.coarse_channels, p.coarse);
    }
    lengthen_lines(&p, p.fine_operand, p.coarse_operand);
    const Source fine = make_source(p.fine_operand), coarse = make_source(p.coarse_operand);
    const Target target = make_target(p.to_weight);
    const index_t *fs = p.fine_operand.stride, *cs = p.coarse_operand.stride, *ws = p.to_weight.stride;
    const index_t fine_parts = ceil_div(p.fine_channels, PLAIN_ROWS);
    auto body = [&](index_t task, char* scratch) {
        T* const fine_line = (T*)scratch;
        T* const coarse_line = fine_line + PLAIN_COLUMNS;
        const index_t ky = task % p.window[1];
        task /= p.window[1];
        const index_t kz = task % p.window[0];
        task /= p.window[0];
        const index_t f0 = task % fine_parts * PLAIN_ROWS, c = task / fine_parts;  // c counts over all groups
        const index_t rows = min(PLAIN_ROWS, p.fine_channels - f0);
        const index_t f_at = (c / p.coarse_channels * p.fine_channels + f0) * fs[1];
        const Tied oz = tied_cells(p.coarse[0], p.fine[0], p.stride[0], kz * p.dilation[0] - p.pad[0]);
        const Tied oy = tied_cells(p.coarse[1], p.fine[1], p.stride[1], ky * p.dilation[1] - p.pad[1]);
        for (index_t kx = 0; kx < p.window[2]; ++kx) {
            const index_t shift = kx * p.dilation[2] - p.pad[2];
            const Tied ox = tied_cells(p.coarse[2], p.fine[2], p.stride[2], shift);
            double sums[PLAIN_ROWS] = {};
            for (index_t n = 0; n < p.batch; ++n)
                for (index_t z = oz.begin; z < oz.end; ++z)
                    for (index_t r = oy.begin; r < oy.end; ++r) {
                        const index_t iz = z * p.stride[0] - p.pad[0] + kz * p.dilation[0];
                        const index_t iy = r * p.stride[1] - p.pad[1] + ky * p.dilation[1];
                        for (index_t begin = ox.begin; begin < ox.end; begin += PLAIN_COLUMNS) {
                            const index_t count = min(PLAIN_COLUMNS, ox.end - begin);
                            const index_t x_at =
                                n * fs[0] + f_at + iz * fs[2] + iy * fs[3] + (begin * p.stride[2] + shift) * fs[4];
                            const T* y = line_of(coarse, n * cs[0] + c * cs[1] + z * cs[2] + r * cs[3] + begin * cs[4],
                                                 count, cs[4], coarse_line);
                            for (index_t f = 0; f < rows; ++f)
                                sums[f] += dot(line_of(fine, x_at + f * fs[1], count, p.stride[2] * fs[4], fine_line),
                                               y, count);
                        }
                    }
            for (index_t f = 0; f < rows; ++f) {
                const T rounded = T(sums[f]);
                store_line(target, c * ws[0] + (f0 + f) * ws[1] + kz * ws[2] + ky * ws[3] + kx * ws[4], 1, 1, &rounded);
            }
        }
    };
    const index_t tasks = p.groups * p.coarse_channels * fine_parts * p.window[0] * p.window[1];
    return in_parallel(threads, tasks, 2 * PLAIN_COLUMNS * sizeof(T), body);
}

static int run_plain(const Call& call, const Plan& plan) {
    const cg_problem& p = call.p;
    const int threads = call.threads;
    const bool wide = plan.plain.in_double, to_fine = call.contraction == TO_FINE;
    if (call.contraction == TO_WEIGHT) return wide ? plain_weight<double>(p, threads) : plain_weight<float>(p, threads);
    return wide ? plain_gather<double>(p, to_fine, threads) : plain_gather<float>(p, to_fine, threads);
}

}  // namespace
}  // namespace cg
