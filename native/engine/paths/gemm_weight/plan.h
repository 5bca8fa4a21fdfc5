//   weight[c, f, k] = sum over pixels of fine[f, pixel*stride - pad + k*dilation] * coarse[c, pixel]
//
// A matrix product (f, k) x pixels x c: fine values are broadcast straight from the tile, coarse values are
// packed to [pixel][c]. The pixels are cut into `partials` runs of blocks, each summed separately, added in order:
// that cut depends on the problem only.
#pragma once

#include "blocking/tile_size.h"

namespace cg {

struct WeightPlan {
    AxisTaps taps[3];
    index_t tap_groups[3], group_count;
    index_t max_taps;
    int mr, nr_vectors;
    Blocks blocks;
    index_t partials;
    index_t chain;  // pixels, at most, that one chain of multiply-adds sums
    index_t span[3], slots[3];
    index_t tile_channel, tile_channels, tile_floats;
    index_t tile_cell;  // floats of a cell with its channels inside
    index_t block_pixels;
    bool channels_inside;                // the channels of a cell lie side by side in the tile too
    bool by_tap;                         // rows go tap by tap, each with the pixels that meet no padding
    index_t panels, panel_block;         // coarse panels of a group; panels packed at a time
    index_t channel_split, panel_split;  // task grid over fine channels and coarse panels
    index_t channels_per_task, panels_per_task;
    index_t bias_sums;  // of every run of pixels: the bias is summed beside; 0 when it is not
    size_t task_bytes, shared_bytes;
};
void plan_weight(const cg_problem& p, int lanes, int threads, WeightPlan* plan);

}  // namespace cg
