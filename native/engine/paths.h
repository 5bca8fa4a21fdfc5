// The ways to compute a contraction.
#pragma once

#include "problem.h"

namespace cg {

enum PathNumber {
    PATH_CHOOSE,
    PATH_PLAIN,
    PATH_DEPTHWISE_CHANNELS,
    PATH_GROUPED_CHANNELS,
    PATH_DEPTHWISE_ROWS,
    PATH_GEMM_COLUMNS,
    PATH_FEW_CHANNELS,
    PATH_GEMM_IMAGES,
    PATH_GEMM_DIRECT,
    PATH_GEMM_PACKED,
    PATHS
};

struct Path {
    const char* name;
    const char* taken_for;
    bool (*accepts)(const cg_problem& p, int contraction);
    bool (*prefers)(const cg_problem& p, int contraction);
};
extern const Path path_table[PATHS];

int choose_path(const cg_problem& p, int contraction);

}  // namespace cg
