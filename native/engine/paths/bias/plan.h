// The bias: by itself, or beside the weight contraction.
#pragma once

#include "numbers/integers.h"

namespace cg {

struct BiasPlan {
    const index_t* extent;
    index_t channels, block, blocks, length, lines, parts, range;
    bool across, joined;
    size_t shared_bytes, task_bytes;
};

BiasPlan plan_bias(const cg_problem& p);

// Coarse lines are in cache when they have been copied: no need to read them once more for the bias. Channels last, the
// copy is summed itself; it must not have been shortened. `biases`: of all runs of pixels.
bool sums_bias_beside(const cg_problem& p, index_t biases);

}  // namespace cg
