#include "sample_tree.h"

#include "isa.h"
#include "numbers/formats.h"
#include "scratch.h"
#include "threads.h"

#include <atomic>
#include <cstring>
#include <initializer_list>

namespace cg {
namespace {

const index_t LINE_BYTES = 64;
// Samples side by side, each on one thread, as long as all nodes together take no more: beyond it, one after the other.
const size_t NODES_SIDE_BY_SIDE = size_t(32) << 20;
enum { MAX_WORKERS = 64, RUNS_PER_WORKER = 4, MAX_RUNS = MAX_WORKERS * RUNS_PER_WORKER };
const index_t PIECE = 16 << 10;               // elements that one task adds or rounds
const index_t BLOCK = 1024;                   // ... of which the nodes of a chain of additions stay in L1
const index_t MOST_BYTES = index_t(1) << 48;  // of a node: no machine has them

index_t bits_of(index_t n) {
    index_t bits = 0;
    for (; n > 0; n >>= 1) ++bits;
    return bits;
}

// Of a gradient, in the order of its strides.
struct Extents {
    index_t at[5];
    Extents(const cg_problem& p, int contraction) : at{1, 1, 1, 1, 1} {
        if (contraction == BIAS) {
            at[1] = p.groups * (p.bias_source == 0 ? p.coarse_channels : p.fine_channels);
            return;
        }
        at[0] = p.groups * p.coarse_channels;
        at[1] = p.fine_channels;
        for (int a = 0; a < 3; ++a) at[a + 2] = p.window[a];
    }
    index_t elements() const { return at[0] * at[1] * at[2] * at[3] * at[4]; }
};

bool leaf_is_double(const cg_problem& p, int contraction) {
    if (contraction == TO_WEIGHT) return uses_double(p, TO_WEIGHT);
    return (p.bias_source == 0 ? p.coarse_operand : p.fine_operand).cast == CG_FLOAT64;
}

cg_tensor* place_of(cg_problem* p, int contraction) { return contraction == BIAS ? &p->bias : &p->to_weight; }

// right = parts[last] + ... (parts[1] + (parts[0] + right)): what a leaf meets on its way up.
template <class T> void add_chain(T* right, char* const* parts, index_t count, index_t begin, index_t end) {
    for (index_t block = begin; block < end; block += BLOCK)
        for (index_t j = 0; j < count; ++j) {
            const T* left = (const T*)parts[j];
            for (index_t i = block; i < min(end, block + BLOCK); ++i) right[i] = left[i] + right[i];
        }
}

class Tree {
public:
    Tree(const cg_problem& p, int contraction, int threads, const TreePlan& plan, RunLeaf leaf)
        : p_(p),
          contraction_(contraction),
          threads_(threads),
          plan_(plan),
          run_leaf_(leaf),
          leaf_(leaf_problem(p, contraction)) {}

    int run() {
        char* memory = tree_scratch(plan_.bytes());
        if (memory == nullptr) return CG_OUT_OF_MEMORY;
        stacks_ = memory;
        of_runs_ = memory + plan_.workers * plan_.nodes_of_run * plan_.node_bytes;
        char* total;
        const int status = plan_.is_one_by_one() ? sum_run(0, p_.batch, stacks_, threads_, &total) : sum_runs(&total);
        return status == CG_OK ? store(total) : status;
    }

private:
    char* node(char* first, index_t i) const { return first + i * plan_.node_bytes; }

    // Runs side by side, then the tree over their nodes.
    int sum_runs(char** total) {
        for (int i = 0; i < plan_.workers; ++i) taken_[i] = false;
        const int status = run_tasks(
            plan_.workers, plan_.runs, 0, [](void* tree, index_t task, char*) { ((Tree*)tree)->sum_one_run(task); },
            this);
        if (status != CG_OK || status_ != CG_OK) return status != CG_OK ? status : int(status_);
        for (index_t step = 1; step < plan_.runs; step *= 2)
            for (index_t i = 0; i + step < plan_.runs; i += 2 * step) {
                if (const int added = add(of_run_[i + step], &of_run_[i], 1, threads_)) return added;
                of_run_[i] = of_run_[i + step];
            }
        *total = of_run_[0];
        return CG_OK;
    }

