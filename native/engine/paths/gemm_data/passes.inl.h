// The passes of a data contraction, one after the other.
#pragma once

#include "isa.h"
#include "numbers/store.inl.h"
#include "paths.h"
#include "tasks.inl.h"

namespace cg {
namespace {

// Runs run_one(gather, pass, threads) for every pass that has cells.
template <class F> static int run_passes(const Call& call, const Plan& plan, F run_one) {
    const Gather& g = plan.data.g;
    const PassList& list = plan.data.list;
    if (list.zero_first) {
        // Cells no tap reaches belong to no pass: clear the whole result first.
        const Target target = make_target(*g.target);
        const index_t* st = g.target->stride;
        auto clear = [&](index_t task, char*) {
            float zeros[64] = {};
            const index_t y = task % g.out[1], z = task / g.out[1] % g.out[0];
            const index_t rest = task / g.out[1] / g.out[0];
            const index_t channels = g.groups * g.out_channels;
            const index_t at = rest / channels * st[0] + rest % channels * st[1] + z * st[2] + y * st[3];
            for (index_t x = 0; x < g.out[2]; x += 64)
                target.rows(target, at + x * st[4], 1, 0, min(64, g.out[2] - x), st[4], zeros, 0);
        };
        const int status =
            in_parallel(call.threads, g.batch * g.groups * g.out_channels * g.out[0] * g.out[1], 0, clear);
        if (status != CG_OK) return status;
    }
    int worst = CG_OK;
    for (index_t i = 0; i < list.total; ++i) {
        GatherPass other;
        if (i > 0) plan_pass(g, call.p, call.contraction == TO_FINE, list, i, LANES, call.threads, plan.path, &other);
        const GatherPass& pass = i > 0 ? other : plan.data.first;
        if (pass.blocks.total == 0) continue;
        const int status = run_one(g, pass, call.threads);
        if (status != CG_OK) worst = status;
        if (status != CG_OK && status != STATUS_REDO_PLAIN) break;
    }
    return worst;
}

}  // namespace
}  // namespace cg
