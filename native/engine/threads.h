// The engine's threads.
#pragma once

#include "numbers/integers.h"

namespace cg {

// Runs body(context, task, scratch) for every task in [0, tasks) on at most `threads` threads, each with its own
// `scratch_bytes` of memory. Which thread runs which task is never fixed: bodies must not let it show in the bits.
// Returns a cg_status.
typedef void (*TaskBody)(void* context, index_t task, char* scratch);
int run_tasks(int threads, index_t tasks, size_t scratch_bytes, TaskBody body, void* context);

// Before a call that may run on several threads: reads CONVGRAD_THREADPOOL, and looks for an OpenMP runtime if anything
// was loaded since.
void choose_threads();

// Whose threads they are: "own", "lent" or the path of an OpenMP runtime.
const char* threadpool();

int default_threads();

}  // namespace cg