    void sum_one_run(index_t task) {
        if (status_ != CG_OK) return;
        int worker = 0;  // at most `workers` tasks run at a time: a place is free
        while (taken_[worker].exchange(true, std::memory_order_acquire)) worker = (worker + 1) % plan_.workers;
        const index_t first = task * plan_.run, count = min(plan_.run, p_.batch - first);
        char* total = nullptr;
        of_run_[task] = node(of_runs_, task);
        // A leaf is written to its place at once.
        char* stack = plan_.run == 1 ? of_run_[task] : node(stacks_, worker * plan_.nodes_of_run);
        const int status = sum_run(first, count, stack, 1, &total);
        if (status != CG_OK) status_ = status;
        else if (total != of_run_[task]) std::memcpy(of_run_[task], total, size_t(plan_.elements * plan_.item));
        taken_[worker].store(false, std::memory_order_release);
    }

    // The tree over samples that follow each other; level by level as a binary counter carries.
    int sum_run(index_t first, index_t count, char* stack, int threads, char** total) const {
        char* of_level[64];  // level k: the node of 2^k leaves that waits for its right neighbour
        char* free_nodes[65];
        index_t free_count = 0;
        for (index_t i = max(plan_.nodes_of_run, 1) - 1; i >= 0; --i) free_nodes[free_count++] = node(stack, i);
        cg_problem leaf = leaf_;
        for (index_t n = 0; n < count; ++n) {
            char* right = free_nodes[--free_count];
            place(&leaf, first + n, right);
            if (const int status = run_leaf_(leaf, contraction_, threads)) return status;
            index_t level = 0;
            while ((n >> level & 1) != 0) ++level;
            if (const int status = add(right, of_level, level, threads)) return status;
            for (index_t i = 0; i < level; ++i) free_nodes[free_count++] = of_level[i];
            of_level[level] = right;
        }
        char* lefts[64];
        index_t chain = 0;
        *total = nullptr;
        for (index_t level = 0; count >> level != 0; ++level)
            if ((count >> level & 1) != 0) {
                if (*total == nullptr) *total = of_level[level];
                else lefts[chain++] = of_level[level];
            }
        return add(*total, lefts, chain, threads);
    }

    void place(cg_problem* leaf, index_t sample, char* result) const {
        for (cg_tensor cg_problem::*t : {&cg_problem::fine_operand, &cg_problem::coarse_operand}) {
            const cg_tensor& whole = p_.*t;
            if (whole.data != nullptr)
                (leaf->*t).data = (char*)whole.data + sample * whole.stride[0] * bytes_per_element(whole.dtype);
        }
        place_of(leaf, contraction_)->data = result;
    }

    struct Addition {
        const TreePlan& plan;
        char* right;
        char* const* lefts;
        index_t count;
    };
    int add(char* right, char* const* lefts, index_t count, int threads) const {
        if (count == 0) return CG_OK;
        Addition what{plan_, right, lefts, count};
        return run_tasks(
            threads, ceil_div(plan_.elements, PIECE), 0,
            [](void* given, index_t task, char*) {
                const Addition& a = *(Addition*)given;
                const index_t begin = task * PIECE, end = min(a.plan.elements, begin + PIECE);
                if (a.plan.item == 8) add_chain((double*)a.right, a.lefts, a.count, begin, end);
                else add_chain((float*)a.right, a.lefts, a.count, begin, end);
            },
            &what);
    }

    // Rounded to the result's cast and stored: rows of elements a step apart, as long as its strides allow.
    struct Rows {
        const cg_tensor& to;
        Extents extents;
        index_t step, length, pieces;  // of a row; a long one in pieces
        const char* from;
        index_t item;
    };
    int store(const char* total) const {
        const cg_tensor& to = contraction_ == BIAS ? p_.bias : p_.to_weight;
        Rows rows{to, Extents(p_, contraction_), 1, 1, 1, total, plan_.item};
        int axis = 5;
        while (axis > 0) {
            const index_t extent = rows.extents.at[axis - 1], stride = to.stride[axis - 1];
            if (extent > 1) {
                if (rows.length == 1) rows.step = stride;
                else if (stride != rows.step * rows.length) break;
                rows.length *= extent;
                rows.extents.at[axis - 1] = 1;
            }
            --axis;
        }
        rows.pieces = ceil_div(rows.length, PIECE);
        const index_t pieces = rows.extents.elements() * rows.pieces;
        const index_t per_task = max(1, PIECE / rows.length);
        struct Stored {
            const Rows& rows;
            index_t pieces, per_task;
        } what{rows, pieces, per_task};
        return run_tasks(
            threads_, ceil_div(pieces, per_task), 0,
            [](void* given, index_t task, char*) {
                const Stored& s = *(Stored*)given;
                for (index_t i = task * s.per_task; i < min(s.pieces, (task + 1) * s.per_task); ++i)
                    store_piece(s.rows, i / s.rows.pieces, i % s.rows.pieces);
            },
            &what);
    }

