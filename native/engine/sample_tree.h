// Weight and bias gradients as a fixed tree over samples, cg_problem.deterministic = 3.
//
// A leaf is the gradient of one sample, unrounded: float32, or float64 where operands are cast to it. Neighbours are
// added in pairs, an odd last one goes up as it is, until one is left; that one is rounded, once. So the sum of any
// samples [i * 2^k, (i + 1) * 2^k) is a node of the tree, whoever computes it, and the bits follow from the samples
// alone.
//
//     0   1   2   3   4          the leaf of a sample is that of a batch of one: computed by the path that such a
//     └(+)┘   └(+)┘   │          problem takes, into memory without strides, so that neither the batch nor the
//       └──(+)──┘     │          strides of a result can show
//           └───(+)───┘
//                └── rounded
#pragma once

#include "problem.h"

namespace cg {

bool sums_by_tree(const cg_problem& p, int contraction);

// The problem of one sample and one gradient, whose result is the leaf; that result's address is any.
cg_problem leaf_problem(const cg_problem& p, int contraction);

// How the tree is computed; never what.
struct TreePlan {
    index_t elements;               // of the gradient
    index_t item;                   // bytes of an element of a node
    index_t node_bytes;             // whole cache lines
    index_t run;                    // samples that one task sums: a power of two, or the whole batch
    index_t runs;                   // 1: samples one after the other, each on all threads
    index_t nodes_of_run, of_runs;  // nodes that are kept meanwhile
    int workers;                    // runs at a time

    bool is_one_by_one() const { return runs == 1; }
    size_t bytes() const { return size_t((workers * nodes_of_run + of_runs) * node_bytes); }
};

// `is_large`: a sample is worth several threads by itself.
TreePlan plan_tree(const cg_problem& p, int contraction, int threads, bool is_large);

// A cg_status; `leaf(problem, threads)` computes the result of a leaf's problem.
typedef int (*RunLeaf)(const cg_problem& leaf, int contraction, int threads);
int run_tree(const cg_problem& p, int contraction, int threads, const TreePlan& plan, RunLeaf leaf);

}  // namespace cg
