// Which cells the law ties to each other, one axis at a time: for paths that read nothing else.
#pragma once

#include "problem.h"
#include "simd/vector.inl.h"

namespace cg {
namespace {

// The range of coarse cells o of one axis with 0 <= o*stride + shift < fine.
struct Tied {
    index_t begin, end;
};
static INLINE Tied tied_cells(index_t coarse, index_t fine, index_t stride, index_t shift) {
    Tied t;
    t.begin = shift >= 0 ? 0 : min(coarse, stride == 1 ? -shift : ceil_div(-shift, stride));
    t.end = shift >= fine ? 0 : min(coarse, stride == 1 ? fine - shift : ceil_div(fine - shift, stride));
    if (t.end < t.begin) t.end = t.begin;
    return t;
}

// Along one axis: the source cell tap k ties to output cell `out`, or -1.
static INLINE index_t tied_source(const cg_problem& p, bool to_fine, int axis, index_t out, index_t k) {
    if (!to_fine) {
        const index_t i = out * p.stride[axis] - p.pad[axis] + k * p.dilation[axis];
        return i >= 0 && i < p.fine[axis] ? i : -1;
    }
    const index_t distance = out + p.pad[axis] - k * p.dilation[axis];
    if (distance < 0) return -1;
    const index_t o = p.stride[axis] == 1 ? distance : distance / p.stride[axis];
    return o < p.coarse[axis] && o * p.stride[axis] == distance ? o : -1;
}

}  // namespace
}  // namespace cg
