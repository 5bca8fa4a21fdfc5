// One channel or a few per group, side by side in memory: blocks of pixels and of channels.
#pragma once

#include "blocking/blocks.h"
#include "blocking/taps.h"
#include "scratch.h"

namespace cg {

struct Call;
struct Plan;

struct ChannelPlan {
    Blocks blocks;
    index_t channels, channels_per_group;  // of all groups, of one
    bool copies;                           // sources are converted into a buffer even where they could be read in place
    index_t block;                         // channels of a task, a multiple of 16
    index_t channels_at_once;              // whose weights or sums are held together
    index_t partials;
    bool source_fits;  // a block of it, whatever the number of threads
    Booking task, shared;
    Piece<float> source, line;  // of a block
    Piece<float> tied_rows;     // TiedRow, two pointers each
    Piece<float> weights;       // shared: packed weights, or sums of them
};
namespace depthwise_channels {
bool accepts(const Call& call, Plan* draft);
bool prefers(const Call& call, Plan* draft);
void plan(const Call& call, Plan* plan);
size_t workspace(const Call& call, const Plan& plan);
void cuts(const Call& call, const Plan& plan, int64_t cuts[CG_CUTS]);
}  // namespace depthwise_channels

// Plans, and all that follows from them, are those of depthwise channels.
namespace grouped_channels {
bool accepts(const Call& call, Plan* draft);
bool prefers(const Call& call, Plan* draft);
}  // namespace grouped_channels

}  // namespace cg
