// What a block of a data contraction will read and write.
#pragma once

#include "blocking/prefetch.inl.h"
#include "paths/gemm_data/plan.h"

namespace cg {
namespace {

// The source cells of a block.
static Prefetch source_prefetch(const Gather& g, const GatherPass& pass, const Box& box, const Tile& t, index_t channel,
                                index_t channels) {
    if (!exceeds_cache(*g.source, g.batch * g.groups * g.in_channels, g.source_extent)) return Prefetch();
    return tile_prefetch(*g.source, g.source_extent, g.source_step, pass.span, t, box, channel, channels);
}

// The result of a block.
static Prefetch result_prefetch(const Gather& g, const GatherPass& pass, const Box& box, index_t channel,
                                index_t channels) {
    Prefetch prefetch;
    if (!exceeds_cache(*g.target, g.batch * g.groups * g.out_channels, g.out)) return prefetch;
    index_t low[3], high[3];
    for (int a = 0; a < 3; ++a) {
        if (pass.classes.per[a] != g.out_step[a]) return prefetch;
        low[a] = box.begin[a + 1] * g.out_step[a];
        high[a] = min(g.out[a], box.end[a + 1] * g.out_step[a]);
    }
    prefetch.start(*g.target, box.begin[0], box.end[0], channel, channels, low, high);
    return prefetch;
}

}  // namespace
}  // namespace cg
