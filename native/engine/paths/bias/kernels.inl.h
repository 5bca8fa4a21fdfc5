// The sum of every channel, by itself or beside the weight contraction.
#pragma once

#include "blocking/blocks.h"
#include "numbers/load.inl.h"
#include "paths/bias/plan.h"
#include "problem.h"

namespace cg {
namespace {

// Sums of the values as stored (no operand cast), in float64: lines in order, eight lanes per line, in at most
// BIAS_PARTS runs whose cut depends on the sizes only.
template <int KIND> static double line_sum(const Source& s, index_t at, index_t count, index_t step) {
    const Loader<KIND> from = loader<KIND>(s);
    double total = 0;
    index_t i = 0;
    if (step == 1 && count >= 8) {
        DoubleSum even, odd;
        for (; i + 16 <= count; i += 16) {
            even.add(from.eight(at + i));
            odd.add(from.eight(at + i + 8));
        }
        for (; i + 8 <= count; i += 8) even.add(from.eight(at + i));
        total = even.total() + odd.total();
    }
    double partial[4] = {0, 0, 0, 0};  // an addition need not wait for the one before it
    for (; i + 4 <= count; i += 4) UNROLL for (int j = 0; j < 4; ++j) partial[j] += from.one(at + (i + j) * step);
    for (; i < count; ++i) partial[0] += from.one(at + i * step);
    return total + ((partial[0] + partial[2]) + (partial[1] + partial[3]));
}

static double line_sum_any(const Source& s, index_t at, index_t count, index_t step) {
    switch (s.kind) {
    case LOAD_F32: return line_sum<LOAD_F32>(s, at, count, step);
    case LOAD_F16: return line_sum<LOAD_F16>(s, at, count, step);
    case LOAD_BF16: return line_sum<LOAD_BF16>(s, at, count, step);
    case LOAD_BYTE: return line_sum<LOAD_BYTE>(s, at, count, step);
    default: break;
    }
    double total = 0;
    for (index_t i = 0; i < count; ++i) total += load_as_double(s.tensor->data, at + i * step, s.tensor->dtype);
    return total;
}

struct BiasRun {
    const cg_problem& p;
    const BiasPlan plan;
    const cg_tensor stored;
    const Source source;

    explicit BiasRun(const cg_problem& problem)
        : p(problem), plan(plan_bias(problem)), stored(as_stored(problem)), source(make_source(stored)) {}
    BiasRun(const BiasRun&) = delete;  // the source points to the tensor beside it
    static cg_tensor as_stored(const cg_problem& p) {
        cg_tensor t = p.bias_source == 0 ? p.coarse_operand : p.fine_operand;
        t.cast = t.dtype;
        return t;
    }
    index_t line_at(index_t channel, index_t line) const {
        const index_t *st = stored.stride, *extent = plan.extent;
        const index_t row = plan.joined ? 0 : line % extent[1], rest = plan.joined ? line : line / extent[1];
        return rest / extent[0] * st[0] + channel * st[1] + rest % extent[0] * st[2] + row * st[3];
    }
    index_t first_line(index_t part) const { return plan.lines * part / plan.parts; }
    // Rounded once to the cast; a float32 accumulator would round earlier.
    void store(index_t channel, double total) const {
        store_from_double(p.bias.data, channel * p.bias.stride[1], p.bias.dtype, round_to(p.bias.cast, total));
    }
};

// The bias of a channel whose lines come one by one, in order: the same sum as below.
struct BiasSum {
    double total = 0, of_part = 0;
    index_t part = 0;

    INLINE void add_line(const BiasRun& run, index_t channel, index_t line) {
        of_part += line_sum_any(run.source, run.line_at(channel, line), run.plan.length, run.stored.stride[4]);
        if (line + 1 < run.first_line(part + 1)) return;
        total = part == 0 ? of_part : total + of_part;
        of_part = 0;
        ++part;
    }
};

// Adds the lines of a block to the sums of channels [begin, end).
static void add_bias(const BiasRun& bias, const Box& box, index_t begin, index_t end, double* sums) {
    const index_t* st = bias.stored.stride;
    const index_t cells = box.end[3] - box.begin[3], lines = box.end[2] - box.begin[2];
    const bool joined = st[3] == cells;
    for (index_t c = begin; c < end; ++c)
        for (index_t n = box.begin[0]; n < box.end[0]; ++n)
            for (index_t d = box.begin[1]; d < box.end[1]; ++d) {
                const index_t at = n * st[0] + c * st[1] + d * st[2] + box.begin[2] * st[3] + box.begin[3];
                for (index_t r = 0; r < (joined ? 1 : lines); ++r)
                    sums[c] += line_sum_any(bias.source, at + r * st[3], joined ? lines * cells : cells, 1);
            }
}

// Adds the sums of `partials` runs of pixels in their order.
static void store_bias(const BiasRun& bias, const double* sums, index_t partials) {
    const index_t channels = bias.p.groups * bias.p.coarse_channels;
    for (index_t c = 0; c < channels; ++c) {
        double total = sums[c];
        for (index_t s = 1; s < partials; ++s) total += sums[s * channels + c];
        bias.store(c, total);
    }
}

// sums[c] += values[k][c] for all k: pixels by twos, so that one addition need not wait for the other.
template <int WIDTH> static void add_pixels(const float* values, index_t pixels, double* sums) {
    double even[WIDTH] = {}, odd[WIDTH] = {};
    index_t k = 0;
    for (; k + 2 <= pixels; k += 2) {
        UNROLL for (int c = 0; c < WIDTH; ++c) even[c] += values[k * WIDTH + c];
        UNROLL for (int c = 0; c < WIDTH; ++c) odd[c] += values[(k + 1) * WIDTH + c];
    }
    for (int c = 0; c < WIDTH; ++c) sums[c] += even[c] + odd[c] + (k < pixels ? values[k * WIDTH + c] : 0);
}

// The same from packed values of one panel, [pixel][channel].
static void add_packed_bias(index_t panel, index_t pixels, const float* values, index_t begin, index_t end,
                            double* sums) {
    double total[2 * LANES] = {};
    if (panel == LANES) add_pixels<LANES>(values, pixels, total);
    else add_pixels<2 * LANES>(values, pixels, total);
    for (index_t c = begin; c < end; ++c) sums[c] += total[c - begin];
}

}  // namespace
}  // namespace cg
