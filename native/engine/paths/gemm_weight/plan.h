//   weight[c, f, k] = sum over pixels of fine[f, pixel*stride - pad + k*dilation] * coarse[c, pixel]
//
// A matrix product (f, k) x pixels x c: fine values are broadcast straight from the tile, coarse values are
// packed to [pixel][c]. The pixels are cut into `partials` runs of blocks, each summed separately, added in order:
// that cut depends on the problem only.
#pragma once

#include "blocking/tile_size.h"
#include "scratch.h"

namespace cg {

struct Call;
struct Plan;

struct WeightPlan {
    AxisTaps taps[3];
    index_t tap_groups[3], group_count;
    index_t max_taps;
    int mr, nr_vectors;
    Blocks blocks;
    index_t partials;
    index_t chain;  // pixels, at most, that one chain of multiply-adds sums
    index_t span[3], slots[3];
    index_t tile_channel, tile_channels;
    index_t tile_cell;  // floats of a cell with its channels inside
    index_t block_pixels;
    bool channels_inside;                // the channels of a cell lie side by side in the tile too
    bool by_tap;                         // rows go tap by tap, each with the pixels that meet no padding
    index_t panels, panel_block;         // coarse panels of a group; panels packed at a time
    index_t channel_split, panel_split;  // task grid over fine channels and coarse panels
    index_t channels_per_task, panels_per_task;
    index_t bias_sums;  // of every run of pixels: the bias is summed beside; 0 when it is not
    Booking task, shared;
    Piece<float> tile, coarse;      // fine cells; packed coarse values
    Piece<int> pixels;              // Pixel, two int each: of a block, or of each of its taps
    Piece<int> chain_ends, listed;  // steps before which chains end; steps of a tap
    Piece<int> rows;                // first cell of every row of the result
    Piece<float> sums;              // of a task, where there is one run of pixels
    Piece<float> partial_sums;      // shared: where there are several
    Piece<double> bias;             // shared: [run of pixels][channel]
};
void plan_weight(const cg_problem& p, int lanes, int threads, WeightPlan* plan);

// The path "gemm packed" of any contraction: data gradients are planned by gemm_data.
namespace gemm_packed {
bool accepts(const Call& call, Plan* draft);
bool prefers(const Call& call, Plan* draft);
void plan(const Call& call, Plan* plan);
size_t workspace(const Call& call, const Plan& plan);
void cuts(const Call& call, const Plan& plan, int64_t cuts[CG_CUTS]);
}  // namespace gemm_packed

}  // namespace cg
