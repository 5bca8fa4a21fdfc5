// One instruction set's half of the engine, as kernels.cpp compiles it.
#pragma once

#include "numbers/integers.h"

namespace cg {

// An inf or NaN met a padding zero: the plain path knows what is tied to what. Or numbers are too small for pairs of
// bfloat16: one by one they are not.
enum { STATUS_REDO_PLAIN = 100, STATUS_REDO_UNPAIRED = 101 };

struct Isa {
    const char* name;
    int lanes;
    int (*run)(const cg_problem& p, int contraction, int path, int threads);
    size_t (*workspace)(const cg_problem& p, int contraction, int path, int threads);
    void (*cuts)(const cg_problem& p, int contraction, int path, int64_t cuts[CG_CUTS]);
    void (*load)(const cg_tensor& tensor, index_t count, float* out);
    void (*store)(const cg_tensor& tensor, index_t count, const float* values);
};

const Isa& isa();  // the one in use

}  // namespace cg
