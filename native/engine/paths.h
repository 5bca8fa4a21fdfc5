// A path is one way to compute a contraction. Its folder under paths/ has its plan (compiled for the baseline: integers
// only), its kernels and its tasks (*.inl.h, compiled once per instruction set). Its row in paths.cpp is all that the
// rest of the engine knows of it.
#pragma once

#include "paths/bias/plan.h"
#include "paths/depthwise_channels/plan.h"
#include "paths/depthwise_rows/plan.h"
#include "paths/few_channels/plan.h"
#include "paths/gemm_columns/plan.h"
#include "paths/gemm_data/plan.h"
#include "paths/gemm_weight/plan.h"
#include "paths/plain/plan.h"
#include "paths/winograd/plan.h"
#include "problem.h"

namespace cg {

// In the order in which they are tried; the numbers of cg_problem.path.
enum PathNumber {
    PATH_CHOOSE,
    PATH_PLAIN,
    PATH_WINOGRAD_4,
    PATH_WINOGRAD_7,
    PATH_WINOGRAD_8,
    PATH_WINOGRAD_LINE_4,
    PATH_WINOGRAD_LINE_8,
    PATH_WINOGRAD_LINE_16,
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

// How a contraction is computed: made once, then asked for its workspace and its cuts, and run.
struct Plan {
    int path;        // whose part of the union is filled; PATH_CHOOSE: nobody's
    bool sums_bias;  // a weight contraction sums the bias as well
    union {
        PlainPlan plain;
        ChannelPlan channels;  // depthwise channels, grouped channels
        DataPlan data;         // gemm images, direct and packed; depthwise rows
        WeightPlan weight;     // gemm packed
        DepthwiseWeightPlan depthwise_weight;
        ColumnPlan columns;
        FewPlan few;
        WinogradPlan winograd;
    };
};

// `accepts` and `prefers` may leave the plan they had to make in the draft: it is not made again.
struct Path {
    const char* name;
    const char* taken_for;
    bool exact;                                      // small integers leave no rounding
    bool (*accepts)(const Call& call, Plan* draft);  // can
    bool (*prefers)(const Call& call, Plan* draft);  // should; only asked when it accepts
    void (*plan)(const Call& call, Plan* plan);      // completes the draft
    size_t (*workspace)(const Call& call, const Plan& plan);
    void (*cuts)(const Call& call, const Plan& plan, int64_t cuts[CG_CUTS]);  // all 1 before
};
extern const Path path_table[PATHS];

bool path_accepts(const Call& call, int path);
int choose_path(const Call& call, Plan* draft);
void make_plan(const Call& call, Plan* plan);            // the path the problem forces or the first that prefers it
void make_plan(const Call& call, int path, Plan* plan);  // one that accepts

// Parts of each axis of the pixel blocks.
void set_block_cuts(const Blocks& blocks, int64_t cuts[CG_CUTS]);

}  // namespace cg
