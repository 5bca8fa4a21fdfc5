// The weight contraction of few pixels: the cells under every tap in rows, see task.inl.h.
#pragma once

#include "numbers/integers.h"

namespace cg {

enum { MAX_COLUMN_PIXELS = 256, COLUMN_LINE = 512 };
struct ColumnPlan {
    index_t pixels, taps, plane_floats, row_floats;
    index_t channels_at_once, channels_per_task;  // fine channels whose columns are held, laid out by one task
    size_t task_bytes, shared_bytes;
};
bool columns_fit(const cg_problem& p);
void plan_columns(const cg_problem& p, ColumnPlan* plan);

}  // namespace cg
