// The taps a class of output cells meets.
#include "blocking/taps.h"

namespace cg {

// i = o*stride - pad + k*dilation with i = stride*j + residue:
//   k*dilation = residue + pad (mod stride), o = j + (residue + pad - k*dilation)/stride.
// Solutions k are spaced stride/gcd(stride, dilation) apart.
AxisClass fine_class(const cg_problem& p, int axis, index_t residue, index_t first_try) {
    const index_t stride = p.stride[axis], dilation = p.dilation[axis], window = p.window[axis];
    const index_t spacing = stride / gcd(stride, dilation);
    AxisClass c;
    c.residue = residue;
    c.cells = residue < p.fine[axis] ? ceil_div(p.fine[axis] - residue, stride) : 0;
    c.taps = AxisTaps{0, 0, spacing, 0, -(spacing * dilation / stride)};
    for (index_t k = first_try; k < min(window, spacing); ++k) {
        const index_t distance = residue + p.pad[axis] - k * dilation;
        if (distance % stride != 0) continue;
        c.taps.first_tap = k;
        c.taps.count = ceil_div(window - k, spacing);
        c.taps.first_offset = distance / stride;
        break;
    }
    return c;
}

AxisTaps coarse_taps(const cg_problem& p, int axis) {
    return AxisTaps{p.window[axis], 0, 1, -p.pad[axis], p.dilation[axis]};
}

AxisClass axis_class(const cg_problem& p, bool to_fine, int axis, index_t residue) {
    return to_fine ? fine_class(p, axis, residue) : AxisClass{coarse_taps(p, axis), 0, p.coarse[axis]};
}

index_t classes_with_taps(const cg_problem& p, int axis) {
    return min(p.window[axis], p.stride[axis] / gcd(p.stride[axis], p.dilation[axis]));
}

// Cell j reads source cell step*j + offset of the tap: which taps find one inside, for some j of [first, last]?
TapRange reaching_taps(const AxisTaps& taps, index_t step, index_t extent, index_t first, index_t last) {
    TapRange in{taps.count, 0};
    for (index_t t = 0; t < taps.count; ++t) {
        const index_t offset = taps.first_offset + t * taps.offset_step;
        if (step * last + offset < 0 || step * first + offset >= extent) continue;
        in.begin = min(in.begin, t);
        in.end = t + 1;
    }
    return in.begin < in.end ? in : TapRange{0, 0};
}

AxisTaps group_taps(const AxisTaps& taps, index_t groups, index_t number) {
    const index_t begin = taps.count * number / groups, end = taps.count * (number + 1) / groups;
    return AxisTaps{end - begin, taps.first_tap + begin * taps.tap_step, taps.tap_step,
                    taps.first_offset + begin * taps.offset_step, taps.offset_step};
}

}  // namespace cg
