// The plain loops: no tile, no table; a task holds a few lines.
#pragma once

#include "numbers/integers.h"

namespace cg {

struct Call;
struct Plan;

enum { PLAIN_ROWS = 8, PLAIN_COLUMNS = 2048 };  // output channels and columns a task sums at a time

struct PlainPlan {
    bool in_double;
};

// Makes the lines of a plane one where that changes nothing but the number of steps: equals tied to equals along both
// axes, and the two tensors go on from the end of a line to the next. A 1x1 window is then one line.
void lengthen_lines(cg_problem* problem, const cg_tensor& first, const cg_tensor& second);
void lengthen_lines(cg_problem* problem, bool to_fine);

// Reduced channels that one chain of multiply-adds sums in float32, with all of their taps.
index_t plain_chain(const cg_problem& p);

// Samples of a few multiplications take the plain loops where the batch is small, and the matrix product where it is
// large: both must sum in one order. True where the other data paths can follow that of the plain loops: channel after
// channel, the taps of each in their order, a chain for every plain_chain() channels. Follows from one sample alone.
bool sums_as_plain(const cg_problem& p, bool to_fine);

// Sums and a line of `element` bytes each, of lengthened lines.
size_t plain_gather_bytes(const cg_problem& p, bool to_fine, size_t element);

namespace plain {
bool accepts(const Call& call, Plan* draft);
bool prefers(const Call& call, Plan* draft);
void plan(const Call& call, Plan* plan);
size_t workspace(const Call& call, const Plan& plan);
void cuts(const Call& call, const Plan& plan, int64_t cuts[CG_CUTS]);
}  // namespace plain

}  // namespace cg
