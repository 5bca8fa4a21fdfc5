// One instruction set's half of the engine. Compiled once per set with CG_ISA (a name) and LANES (floats per vector);
// everything has internal linkage, so copies of different sets can never be exchanged by the linker.
#include "isa.h"
#include "paths.h"
#include "paths/bias/task.inl.h"
#include "paths/depthwise_channels/task.inl.h"
#include "paths/depthwise_rows/data_task.inl.h"
#include "paths/depthwise_rows/weight_task.inl.h"
#include "paths/few_channels/task.inl.h"
#include "paths/gemm_columns/task.inl.h"
#include "paths/gemm_data/task.inl.h"
#include "paths/gemm_weight/task.inl.h"
#include "paths/plain/kernels.inl.h"

namespace cg {
namespace {

static int run_gather(const cg_problem& p, bool to_fine, int path, int threads) {
    const Gather g = make_gather(p, to_fine);
    const PassList list = list_passes(p, to_fine, path);
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
        const int status = in_parallel(threads, g.batch * g.groups * g.out_channels * g.out[0] * g.out[1], 0, clear);
        if (status != CG_OK) return status;
    }
    int worst = CG_OK;
    for (index_t i = 0; i < list.total; ++i) {
        GatherPass pass;
        plan_pass(g, p, to_fine, list, i, LANES, threads, path, &pass);
        if (pass.blocks.total == 0) continue;
        const bool in_pairs = HAS_PAIRS && pass.paired && fits_bfloat(*g.source) && fits_bfloat(*g.weight);
        int status =
            path == PATH_DEPTHWISE_ROWS ? run_depthwise_pass(g, pass, threads) : run_pass(g, pass, threads, in_pairs);
        if (status == STATUS_REDO_UNPAIRED) status = run_pass(g, pass, threads, false);
        if (status != CG_OK) worst = status;
        if (status != CG_OK && status != STATUS_REDO_PLAIN) break;
    }
    return worst;
}

static int run_plain(const cg_problem& p, int contraction, int threads) {
    const bool wide = uses_double(p, contraction);
    if (contraction == TO_WEIGHT) return wide ? plain_weight<double>(p, threads) : plain_weight<float>(p, threads);
    const bool to_fine = contraction == TO_FINE;
    return wide ? plain_gather<double>(p, to_fine, threads) : plain_gather<float>(p, to_fine, threads);
}

// Whether the weight contraction, which runs before, has summed the bias as well.
static bool bias_is_done(const cg_problem& p) {
    if (p.to_weight.data == nullptr) return false;
    for (int a = 0; a < 3; ++a)  // there were weights to sum
        if (p.fine[a] == 0 || p.window[a] == 0) return false;
    if (p.fine_channels == 0) return false;
    const int path = choose_path(p, TO_WEIGHT);
    if (path == PATH_DEPTHWISE_ROWS) {
        DepthwiseWeightPlan plan;
        plan_depthwise_weight(p, &plan);
        return sums_bias(plan, p);
    }
    if (path == PATH_FEW_CHANNELS) {
        FewPlan plan;
        plan_few(p, 1, &plan);
        return plan.bias_sums > 0;
    }
    if (path != PATH_GEMM_PACKED) return false;
    WeightPlan plan;
    plan_weight(p, LANES, 1, &plan);
    return plan.bias_sums > 0;
}

static int run(const cg_problem& p, int contraction, int path, int threads) {
    if (contraction == BIAS) return bias_is_done(p) ? int(CG_OK) : run_bias(p, threads);
    int status = STATUS_REDO_PLAIN;
    if (path != PATH_PLAIN) {
        if (path == PATH_DEPTHWISE_CHANNELS || path == PATH_GROUPED_CHANNELS)
            status = contraction == TO_WEIGHT ? run_channel_weight(p, threads)
                                              : run_channel_gather(p, contraction == TO_FINE, threads);
        else if (contraction != TO_WEIGHT) status = run_gather(p, contraction == TO_FINE, path, threads);
        else if (path == PATH_DEPTHWISE_ROWS) status = run_depthwise_weight(p, threads);
        else if (path == PATH_GEMM_COLUMNS) status = run_columns(p, threads);
        else if (path == PATH_FEW_CHANNELS) status = run_few(p, threads);
        else {
            const bool in_pairs = HAS_PAIRS && fits_bfloat(p.fine_operand) && fits_bfloat(p.coarse_operand);
            status = run_weight(p, threads, in_pairs);
            if (status == STATUS_REDO_UNPAIRED) status = run_weight(p, threads, false);
        }
    }
    return status == STATUS_REDO_PLAIN ? run_plain(p, contraction, threads) : status;
}

static size_t workspace(const cg_problem& p, int contraction, int path, int threads) {
    if (contraction == BIAS) {
        const BiasPlan plan = plan_bias(p);
        return plan.shared_bytes + size_t(threads) * plan.task_bytes;
    }
    if (path == PATH_PLAIN)
        return size_t(threads) *
               (contraction == TO_WEIGHT ? 2 * PLAIN_COLUMNS * 8 : plain_gather_bytes(p, contraction == TO_FINE, 8));
    if (path == PATH_DEPTHWISE_CHANNELS || path == PATH_GROUPED_CHANNELS) {
        ChannelPlan plan;
        plan_channels(p, contraction, threads, &plan);
        return plan.shared_bytes + size_t(threads) * plan.task_bytes;
    }
    if (contraction == TO_WEIGHT && path == PATH_DEPTHWISE_ROWS) {
        DepthwiseWeightPlan plan;
        plan_depthwise_weight(p, &plan);
        return plan.shared_bytes + size_t(threads) * plan.task_bytes;
    }
    if (path == PATH_GEMM_COLUMNS) {
        ColumnPlan plan;
        plan_columns(p, &plan);
        return plan.shared_bytes + size_t(threads) * plan.task_bytes;
    }
    if (path == PATH_FEW_CHANNELS) {
        FewPlan plan;
        plan_few(p, threads, &plan);
        return plan.shared_bytes + size_t(threads) * plan.task_bytes;
    }
    if (contraction == TO_WEIGHT) {
        WeightPlan plan;
        plan_weight(p, LANES, threads, &plan);
        return plan.shared_bytes + size_t(threads) * plan.task_bytes;
    }
    const Gather g = make_gather(p, contraction == TO_FINE);
    const PassList list = list_passes(p, contraction == TO_FINE, path);
    size_t largest = 0;
    // Passes differ by one cell or tap at most: the first few tell.
    for (index_t i = 0; i < min(list.total, 64); ++i) {
        GatherPass pass;
        plan_pass(g, p, contraction == TO_FINE, list, i, LANES, threads, path, &pass);
        const size_t bytes = pass.shared_bytes + size_t(threads) * pass.task_bytes;
        if (bytes > largest) largest = bytes;
    }
    return largest;
}

static void set_cuts(const Blocks& blocks, int64_t cuts[CG_CUTS]) {
    for (int a = 0; a < 4; ++a) cuts[CG_CUT_BATCH + a] = blocks.count[a];
}

// In how many parts a path takes each axis, on one thread.
static void path_cuts(const cg_problem& p, int contraction, int path, int64_t cuts[CG_CUTS]) {
    for (int i = 0; i < CG_CUTS; ++i) cuts[i] = 1;
    if (contraction == BIAS) return;
    if (path == PATH_PLAIN) {
        cuts[CG_CUT_WIDTH] = ceil_div(contraction == TO_FINE ? p.fine[2] : p.coarse[2], PLAIN_COLUMNS);
    } else if (path == PATH_DEPTHWISE_CHANNELS || path == PATH_GROUPED_CHANNELS) {
        ChannelPlan plan;
        plan_channels(p, contraction, 1, &plan);
        set_cuts(plan.blocks, cuts);
        cuts[CG_CUT_GROUPS] = ceil_div(plan.channels, plan.block) * ceil_div(plan.channels, plan.channels_at_once);
        cuts[CG_CUT_PARTIALS] = plan.partials;
    } else if (contraction != TO_WEIGHT) {
        const Gather g = make_gather(p, contraction == TO_FINE);
        const PassList list = list_passes(p, contraction == TO_FINE, path);
        GatherPass pass;
        plan_pass(g, p, contraction == TO_FINE, list, 0, LANES, 1, path, &pass);
        if (pass.blocks.total == 0) return;
        set_cuts(pass.blocks, cuts);
        cuts[CG_CUT_WINDOW] = pass.tap_groups[0] * pass.tap_groups[1] * pass.tap_groups[2];
        cuts[CG_CUT_REDUCED_CHANNELS] = ceil_div(g.in_channels, pass.channel_block);
        cuts[CG_CUT_RESULT_CHANNELS] =
            path == PATH_DEPTHWISE_ROWS ? 1 : pass.chunks * ceil_div(g.out_channels, pass.mr);
        cuts[CG_CUT_GROUPS] = ceil_div(g.groups, path == PATH_DEPTHWISE_ROWS ? pass.chunk_rows : pass.groups_at_once);
    } else if (path == PATH_DEPTHWISE_ROWS) {
        DepthwiseWeightPlan plan;
        plan_depthwise_weight(p, &plan);
        set_cuts(plan.blocks, cuts);
        cuts[CG_CUT_WINDOW] = plan.group_count;
        cuts[CG_CUT_GROUPS] = ceil_div(p.groups, plan.channels_at_once);
        cuts[CG_CUT_PARTIALS] = plan.partials;
    } else if (path == PATH_GEMM_COLUMNS) {
        ColumnPlan plan;
        plan_columns(p, &plan);
        cuts[CG_CUT_REDUCED_CHANNELS] = ceil_div(p.fine_channels, plan.channels_at_once);
        cuts[CG_CUT_RESULT_CHANNELS] = ceil_div(p.coarse_channels, MR_OF_16_REGISTERS);
        cuts[CG_CUT_WIDTH] = ceil_div(plan.pixels, LANES);
    } else if (path == PATH_FEW_CHANNELS) {
        FewPlan plan;
        plan_few(p, 1, &plan);
        set_cuts(plan.blocks, cuts);
        cuts[CG_CUT_REDUCED_CHANNELS] = ceil_div(p.fine_channels, plan.tile_channels);
        cuts[CG_CUT_RESULT_CHANNELS] = ceil_div(p.coarse_channels, MAX_TOGETHER);
        cuts[CG_CUT_GROUPS] = ceil_div(p.groups, plan.groups_per_task);
        cuts[CG_CUT_PARTIALS] = plan.partials;
    } else {
        WeightPlan plan;
        plan_weight(p, LANES, 1, &plan);
        set_cuts(plan.blocks, cuts);
        cuts[CG_CUT_WINDOW] = plan.group_count;
        cuts[CG_CUT_REDUCED_CHANNELS] = ceil_div(p.fine_channels, plan.tile_channels) * plan.channel_split;
        cuts[CG_CUT_RESULT_CHANNELS] = plan.panels * ceil_div(plan.panels, plan.panel_block);
        cuts[CG_CUT_PARTIALS] = plan.partials;
    }
}

static void load_all(const cg_tensor& tensor, index_t count, float* out) {
    const Source s = make_source(tensor);
    s.rows(s, 0, 1, 0, count, tensor.stride[4], out, 0);
}

static void store_all(const cg_tensor& tensor, index_t count, const float* values) {
    const Target t = make_target(tensor);
    t.rows(t, 0, 1, 0, count, tensor.stride[4], values, 0);
}

}  // namespace

#define PASTE(a, b) a##b
#define ISA_SYMBOL(name) PASTE(isa_, name)
#define TEXT(a) #a
#define ISA_NAME(name) TEXT(name)
extern const Isa ISA_SYMBOL(CG_ISA);
const Isa ISA_SYMBOL(CG_ISA) = {ISA_NAME(CG_ISA), LANES, run, workspace, path_cuts, load_all, store_all};

}  // namespace cg
