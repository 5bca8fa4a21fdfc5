// A data contraction as a gather.
#include "blocking/gather.h"

namespace cg {

Gather make_gather(const cg_problem& p, bool to_fine) {
    Gather g;
    g.batch = p.batch;
    g.groups = p.groups;
    g.out_channels = to_fine ? p.fine_channels : p.coarse_channels;
    g.in_channels = to_fine ? p.coarse_channels : p.fine_channels;
    g.source = to_fine ? &p.coarse_operand : &p.fine_operand;
    g.weight = &p.weight_operand;
    g.target = to_fine ? &p.to_fine : &p.to_coarse;
    g.weight_group = p.coarse_channels * p.weight_operand.stride[0];
    g.weight_out = p.weight_operand.stride[to_fine ? 1 : 0];
    g.weight_in = p.weight_operand.stride[to_fine ? 0 : 1];
    for (int a = 0; a < 3; ++a) {
        g.out[a] = to_fine ? p.fine[a] : p.coarse[a];
        g.source_extent[a] = to_fine ? p.coarse[a] : p.fine[a];
        g.out_step[a] = to_fine ? p.stride[a] : 1;
        g.source_step[a] = to_fine ? 1 : p.stride[a];
        g.weight_tap[a] = p.weight_operand.stride[a + 2];
    }
    return g;
}

}  // namespace cg
