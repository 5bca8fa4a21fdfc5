// The table of paths, in the order in which they are tried: reading it is reading the dispatch.
#include "paths.h"

namespace cg {
namespace {

bool never(const Call&, Plan*) { return false; }

}  // namespace

const Path path_table[PATHS] = {
    {"choose", "the first path below that prefers the problem", true, never, never, nullptr, nullptr, nullptr},
    {"plain", "float64, fewer than 4096 multiplications, or inf and NaN next to padding", true, plain::accepts,
     plain::prefers, plain::plan, plain::workspace, plain::cuts},
    {"winograd 4",
     "algorithm fast or exact-fast: 3x3 (5x5) windows of stride 1 in 46 products for 144 (100), integers exact", true,
     winograd::accepts<4, SQUARE>, winograd::prefers<4, SQUARE>, winograd::plan<4, SQUARE>, winograd::workspace,
     winograd::cuts},
    {"winograd 7", "algorithm fast: 3x3 (5x5) windows of stride 1 in 117 products for 441 (625)", false,
     winograd::accepts<7, SQUARE>, winograd::prefers<7, SQUARE>, winograd::plan<7, SQUARE>, winograd::workspace,
     winograd::cuts},
    {"winograd 8", "algorithm fast: 3x3 (5x5) windows of stride 1 in 142 products for 576 (900)", false,
     winograd::accepts<8, SQUARE>, winograd::prefers<8, SQUARE>, winograd::plan<8, SQUARE>, winograd::workspace,
     winograd::cuts},
    {"winograd line 4",
     "algorithm fast or exact-fast: windows of 3 to 5 taps along one axis, stride 1, in 7 products for 12 (3 taps), "
     "integers exact",
     true, winograd::accepts<4, LINE>, winograd::prefers<4, LINE>, winograd::plan<4, LINE>, winograd::workspace,
     winograd::cuts},
    {"winograd line 8",
     "algorithm fast: 3 to 9 taps along one axis, stride 1, in 13 products for 24 (3 taps) to 30 (5)", false,
     winograd::accepts<8, LINE>, winograd::prefers<8, LINE>, winograd::plan<8, LINE>, winograd::workspace,
     winograd::cuts},
    {"winograd line 16",
     "algorithm fast: 3 to 9 taps along one axis, stride 1, in 25 products for 48 (3 taps) to 90 (9)", false,
     winograd::accepts<16, LINE>, winograd::prefers<16, LINE>, winograd::plan<16, LINE>, winograd::workspace,
     winograd::cuts},
    {"depthwise channels", "one channel per group, channels side by side in memory", true, depthwise_channels::accepts,
     depthwise_channels::prefers, depthwise_channels::plan, depthwise_channels::workspace, depthwise_channels::cuts},
    {"grouped channels", "two or four channels per group, side by side in memory", true, grouped_channels::accepts,
     grouped_channels::prefers, depthwise_channels::plan, depthwise_channels::workspace, depthwise_channels::cuts},
    {"depthwise rows", "one channel per group", true, depthwise_rows::accepts, depthwise_rows::prefers,
     depthwise_rows::plan, depthwise_rows::workspace, depthwise_rows::cuts},
    {"gemm columns", "weight gradients summed over at most 56 pixels of four images: the cells under every tap in rows",
     true, gemm_columns::accepts, gemm_columns::prefers, gemm_columns::plan, gemm_columns::workspace,
     gemm_columns::cuts},
    {"few channels",
     "weight gradients of up to twelve output channels per group (transposed: input channels): vectors along the "
     "pixels",
     true, few_channels::accepts, few_channels::prefers, few_channels::plan, few_channels::workspace,
     few_channels::cuts},
    {"gemm images",
     "data gradients of small planes, or of rows that fill whole vectors: images side by side, taps on padding left "
     "out",
     true, gemm_data::accepts, gemm_data::prefers_images, gemm_data::plan_images, gemm_data::workspace,
     gemm_data::cuts},
    {"gemm direct", "data gradients whose few channels or narrow halo let the matrix product read the tile itself",
     true, gemm_data::accepts, gemm_data::prefers_direct, gemm_data::plan_direct, gemm_data::workspace,
     gemm_data::cuts},
    {"gemm packed", "everything else in float32: the matrix product over packed panels", true, gemm_packed::accepts,
     gemm_packed::prefers, gemm_packed::plan, gemm_packed::workspace, gemm_packed::cuts},
};

bool path_accepts(const Call& call, int path) {
    Plan draft;
    draft.path = PATH_CHOOSE;
    return path_table[path].accepts(call, &draft);
}

int choose_path(const Call& call, Plan* draft) {
    draft->path = PATH_CHOOSE;
    if (call.p.path != PATH_CHOOSE) return call.p.path;
    for (int path = 1; path < PATHS; ++path)
        if (path_table[path].accepts(call, draft) && path_table[path].prefers(call, draft)) return path;
    return PATH_PLAIN;
}

static void complete(const Call& call, int path, Plan* plan) {
    plan->sums_bias = false;
    path_table[path].plan(call, plan);
    plan->path = path;
}

void make_plan(const Call& call, Plan* plan) { complete(call, choose_path(call, plan), plan); }

void make_plan(const Call& call, int path, Plan* plan) {
    plan->path = PATH_CHOOSE;
    complete(call, path, plan);
}

void set_block_cuts(const Blocks& blocks, int64_t cuts[CG_CUTS]) {
    for (int a = 0; a < 4; ++a) cuts[CG_CUT_BATCH + a] = blocks.count[a];
}

}  // namespace cg
