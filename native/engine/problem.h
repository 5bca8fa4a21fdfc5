// What is asked of the engine: the contractions of a problem.
#pragma once

#include "numbers/integers.h"

namespace cg {

enum Contraction { TO_FINE, TO_COARSE, TO_WEIGHT, BIAS };

const cg_tensor& result_of(const cg_problem& p, int contraction);
bool is_depthwise(const cg_problem& p);
bool uses_double(const cg_problem& p, int contraction);
double multiplications(const cg_problem& p);

}  // namespace cg
