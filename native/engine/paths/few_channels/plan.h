// The weight contraction of up to twelve coarse channels per group, see kernels.inl.h.
#pragma once

#include "blocking/tile_size.h"

namespace cg {

enum { MAX_FEW_CHANNELS = 12 };
struct FewPlan {
    AxisTaps taps[3];
    index_t count;  // of the taps
    Blocks blocks;
    index_t block_steps;  // vectors of eight pixels, at most, of a block
    index_t span[3], slots[3];
    index_t tile_channels, tile_floats;  // fine channels copied at a time
    index_t coarse_plane;                // floats of a coarse channel of a block
    index_t groups_per_task;             // small groups that are copied together
    index_t partials;                    // runs of pixels (fixes the order of the sum: problem only)
    index_t bias_sums;                   // of every run of pixels: the bias is summed beside; 0 when it is not
    size_t task_bytes, shared_bytes;
};
bool few_fit(const cg_problem& p);
bool few_beat_panels(const cg_problem& p);
void plan_few(const cg_problem& p, int threads, FewPlan* plan);

}  // namespace cg
