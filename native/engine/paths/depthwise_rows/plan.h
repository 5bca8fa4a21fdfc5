// One channel per group, vectors along the rows: data gradients are planned as passes of gemm_data are.
#pragma once

#include "paths/gemm_data/plan.h"

namespace cg {

struct DepthwiseWeightPlan {
    AxisTaps taps[3];
    index_t tap_groups[3], group_count, max_taps;
    Blocks blocks;
    index_t span[3], slots[3];
    bool wide;  // vectors along the window's columns instead of along the pixels
    index_t channels_at_once;
    index_t tile_floats, coarse_floats, sum_floats;
    index_t partials;
    size_t task_bytes, shared_bytes;
};

void plan_depthwise_rows(const Gather& g, const Blocks& nominal, const Spread spread[3], GatherPass* pass);
void plan_depthwise_weight(const cg_problem& p, DepthwiseWeightPlan* plan);

}  // namespace cg
