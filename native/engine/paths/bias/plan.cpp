// Runs of lines summed by one task each, or whether the weight contraction sums the bias beside.
#include "paths/bias/plan.h"
#include "blocking/blocking_numbers.h"

namespace cg {

BiasPlan plan_bias(const cg_problem& p) {
    BiasPlan b;
    const cg_tensor& t = p.bias_source == 0 ? p.coarse_operand : p.fine_operand;
    b.extent = p.bias_source == 0 ? p.coarse : p.fine;
    b.channels = p.groups * (p.bias_source == 0 ? p.coarse_channels : p.fine_channels);
    b.across = t.stride[1] == 1 && t.stride[4] != 1 && t.dtype != CG_FLOAT64 && b.channels >= 8;
    b.block = b.across ? 64 : 1;  // channels a task sums
    b.blocks = ceil_div(b.channels, b.block);
    b.joined = t.stride[3] == b.extent[2] * t.stride[4] && !b.across;  // a plane is one line
    b.length = b.joined ? b.extent[1] * b.extent[2] : b.extent[2];
    b.lines = p.batch * b.extent[0] * (b.joined ? 1 : b.extent[1]);
    b.parts = max(1, min(BIAS_PARTS, min(b.lines, b.lines * b.length / 4096)));
    // Partial sums of a range of channels at a time keep the shared memory bounded.
    b.range = min(b.blocks, max(1, (128 << 10) / (b.parts * b.block)));
    b.shared_bytes = size_t(b.parts * b.range * b.block) * 8 + 64;
    b.task_bytes = 16 * 64 * 4 + 64;
    return b;
}

bool sums_bias_beside(const cg_problem& p, index_t biases) {
    const cg_tensor& coarse = p.coarse_operand;
    return p.bias.data != nullptr && p.bias_source == 0 && biases <= 32768 &&
           (coarse.stride[4] == 1 || (coarse.stride[1] == 1 && coarse.cast == coarse.dtype));
}

}  // namespace cg
