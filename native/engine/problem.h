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
double multiplications_of_a_sample(const cg_problem& p);
double window_taps(const cg_problem& p);

// Windows nearly as wide as the plane: most of their taps meet no source cell along the width, and a vector of pixels
// of a row wastes them. Where another axis is long and its taps meet, the two change places: rows then lie along that
// axis, and a tap of the width is left out line by line. The axis that becomes the width, or the width itself.
int row_axis(const cg_problem& p, int contraction);
cg_problem with_rows_along(const cg_problem& p, int axis);
cg_problem with_axes_exchanged(const cg_problem& p, int a, int b);

}  // namespace cg
