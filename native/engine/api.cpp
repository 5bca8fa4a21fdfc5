// The C ABI: refuses what would be undefined behaviour, chooses the path, runs, reports.
#include "isa.h"
#include "numbers/formats.h"
#include "paths.h"
#include "sample_tree.h"
#include "scratch.h"
#include "threads.h"

#include <cstdio>
#include <initializer_list>
#include <new>

namespace cg {

namespace {

thread_local char last_error[256];

int refuse(const char* what) {
    std::snprintf(last_error, sizeof last_error, "%s", what);
    return CG_BAD_ARGUMENT;
}

// ---- what the engine refuses -----------------------------------------------------------------------------------

const index_t LARGEST = index_t(1) << 40;       // of an extent, a stride or a padding
const index_t MAX_ELEMENTS = index_t(1) << 60;  // of a tensor, its strides included

bool product_fits(const index_t* factors, int count) {
    index_t product = 1;
    for (int i = 0; i < count; ++i)
        if (__builtin_mul_overflow(product, factors[i], &product) || product > MAX_ELEMENTS) return false;
    return true;
}

bool reach_fits(const cg_tensor& t, const index_t extent[5]) {
    index_t reach = 0;
    for (int a = 0; a < 5; ++a) {
        index_t part;
        if (extent[a] == 0) return true;
        const index_t stride = t.stride[a] < 0 ? -t.stride[a] : t.stride[a];
        if (t.stride[a] == INT64_MIN || __builtin_mul_overflow(extent[a] - 1, stride, &part) ||
            __builtin_add_overflow(reach, part, &reach) || reach > MAX_ELEMENTS)
            return false;
    }
    return true;
}

int check_tensor(const cg_tensor& t, const index_t extent[5], bool needed, const char* name) {
    if (t.data == nullptr && !needed) return CG_OK;
    char text[128];
    if (t.data == nullptr) {
        std::snprintf(text, sizeof text, "%s is read but its data is null", name);
        return refuse(text);
    }
    if (bytes_per_element(t.dtype) == 0 || t.cast < CG_FLOAT64 || t.cast > CG_HF32_10) {
        std::snprintf(text, sizeof text, "%s has dtype %d, cast %d: not a number format", name, t.dtype, t.cast);
        return refuse(text);
    }
    if (!reach_fits(t, extent)) {
        std::snprintf(text, sizeof text, "%s: sizes times strides exceed 64-bit indices", name);
        return refuse(text);
    }
    return CG_OK;
}

int check(const cg_problem* problem) {
    if (problem == nullptr) return refuse("the problem is null");
    const cg_problem& p = *problem;
    const index_t counts[4] = {p.batch, p.groups, p.fine_channels, p.coarse_channels};
    for (index_t c : counts)
        if (c < 0 || c > LARGEST) return refuse("batch, groups or channels out of range");
    if (p.groups < 1) return refuse("groups must be at least 1");
    for (int a = 0; a < 3; ++a) {
        if (p.fine[a] < 0 || p.fine[a] > LARGEST || p.coarse[a] < 0 || p.coarse[a] > LARGEST || p.window[a] < 0 ||
            p.window[a] > LARGEST)
            return refuse("a fine, coarse or window extent is out of range");
        if (p.stride[a] < 1 || p.stride[a] > LARGEST || p.dilation[a] < 1 || p.dilation[a] > LARGEST ||
            p.pad[a] < -LARGEST || p.pad[a] > LARGEST)
            return refuse("a stride, dilation or padding is out of range");
        index_t reach;
        if (__builtin_mul_overflow(p.window[a], p.dilation[a], &reach) || reach > MAX_ELEMENTS ||
            __builtin_mul_overflow(p.coarse[a], p.stride[a], &reach) || reach > MAX_ELEMENTS)
            return refuse("window times dilation or coarse times stride exceeds 64-bit indices");
    }
    const index_t work[] = {p.batch,         p.groups,        p.fine_channels, p.coarse_channels,
                            p.window[0] + 1, p.window[1] + 1, p.window[2] + 1};
    const index_t fine[5] = {p.batch, p.groups * p.fine_channels, p.fine[0], p.fine[1], p.fine[2]};
    const index_t coarse[5] = {p.batch, p.groups * p.coarse_channels, p.coarse[0], p.coarse[1], p.coarse[2]};
    const index_t weight[5] = {p.groups * p.coarse_channels, p.fine_channels, p.window[0], p.window[1], p.window[2]};
    const index_t bias[5] = {1, p.bias_source == 0 ? coarse[1] : fine[1], 1, 1, 1};
    if (!product_fits(work, 7) || !product_fits(fine, 5) || !product_fits(coarse, 5) || !product_fits(weight, 5))
        return refuse("the problem has too many elements for 64-bit indices");
    if (p.bias_source != 0 && p.bias_source != 1) return refuse("bias_source must be 0 (coarse) or 1 (fine)");
    if (p.path < 0 || p.path >= PATHS) return refuse("path is not a number of the path table");
    if (p.algorithm < CG_DIRECT || p.algorithm > CG_EXACT_FAST)
        return refuse("algorithm must be 0 (direct), 1 (fast) or 2 (exact-fast)");
    if (p.deterministic < 0 || p.deterministic > 3) return refuse("deterministic must be 0, 1, 2 or 3");
    if (p.threads < 0 || p.threads > 4096) return refuse("threads must be between 0 and 4096");
    const bool wf = p.to_fine.data != nullptr, wc = p.to_coarse.data != nullptr, ww = p.to_weight.data != nullptr;
    const bool wb = p.bias.data != nullptr;
    const bool fine_used = wc || ww || (wb && p.bias_source == 1), coarse_used = wf || ww || (wb && p.bias_source == 0);
    int status = CG_OK;
    const auto also = [&](int s) {
        if (status == CG_OK) status = s;
    };
    const auto empty = [](const index_t e[5]) { return e[0] == 0 || e[1] == 0 || e[2] == 0 || e[3] == 0 || e[4] == 0; };
    also(check_tensor(p.fine_operand, fine, fine_used && !empty(fine), "fine_operand"));
    also(check_tensor(p.coarse_operand, coarse, coarse_used && !empty(coarse), "coarse_operand"));
    also(check_tensor(p.weight_operand, weight, (wf || wc) && !empty(weight), "weight_operand"));
    also(check_tensor(p.to_fine, fine, false, "to_fine"));
    also(check_tensor(p.to_coarse, coarse, false, "to_coarse"));
    also(check_tensor(p.to_weight, weight, false, "to_weight"));
    also(check_tensor(p.bias, bias, false, "bias"));
    return status;
}

const char* const contraction_names[] = {"to fine", "to coarse", "to weight", "bias"};

// A sum over nothing is zero.
void clear_result(const cg_problem& p, int contraction) {
    const cg_tensor& t = result_of(p, contraction);
    index_t extent[5];
    const bool coarse = contraction == TO_COARSE || (contraction == BIAS && p.bias_source == 0);
    extent[0] = contraction == BIAS ? 1 : p.batch;
    extent[1] = p.groups * (coarse ? p.coarse_channels : p.fine_channels);
    for (int a = 0; a < 3; ++a) extent[a + 2] = contraction == BIAS ? 1 : coarse ? p.coarse[a] : p.fine[a];
    if (contraction == TO_WEIGHT) {
        extent[0] = p.groups * p.coarse_channels;
        extent[1] = p.fine_channels;
        for (int a = 0; a < 3; ++a) extent[a + 2] = p.window[a];
    }
    for (index_t a = 0; a < extent[0]; ++a)
        for (index_t b = 0; b < extent[1]; ++b)
            for (index_t c = 0; c < extent[2]; ++c)
                for (index_t d = 0; d < extent[3]; ++d)
                    for (index_t e = 0; e < extent[4]; ++e)
                        store_from_double(
                            t.data,
                            a * t.stride[0] + b * t.stride[1] + c * t.stride[2] + d * t.stride[3] + e * t.stride[4],
                            t.dtype, 0.0);
}

bool sums_nothing(const cg_problem& p, int contraction) {
    const index_t cells = p.batch * p.groups;
    const index_t fine = p.fine[0] == 0 || p.fine[1] == 0 || p.fine[2] == 0 || p.fine_channels == 0;
    const index_t coarse = p.coarse[0] == 0 || p.coarse[1] == 0 || p.coarse[2] == 0 || p.coarse_channels == 0;
    const index_t window = p.window[0] == 0 || p.window[1] == 0 || p.window[2] == 0;
    if (contraction == BIAS) return cells == 0 || (p.bias_source == 0 ? coarse : fine);
    return cells == 0 || fine || coarse || window;
}

}  // namespace

// The problem that chooses a path: a tree over samples asks for one sample.
static cg_problem as_planned(const cg_problem& p, int contraction) {
    return sums_by_tree(p, contraction) && p.batch > 0 ? leaf_problem(p, contraction) : p;
}

// Calls `use` with the contraction as it is computed: a path that a test forces gets the problem as it stands.
template <typename Use> static auto with_best_rows(const Call& call, const Use& use) {
    const int axis = call.p.path == PATH_CHOOSE ? row_axis(call.p, call.contraction) : 2;
    if (axis == 2) return use(call);
    const cg_problem turned = with_rows_along(call.p, axis);
    return use(Call{turned, call.contraction, call.lanes, call.threads});
}

static size_t workspace(const Call& call) {
    if (call.contraction == BIAS) {
        const BiasPlan plan = plan_bias(call.p);
        return plan.shared_bytes + size_t(call.threads) * plan.task_bytes;
    }
    return with_best_rows(call, [](const Call& best) {
        Plan plan;
        make_plan(best, &plan);
        return path_table[plan.path].workspace(best, plan);
    });
}

static int run(const Call& call, bool* bias_is_summed);

// Samples of a batch one by one: what one of them holds, an inf or a NaN, must not show in another.
static int run_samples(const Call& call) {
    cg_problem sample = call.p;
    sample.batch = 1;
    const auto step = [](cg_tensor* t) {
        if (t->data != nullptr) t->data = (char*)t->data + t->stride[0] * index_t(bytes_per_element(t->dtype));
    };
    int status = CG_OK;
    for (index_t n = 0; n < call.p.batch && status == CG_OK; ++n) {
        bool no_bias = true;
        status = run(Call{sample, call.contraction, call.lanes, call.threads}, &no_bias);
        for (cg_tensor* t : {&sample.fine_operand, &sample.coarse_operand, &sample.to_fine, &sample.to_coarse}) step(t);
    }
    return status;
}

static int run_contraction(const Call& call, bool* bias_is_summed) {
    const auto run_of = [&](int path) {
        return call.contraction == TO_WEIGHT ? isa().runs[path].weight : isa().runs[path].data;
    };
    Plan plan;
    make_plan(call, &plan);
    *bias_is_summed = plan.sums_bias;
    const int status = run_of(plan.path)(call, plan);
    if (status == STATUS_REDO_DIRECT && call.contraction != TO_WEIGHT && call.p.batch > 1) return run_samples(call);
    if (status == STATUS_REDO_DIRECT) {
        cg_problem direct = call.p;
        direct.algorithm = CG_DIRECT;
        direct.path = PATH_CHOOSE;
        return run_contraction(Call{direct, call.contraction, call.lanes, call.threads}, bias_is_summed);
    }
    if (status != STATUS_REDO_PLAIN) return status;
    make_plan(call, PATH_PLAIN, &plan);
    return run_of(PATH_PLAIN)(call, plan);
}

static int run(const Call& call, bool* bias_is_summed) {
    if (call.contraction == BIAS) return *bias_is_summed ? int(CG_OK) : isa().run_bias(call.p, call.threads);
    return with_best_rows(call, [&](const Call& best) { return run_contraction(best, bias_is_summed); });
}

// Every gradient asked for can take the path a test forces; plans of other paths may not be computable.
static bool forced_path_accepts(const cg_problem& p) {
    for (int contraction = TO_FINE; contraction < BIAS; ++contraction) {
        if (p.path == PATH_CHOOSE || result_of(p, contraction).data == nullptr) continue;
        if (!path_accepts(Call{as_planned(p, contraction), contraction, isa().lanes, 1}, p.path)) return false;
    }
    return true;
}

// Small problems stay on the calling thread: waking another, and cutting the work for two, cost more than they bring.
// Two threads by one, float32, nothing else running: matrix products 0.6x at 0.25 million multiplications, 0.7-1.1x at
// 0.8 to 1.0, 1.2x at 1.6; one channel per group 1.1x at 0.2, 1.4x at 0.45.
static const double SERIAL_PRODUCTS = 1.1e6;
static const double SERIAL_SUMS = 1.5e5;  // also where a path is forced: tests of threads use small problems

static bool is_worth_several_threads(const cg_problem& p) {
    const cg_tensor& data = p.fine_operand.data != nullptr ? p.fine_operand : p.coarse_operand;
    const bool is_matrix_product = min(p.fine_channels, p.coarse_channels) > 1 && data.dtype != CG_FLOAT64;
    return multiplications(p) >= (is_matrix_product && p.path == PATH_CHOOSE ? SERIAL_PRODUCTS : SERIAL_SUMS);
}

// A contraction; what it wrote outside of its scratch memory shows where that is checked.
static int run_checked(const Call& call, bool* bias_is_summed) {
    // Earlier pieces are forgotten: calls that were not checked may have written there since.
    if (scratch_checked) spoil_shared(nullptr, 0);
    int status;
    try {
        status = run(call, bias_is_summed);
    } catch (const std::bad_alloc&) {
        status = CG_OUT_OF_MEMORY;
    }
    return status == CG_OK && scratch_checked && !shared_scratch_intact() ? int(CG_SCRATCH_OVERRUN) : status;
}

static int run_leaf(const cg_problem& leaf, int contraction, int threads) {
    bool no_bias = false;
    return run_checked(Call{leaf, contraction, isa().lanes, threads}, &no_bias);
}

static TreePlan tree_of(const cg_problem& p, const cg_problem& leaf, int contraction, int threads) {
    return plan_tree(p, contraction, threads, is_worth_several_threads(leaf));
}

static int run_samples_as_tree(const cg_problem& p, int contraction, int threads) {
    const cg_problem leaf = leaf_problem(p, contraction);
    const TreePlan plan = tree_of(p, leaf, contraction, threads);
    const bool alone = plan.is_one_by_one() && !is_worth_several_threads(leaf);
    const int status = run_tree(p, contraction, alone ? 1 : threads, plan, run_leaf);
    release_tree_scratch();
    return status;
}

static size_t workspace_of_tree(const cg_problem& p, int contraction, int threads) {
    const cg_problem leaf = leaf_problem(p, contraction);
    const TreePlan plan = tree_of(p, leaf, contraction, threads);
    const int each = plan.is_one_by_one() ? threads : 1;
    return plan.bytes() + size_t(plan.workers) * workspace(Call{leaf, contraction, isa().lanes, each});
}

}  // namespace cg

