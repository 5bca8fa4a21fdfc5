// One instruction set's half of the engine, as kernels.cpp compiles it.
#pragma once

#include "numbers/integers.h"

namespace cg {

// An inf or NaN met a padding zero: the plain path knows what is tied to what. Or numbers are too small for pairs of
// bfloat16: one by one they are not. Or a sum of transformed tiles is not finite: the direct paths know whether it
// should be.
enum { STATUS_REDO_PLAIN = 100, STATUS_REDO_UNPAIRED = 101, STATUS_REDO_DIRECT = 102 };

struct Call;
struct Plan;
typedef int (*RunPlan)(const Call& call, const Plan& plan);

struct PathRuns {  // null where the path never takes such a contraction
    int path;
    RunPlan data, weight;
};

struct Isa {
    const char* name;
    int lanes;
    const PathRuns* runs;  // by the number of a path
    int (*run_bias)(const cg_problem& p, int threads);
    void (*load)(const cg_tensor& tensor, index_t count, float* out);
    void (*store)(const cg_tensor& tensor, index_t count, const float* values);
};

const Isa& isa();  // the one in use

}  // namespace cg
