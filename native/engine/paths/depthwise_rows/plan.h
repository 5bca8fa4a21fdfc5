// One channel per group, vectors along the rows: data gradients are planned as passes of gemm_data are.
#pragma once

#include "paths/gemm_data/plan.h"

namespace cg {

struct DepthwiseWeightPlan {
    AxisTaps taps[3];
    index_t tap_groups[3], group_count, max_taps;
    Blocks blocks;
    index_t span[3], slots[3];
    bool wide;                 // vectors along the window's columns instead of along the pixels
    index_t channels_at_once;  // copied together
    index_t in_turn;           // ... so many times by a task, one after the other in the same tile
    index_t sum_floats;        // of a channel
    index_t partials;
    bool sums_bias;  // tasks see every coarse plane of a channel once, in order
    Booking task, shared;
    Piece<float> tile, coarse, sums;
    Piece<int> offsets;
    Piece<float> windows;       // results of a task
    Piece<float> partial_sums;  // shared: [run of pixels][channel][tap group]
};

void plan_depthwise_rows(const Gather& g, const Blocks& nominal, const Spread spread[3], GatherPass* pass);
namespace depthwise_rows {
bool accepts(const Call& call, Plan* draft);
bool prefers(const Call& call, Plan* draft);
void plan(const Call& call, Plan* plan);
size_t workspace(const Call& call, const Plan& plan);
void cuts(const Call& call, const Plan& plan, int64_t cuts[CG_CUTS]);
}  // namespace depthwise_rows

}  // namespace cg
