// The bias beside the weight contraction.
#pragma once

#include "numbers/integers.h"

namespace cg {

// Coarse lines are in cache when they have been copied: no need to read them once more for the bias. Channels last, the
// copy is summed itself; it must not have been shortened. `biases`: of all runs of pixels.
bool sums_bias_beside(const cg_problem& p, index_t biases);

}  // namespace cg
