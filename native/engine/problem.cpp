#include "problem.h"
#include "blocking/blocking_numbers.h"

#include <initializer_list>

namespace cg {
namespace {

// The share of (result cell, tap) pairs of an axis that meet a source cell. A result cell of the fine grid meets one of
// `stride` taps at all.
double met_share(const cg_problem& p, int contraction, int axis) {
    const index_t fine = p.fine[axis], coarse = p.coarse[axis], stride = p.stride[axis];
    double met = 0;
    for (index_t tap = 0; tap < p.window[axis]; ++tap) {  // coarse cells with 0 <= cell * stride + offset < fine
        const index_t offset = tap * p.dilation[axis] - p.pad[axis];
        const index_t first = max(0, -floor_div(offset, stride)),
                      end = min(coarse, floor_div(fine - 1 - offset, stride) + 1);
        met += double(max(0, end - first));
    }
    const double cells = contraction == TO_FINE ? double(fine) / double(stride) : double(coarse);
    return met / (cells * double(p.window[axis]));
}

template <typename T> void exchange(T* a, T* b) {
    const T kept = *a;
    *a = *b;
    *b = kept;
}

}  // namespace

const cg_tensor& source_of(const cg_problem& p, int contraction) {
    return contraction == TO_FINE ? p.coarse_operand : p.fine_operand;
}

const cg_tensor& result_of(const cg_problem& p, int contraction) {
    return contraction == TO_FINE     ? p.to_fine
           : contraction == TO_COARSE ? p.to_coarse
           : contraction == TO_WEIGHT ? p.to_weight
                                      : p.bias;
}

bool is_depthwise(const cg_problem& p) { return p.fine_channels == 1 && p.coarse_channels == 1; }

bool uses_double(const cg_problem& p, int contraction) {
    const cg_tensor* operands[2] = {contraction == TO_FINE ? &p.coarse_operand : &p.fine_operand,
                                    contraction == TO_WEIGHT ? &p.coarse_operand : &p.weight_operand};
    return operands[0]->cast == CG_FLOAT64 || operands[1]->cast == CG_FLOAT64;
}

double multiplications(const cg_problem& p) { return double(p.batch) * multiplications_of_a_sample(p); }

double multiplications_of_a_sample(const cg_problem& p) {
    double count = double(p.groups) * double(p.fine_channels) * double(p.coarse_channels);
    for (int a = 0; a < 3; ++a) count *= double(p.window[a]) * double(p.coarse[a]);
    return count;
}

double window_taps(const cg_problem& p) { return double(p.window[0]) * double(p.window[1]) * double(p.window[2]); }

int row_axis(const cg_problem& p, int contraction) {
    const bool gathers = contraction == TO_FINE || contraction == TO_COARSE;
    const index_t* out = contraction == TO_FINE ? p.fine : p.coarse;
    // Cheap first: what nearly every call answers with no.
    if (!gathers || max(out[0], out[1]) < MIN_TURNED_ROW || 2 * (p.window[2] - 1) * p.dilation[2] < p.fine[2] ||
        p.window[2] > MAX_TURNED_TAPS || min(p.fine_channels, p.coarse_channels) < MIN_TURNED_CHANNELS ||
        uses_double(p, contraction))
        return 2;
    const double width = met_share(p, contraction, 2);
    for (int axis : {1, 0}) {
        const bool pays = out[axis] >= LONG_TURNED_ROW ? width <= LONG_TURNED_SHARE
                                                       : out[axis] >= MIN_TURNED_ROW && width <= TURNED_SHARE;
        if (pays && p.window[axis] <= MAX_TURNED_TAPS && met_share(p, contraction, axis) >= FULL_ROW_SHARE) return axis;
    }
    return 2;
}

cg_problem with_rows_along(const cg_problem& p, int axis) { return with_axes_exchanged(p, axis, 2); }

cg_problem with_axes_exchanged(const cg_problem& p, int a, int b) {
    cg_problem turned = p;
    for (int64_t* numbers : {turned.fine, turned.coarse, turned.window, turned.stride, turned.dilation, turned.pad})
        exchange(&numbers[a], &numbers[b]);
    for (cg_tensor* t : {&turned.fine_operand, &turned.coarse_operand, &turned.weight_operand, &turned.to_fine,
                         &turned.to_coarse, &turned.to_weight})
        exchange(&t->stride[a + 2], &t->stride[b + 2]);
    return turned;
}

}  // namespace cg
