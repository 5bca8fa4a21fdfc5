// The weight contraction of few pixels: the cells under every tap in rows, see task.inl.h.
#pragma once

#include "scratch.h"

namespace cg {

struct Call;
struct Plan;

enum { MAX_COLUMN_PIXELS = 256, COLUMN_LINE = 512 };
struct ColumnPlan {
    index_t pixels, taps;
    index_t channels_at_once, channels_per_task;  // fine channels whose columns are held, laid out by one task
    Booking task, shared;
    Piece<int> cells;            // under every tap
    Piece<float> planes;         // of a fine channel, all images
    Piece<float> line;           // of results
    Piece<float> rows, columns;  // shared: panels of coarse channels, of (fine channel, tap)
};
namespace gemm_columns {
bool accepts(const Call& call, Plan* draft);
bool prefers(const Call& call, Plan* draft);
void plan(const Call& call, Plan* plan);
size_t workspace(const Call& call, const Plan& plan);
void cuts(const Call& call, const Plan& plan, int64_t cuts[CG_CUTS]);
}  // namespace gemm_columns

}  // namespace cg
