// One channel or a few per group, side by side in memory: blocks of pixels and of channels.
#pragma once

#include "blocking/blocks.h"
#include "blocking/taps.h"

namespace cg {

struct ChannelPlan {
    Blocks blocks;
    index_t channels, channels_per_group;  // of all groups, of one
    bool copies;                           // sources are converted into a buffer even where they could be read in place
    index_t block;                         // channels of a task, a multiple of 16
    index_t channels_at_once;              // whose weights or sums are held together
    index_t source_floats, line_floats, partials;
    size_t task_bytes, shared_bytes;
};
void plan_channels(const cg_problem& p, int contraction, int threads, ChannelPlan* plan);
bool channels_fit(const cg_problem& p, int contraction);

}  // namespace cg
