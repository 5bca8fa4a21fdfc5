#include "problem.h"

namespace cg {

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

double multiplications(const cg_problem& p) {
    double count = double(p.batch) * double(p.groups) * double(p.fine_channels) * double(p.coarse_channels);
    for (int a = 0; a < 3; ++a) count *= double(p.window[a]) * double(p.coarse[a]);
    return count;
}

double window_taps(const cg_problem& p) { return double(p.window[0]) * double(p.window[1]) * double(p.window[2]); }

}  // namespace cg
