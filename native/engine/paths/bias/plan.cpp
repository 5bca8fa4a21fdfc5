// Whether the bias is summed beside the weights.
#include "paths/bias/plan.h"

namespace cg {

bool sums_bias_beside(const cg_problem& p, index_t biases) {
    const cg_tensor& coarse = p.coarse_operand;
    return p.bias.data != nullptr && p.bias_source == 0 && biases <= 32768 &&
           (coarse.stride[4] == 1 || (coarse.stride[1] == 1 && coarse.cast == coarse.dtype));
}

}  // namespace cg
