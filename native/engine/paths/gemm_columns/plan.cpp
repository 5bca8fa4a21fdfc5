// Few pixels: the cells under every tap in rows.
#include "paths/gemm_columns/plan.h"
#include "blocking/blocking_numbers.h"
#include "blocking/blocks.h"
#include "scratch.h"

namespace cg {

bool columns_fit(const cg_problem& p) {
    double pixels = double(p.batch), cells = double(p.batch), taps = 1;
    for (int a = 0; a < 3; ++a) {
        pixels *= double(p.coarse[a]);
        cells *= double(p.fine[a]);
        taps *= double(p.window[a]);
    }
    return pixels <= MAX_COLUMN_PIXELS && cells <= double(TILE_FLOATS) && taps * pixels <= double(TILE_FLOATS) &&
           (double(p.coarse_channels) + 6) * pixels <= double(SHARED_FLOATS / 2);
}

void plan_columns(const cg_problem& p, ColumnPlan* plan) {
    index_t cells = p.batch;
    plan->pixels = p.batch;
    plan->taps = 1;
    for (int a = 0; a < 3; ++a) {
        plan->pixels *= p.coarse[a];
        cells *= p.fine[a];
        plan->taps *= p.window[a];
    }
    plan->plane_floats = cells;
    plan->row_floats = round_up(p.coarse_channels * plan->pixels, 32);
    // Columns are walked once per six rows of results: they should stay in L2.
    const index_t room = max(TILE_FLOATS * 3 / 2, plan->taps * plan->pixels) / (plan->taps * plan->pixels);
    plan->channels_at_once = even_part(p.fine_channels, room, 16);
    plan->channels_per_task = even_part(plan->channels_at_once, 64, 16);
    const index_t panels = round_up(plan->channels_at_once * plan->taps, 32);
    plan->task_bytes =
        scratch_bytes(plan->taps * plan->pixels) + scratch_bytes(cells + 8) + scratch_bytes(MAX_MR * COLUMN_LINE);
    plan->shared_bytes = scratch_bytes(plan->row_floats) + scratch_bytes(panels * plan->pixels);
}

}  // namespace cg
