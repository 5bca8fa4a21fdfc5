// A data contraction as a gather: which tensor is read, which is written, and by what steps.
#pragma once

#include "problem.h"

namespace cg {

struct Gather {
    index_t batch, groups, out_channels, in_channels;  // per group; in_channels are reduced
    index_t out[3], source_extent[3], out_step[3], source_step[3];
    index_t weight_group, weight_out, weight_in, weight_tap[3];  // strides: of a group, a channel, a tap
    const cg_tensor *source, *weight;
    const cg_tensor* target;
};

Gather make_gather(const cg_problem& p, bool to_fine);

}  // namespace cg