    static void store_piece(const Rows& rows, index_t row, index_t piece) {
        const cg_tensor& to = rows.to;
        const index_t begin = piece * PIECE, count = min(rows.length, begin + PIECE) - begin;
        index_t at = begin * rows.step, rest = row;
        for (int a = 4; a >= 0; --a) {
            at += rest % rows.extents.at[a] * to.stride[a];
            rest /= rows.extents.at[a];
        }
        const char* from = rows.from + (row * rows.length + begin) * rows.item;
        if (rows.item == 8) {
            for (index_t i = 0; i < count; ++i)
                store_from_double(to.data, at + i * rows.step, to.dtype, round_to(to.cast, ((const double*)from)[i]));
            return;
        }
        cg_tensor line = to;
        line.data = (char*)to.data + at * bytes_per_element(to.dtype);
        line.stride[4] = rows.step;
        isa().store(line, count, (const float*)from);
    }

    const cg_problem& p_;
    const int contraction_, threads_;
    const TreePlan& plan_;
    const RunLeaf run_leaf_;
    const cg_problem leaf_;
    char *stacks_ = nullptr, *of_runs_ = nullptr;
    char* of_run_[MAX_RUNS];
    std::atomic<bool> taken_[MAX_WORKERS];
    std::atomic<int> status_{CG_OK};
};

}  // namespace

bool sums_by_tree(const cg_problem& p, int contraction) {
    return p.deterministic == 3 && (contraction == TO_WEIGHT || contraction == BIAS);
}

cg_problem leaf_problem(const cg_problem& p, int contraction) {
    cg_problem leaf = p;
    leaf.batch = 1;
    leaf.deterministic = 0;
    leaf.fine_operand.stride[0] = leaf.coarse_operand.stride[0] = 0;
    void* const any = place_of(&leaf, contraction)->data;
    leaf.to_fine.data = leaf.to_coarse.data = leaf.to_weight.data = leaf.bias.data = nullptr;
    cg_tensor* result = place_of(&leaf, contraction);
    result->data = any;
    result->dtype = result->cast = leaf_is_double(p, contraction) ? CG_FLOAT64 : CG_FLOAT32;
    const Extents extents(p, contraction);
    index_t step = 1;
    for (int a = 4; a >= 0; --a) {
        result->stride[a] = step;
        step *= extents.at[a];
    }
    return leaf;
}

TreePlan plan_tree(const cg_problem& p, int contraction, int threads, bool is_large) {
    TreePlan plan;
    plan.elements = Extents(p, contraction).elements();
    plan.item = leaf_is_double(p, contraction) ? 8 : 4;
    plan.node_bytes = round_up(min(plan.elements, MOST_BYTES) * plan.item, LINE_BYTES) + 2 * LINE_BYTES;
    if (threads > 1 && p.batch > 1 && (p.batch >= 2 * threads || !is_large)) {
        const index_t workers = min(min(threads, p.batch), MAX_WORKERS);
        plan.run = 1;
        while (ceil_div(p.batch, plan.run) > RUNS_PER_WORKER * workers) plan.run *= 2;
        plan.runs = plan.of_runs = ceil_div(p.batch, plan.run);
        plan.nodes_of_run = plan.run == 1 ? 0 : bits_of(plan.run - 1) + 1;
        plan.workers = int(min(workers, plan.runs));
        if (plan.bytes() <= NODES_SIDE_BY_SIDE) return plan;
    }
    plan.run = p.batch;
    plan.runs = plan.workers = 1;
    plan.of_runs = 0;
    plan.nodes_of_run = bits_of(p.batch - 1) + 1;
    return plan;
}

int run_tree(const cg_problem& p, int contraction, int threads, const TreePlan& plan, RunLeaf leaf) {
    return Tree(p, contraction, threads, plan, leaf).run();
}

}  // namespace cg
