// What is asked of the engine: the contractions of a problem.
#pragma once

#include "numbers/integers.h"

namespace cg {

enum Contraction { TO_FINE, TO_COARSE, TO_WEIGHT, BIAS };

// One contraction of a problem, for so many lanes and threads.
struct Call {
    const cg_problem& p;
    int contraction;
    int lanes, threads;
};

const cg_tensor& source_of(const cg_problem& p, int contraction);  // coarse for TO_FINE, fine otherwise
const cg_tensor& result_of(const cg_problem& p, int contraction);
bool is_depthwise(const cg_problem& p);
bool uses_double(const cg_problem& p, int contraction);
double multiplications(const cg_problem& p);
double window_taps(const cg_problem& p);

}  // namespace cg
