// The weight contraction of up to twelve coarse channels per group, see kernels.inl.h.
#pragma once

#include "blocking/tile_size.h"
#include "scratch.h"

namespace cg {

struct Call;
struct Plan;

// Coarse channels of a group; of them those summed together: with the rows of the result they fill twelve registers, or
// eight.
enum { MAX_FEW_CHANNELS = 12, MAX_TOGETHER = 4 };

struct FewPlan {
    AxisTaps taps[3];
    index_t count;  // of the taps
    Blocks blocks;
    index_t block_steps;  // vectors of eight pixels, at most, of a block
    index_t span[3], slots[3];
    index_t tile_channels;    // fine channels copied at a time
    bool tile_fits;           // what the engine holds of one
    index_t coarse_plane;     // floats of a coarse channel of a block
    index_t groups_per_task;  // small groups that are copied together
    index_t partials;         // runs of pixels (fixes the order of the sum: problem only)
    index_t bias_sums;        // of every run of pixels: the bias is summed beside; 0 when it is not
    Booking task, shared;
    Piece<float> tile, coarse;
    Piece<int> steps;    // Pixel, two int each
    Piece<int> rows;     // first cell of every row of the result
    Piece<float> sums;   // shared: [run of pixels][group][(f, tap)][c][lane]
    Piece<double> bias;  // shared: [run of pixels][channel]
};
namespace few_channels {
bool accepts(const Call& call, Plan* draft);
bool prefers(const Call& call, Plan* draft);
void plan(const Call& call, Plan* plan);
size_t workspace(const Call& call, const Plan& plan);
void cuts(const Call& call, const Plan& plan, int64_t cuts[CG_CUTS]);
}  // namespace few_channels

}  // namespace cg
