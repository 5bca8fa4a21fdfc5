// The taps of a window, along one axis.
//
// Both data contractions gather: an output cell reads source cells at offsets given by the taps of the window.
//
//   to fine    i = o*stride - pad + k*dilation. Output cells i = stride*j + residue form one class per residue;
//              a class only meets the taps with (residue + pad - k*dilation) divisible by the stride, and then
//              o = j + (residue + pad - k*dilation) / stride: a convolution without any inserted zero.
//   to coarse  output o reads i = stride*o + (k*dilation - pad): one class, source step = stride.
//
// The taps a class meets are an arithmetic progression per axis, and so are their offsets.
#pragma once

#include "numbers/integers.h"

namespace cg {

enum { MAX_CLASSES = 16, MAX_TAPS = 512 };  // of a pass; of a tap group

struct AxisTaps {
    index_t count, first_tap, tap_step, first_offset, offset_step;
};

struct TapRange {
    index_t begin, end;
};

struct AxisClass {
    AxisTaps taps;
    index_t residue, cells;  // output cells residue, residue + step, ...: `cells` of them
};

struct ClassSet {  // classes computed together: they share one tile and are interleaved when written
    int count;     // = product of per
    int per[3];
    AxisClass axis[3][MAX_CLASSES];
};

AxisClass fine_class(const cg_problem& p, int axis, index_t residue, index_t first_try = 0);
AxisTaps coarse_taps(const cg_problem& p, int axis);
AxisClass axis_class(const cg_problem& p, bool to_fine, int axis, index_t residue);
index_t classes_with_taps(const cg_problem& p, int axis);
AxisTaps group_taps(const AxisTaps& taps, index_t groups, index_t number);
TapRange reaching_taps(const AxisTaps& taps, index_t step, index_t extent, index_t first, index_t last);

}  // namespace cg
