// The plain loops: which problems they are for, and the few lines they hold.
#include "blocking/blocking_numbers.h"
#include "blocking/taps.h"
#include "paths.h"

namespace cg {
namespace {

// Along such an axis the law ties fine i to coarse i and to nothing else.
bool ties_equals(const cg_problem& p, int axis) {
    return p.window[axis] == 1 && p.stride[axis] == 1 && p.pad[axis] == 0 && p.fine[axis] == p.coarse[axis];
}

}  // namespace

void lengthen_lines(cg_problem* problem, const cg_tensor& first, const cg_tensor& second) {
    cg_problem& p = *problem;
    for (int axis = 1; axis >= 0 && ties_equals(p, 2) && ties_equals(p, axis); --axis) {
        if (p.fine[axis] == 1) continue;
        const index_t length = p.fine[2];
        if (first.stride[axis + 2] != length * first.stride[4] || second.stride[axis + 2] != length * second.stride[4])
            break;
        p.fine[2] = p.coarse[2] = length * p.fine[axis];
        p.fine[axis] = p.coarse[axis] = 1;
    }
}
void lengthen_lines(cg_problem* p, bool to_fine) {
    lengthen_lines(p, to_fine ? p->coarse_operand : p->fine_operand, to_fine ? p->to_fine : p->to_coarse);
}

index_t plain_chain(const cg_problem& p) { return max(1, index_t(CHAIN / max(1.0, window_taps(p)))); }

// What would be in the way: a window or a tile that has to be cut. The tile of a sample is at most its output cells and
// the span of the window, for every residue of the stride where the source is strided.
bool sums_as_plain(const cg_problem& p, bool to_fine) {
    if (multiplications_of_a_sample(p) >= PLAIN_MULTIPLICATIONS || window_taps(p) > MAX_TAPS) return false;
    double tile = double(min(plain_chain(p), to_fine ? p.coarse_channels : p.fine_channels));
    for (int a = 0; a < 3; ++a) {
        const double span = double(p.window[a] - 1) * double(p.dilation[a]) / double(p.stride[a]) + 2;
        tile *= to_fine ? double(p.fine[a]) / double(p.stride[a]) + 1 + span
                        : double(p.stride[a]) * (double(p.coarse[a]) + span);
    }
    return tile <= double(TILE_FLOATS);
}

size_t plain_gather_bytes(const cg_problem& p, bool to_fine, size_t element) {
    const index_t columns = min(to_fine ? p.fine[2] : p.coarse[2], PLAIN_COLUMNS);
    const index_t chains = (to_fine ? p.coarse_channels : p.fine_channels) > plain_chain(p) ? 2 : 1;
    return size_t((chains * PLAIN_ROWS + 1) * columns + 64) * element;
}

bool plain::accepts(const Call&, Plan*) { return true; }

// Which of two paths a sample takes may depend on the batch only where both give the same bits.
bool plain::prefers(const Call& call, Plan*) {
    if (uses_double(call.p, call.contraction) || multiplications(call.p) < PLAIN_MULTIPLICATIONS) return true;
    return call.contraction != TO_WEIGHT && multiplications_of_a_sample(call.p) < PLAIN_MULTIPLICATIONS &&
           !sums_as_plain(call.p, call.contraction == TO_FINE);
}

void plain::plan(const Call& call, Plan* plan) { plan->plain.in_double = uses_double(call.p, call.contraction); }

size_t plain::workspace(const Call& call, const Plan&) {
    if (call.contraction == TO_WEIGHT) return size_t(call.threads) * 2 * PLAIN_COLUMNS * 8;
    cg_problem p = call.p;
    lengthen_lines(&p, call.contraction == TO_FINE);
    return size_t(call.threads) * plain_gather_bytes(p, call.contraction == TO_FINE, 8);
}

void plain::cuts(const Call& call, const Plan&, int64_t cuts[CG_CUTS]) {
    cuts[CG_CUT_WIDTH] = ceil_div(call.contraction == TO_FINE ? call.p.fine[2] : call.p.coarse[2], PLAIN_COLUMNS);
}

}  // namespace cg