using namespace cg;

extern "C" {

int32_t cg_abi_version(void) { return CG_ABI_VERSION; }

int32_t cg_may_overlap_itself(int32_t axes, const int64_t* sizes, const int64_t* strides, int64_t item) {
    typedef __int128 Wide;
    struct Step {
        Wide stride, size;
    } steps[64];
    int count = 0;
    for (int32_t axis = 0; axis < axes; ++axis)
        if (sizes[axis] <= 0) return 0;
    for (int32_t axis = 0; axis < axes; ++axis) {
        if (sizes[axis] == 1) continue;
        if (count == 64) return 1;
        const Wide stride = strides[axis] < 0 ? -Wide(strides[axis]) : Wide(strides[axis]);
        int place = count++;
        for (; place > 0 && steps[place - 1].stride > stride; --place) steps[place] = steps[place - 1];
        steps[place] = {stride, sizes[axis]};
    }
    Wide reach = item;  // what the smaller strides span; at most a stride (2^63), so that no sum leaves 128 bits
    for (int i = 0; i < count; ++i) {
        if (steps[i].stride < reach) return 1;
        reach += steps[i].stride * (steps[i].size - 1);
    }
    return 0;
}

int32_t cg_default_threads(void) {
    choose_threads();
    return default_threads();
}

const char* cg_threadpool(void) { return threadpool(); }

const char* cg_isa_name(void) { return isa().name; }

const char* cg_last_error(void) { return last_error; }

const char* cg_path_name(int32_t path) { return path >= 0 && path < PATHS ? path_table[path].name : nullptr; }

const char* cg_path_condition(int32_t path) { return path >= 0 && path < PATHS ? path_table[path].taken_for : nullptr; }

int32_t cg_path_is_exact(int32_t path) { return path >= 0 && path < PATHS && path_table[path].exact ? 1 : 0; }

int32_t cg_path_accepts(const cg_problem* problem, int32_t contraction, int32_t path) {
    if (check(problem) != CG_OK || contraction < 0 || contraction > BIAS || path < 0 || path >= PATHS) return 0;
    return path_accepts(Call{as_planned(*problem, contraction), contraction, isa().lanes, 1}, path) ? 1 : 0;
}

int32_t cg_path_cuts(const cg_problem* problem, int32_t contraction, int32_t path, int64_t cuts[CG_CUTS]) {
    if (!cg_path_accepts(problem, contraction, path)) return refuse("the path does not accept this problem");
    for (int i = 0; i < CG_CUTS; ++i) cuts[i] = 1;
    if (contraction == BIAS) return CG_OK;
    const cg_problem planned = as_planned(*problem, contraction);
    const Call call{planned, contraction, isa().lanes, 1};
    Plan plan;
    make_plan(call, path, &plan);
    path_table[path].cuts(call, plan, cuts);
    return CG_OK;
}

int32_t cg_choose_path(const cg_problem* problem, int32_t contraction) {
    if (check(problem) != CG_OK || contraction < 0 || contraction > BIAS) return -1;
    return with_best_rows(Call{as_planned(*problem, contraction), contraction, isa().lanes, 1}, [](const Call& best) {
        Plan draft;
        return choose_path(best, &draft);
    });
}

int64_t cg_workspace_bytes(const cg_problem* problem) {
    if (check(problem) != CG_OK) return -1;
    const cg_problem& p = *problem;
    if (!forced_path_accepts(p)) {
        refuse("the forced path does not accept this problem");
        return -1;
    }
    const int threads = p.threads > 0 ? p.threads : cg_default_threads();
    size_t largest = 0;
    for (int contraction = TO_FINE; contraction <= BIAS; ++contraction) {
        if (result_of(p, contraction).data == nullptr || sums_nothing(p, contraction)) continue;
        const size_t bytes = sums_by_tree(p, contraction) ? workspace_of_tree(p, contraction, threads)
                                                          : workspace(Call{p, contraction, isa().lanes, threads});
        if (bytes > largest) largest = bytes;
    }
    return int64_t(largest);
}

int32_t cg_run(const cg_problem* problem) {
    int status = check(problem);
    if (status != CG_OK) return status;
    const cg_problem& p = *problem;
    if (!forced_path_accepts(p)) return refuse("the forced path does not accept this problem");
    int threads = 1;
    if (is_worth_several_threads(p)) {
        choose_threads();
        threads = p.threads > 0 ? p.threads : default_threads();
    }
    bool bias_is_summed = false;  // by the weight contraction, which runs before
    for (int contraction = TO_FINE; contraction <= BIAS; ++contraction) {
        if (result_of(p, contraction).data == nullptr) continue;
        if (sums_nothing(p, contraction)) {
            clear_result(p, contraction);
            continue;
        }
        status = sums_by_tree(p, contraction)
                     ? run_samples_as_tree(p, contraction, threads)
                     : run_checked(Call{p, contraction, isa().lanes, threads}, &bias_is_summed);
        if (status == CG_SCRATCH_OVERRUN)
            std::snprintf(last_error, sizeof last_error, "the %s contraction wrote outside of its scratch memory",
                          contraction_names[contraction]);
        if (status == CG_OUT_OF_MEMORY)
            std::snprintf(last_error, sizeof last_error, "not enough memory for the workspace of the %s contraction",
                          contraction_names[contraction]);
        if (status != CG_OK) return status;
    }
    return CG_OK;
}

int32_t cg_load(const cg_tensor* tensor, int64_t count, float* out) {
    if (tensor == nullptr || count < 0 || (count > 0 && out == nullptr)) return refuse("a pointer is null");
    const index_t extent[5] = {1, 1, 1, 1, count};
    const int status = check_tensor(*tensor, extent, count > 0, "tensor");
    if (status == CG_OK && count > 0) isa().load(*tensor, count, out);
    return status;
}

int32_t cg_store(const cg_tensor* tensor, int64_t count, const float* values) {
    if (tensor == nullptr || count < 0 || (count > 0 && values == nullptr)) return refuse("a pointer is null");
    const index_t extent[5] = {1, 1, 1, 1, count};
    const int status = check_tensor(*tensor, extent, count > 0, "tensor");
    if (status == CG_OK && count > 0) isa().store(*tensor, count, values);
    return status;
}

int32_t cg_round(int32_t dtype, const double* values, double* out, int64_t count) {
    if (dtype < CG_FLOAT64 || dtype > CG_HF32_10) return refuse("not a number format");
    if (count < 0 || (count > 0 && (values == nullptr || out == nullptr))) return refuse("a pointer is null");
    for (index_t i = 0; i < count; ++i) out[i] = round_to(dtype, values[i]);
    return CG_OK;
}

}  // extern "C"
