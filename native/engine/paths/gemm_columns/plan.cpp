// Few pixels: the cells under every tap in rows.
#include "blocking/blocking_numbers.h"
#include "paths.h"

namespace cg {

bool gemm_columns::accepts(const Call& call, Plan*) {
    const cg_problem& p = call.p;
    if (call.contraction != TO_WEIGHT || uses_double(p, call.contraction)) return false;
    double pixels = double(p.batch), cells = double(p.batch), taps = 1;
    for (int a = 0; a < 3; ++a) {
        pixels *= double(p.coarse[a]);
        cells *= double(p.fine[a]);
        taps *= double(p.window[a]);
    }
    return pixels <= MAX_COLUMN_PIXELS && cells <= double(TILE_FLOATS) && taps * pixels <= double(TILE_FLOATS) &&
           (double(p.coarse_channels) + 6) * pixels <= double(SHARED_FLOATS / 2);
}

bool gemm_columns::prefers(const Call& call, Plan*) {
    const cg_problem& p = call.p;
    const double pixels = double(p.batch) * double(p.coarse[0]) * double(p.coarse[1]) * double(p.coarse[2]);
    return p.coarse_channels >= 4 && p.groups <= 4 && pixels <= FEW_PIXELS && p.batch <= FEW_IMAGES;
}

void gemm_columns::plan(const Call& call, Plan* whole) {
    const cg_problem& p = call.p;
    ColumnPlan* plan = &whole->columns;
    index_t cells = p.batch;
    plan->pixels = p.batch;
    plan->taps = 1;
    for (int a = 0; a < 3; ++a) {
        plan->pixels *= p.coarse[a];
        cells *= p.fine[a];
        plan->taps *= p.window[a];
    }
    // Columns are walked once per six rows of results: they should stay in L2.
    const index_t room = max(TILE_FLOATS * 3 / 2, plan->taps * plan->pixels) / (plan->taps * plan->pixels);
    plan->channels_at_once = even_part(p.fine_channels, room, 16);
    plan->channels_per_task = even_part(plan->channels_at_once, 64, 16);
    const index_t panels = round_up(plan->channels_at_once * plan->taps, 32);
    plan->task.bytes = plan->shared.bytes = 0;
    plan->cells = plan->task.book<int>(plan->taps * plan->pixels);
    plan->planes = plan->task.book<float>(cells + 8);
    plan->line = plan->task.book<float>(MAX_MR * COLUMN_LINE);
    plan->rows = plan->shared.book<float>(round_up(p.coarse_channels * plan->pixels, 32));
    plan->columns = plan->shared.book<float>(panels * plan->pixels);
}

size_t gemm_columns::workspace(const Call& call, const Plan& plan) {
    return plan.columns.shared.bytes + size_t(call.threads) * plan.columns.task.bytes;
}

void gemm_columns::cuts(const Call& call, const Plan& plan, int64_t cuts[CG_CUTS]) {
    cuts[CG_CUT_REDUCED_CHANNELS] = ceil_div(call.p.fine_channels, plan.columns.channels_at_once);
    cuts[CG_CUT_RESULT_CHANNELS] = ceil_div(call.p.coarse_channels, MR_OF_16_REGISTERS);
    cuts[CG_CUT_WIDTH] = ceil_div(plan.columns.pixels, call.lanes);
}

}  // namespace cg
