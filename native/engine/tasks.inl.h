// Tasks as lambdas, and flags that any of them may raise.
#pragma once

#include "threads.h"
#include "simd/vector.inl.h"

namespace cg {
namespace {

template <class F> static int in_parallel(int threads, index_t tasks, size_t bytes, F& body) {
    return run_tasks(
        threads, tasks, bytes, [](void* f, index_t task, char* scratch) { (*(F*)f)(task, scratch); }, &body);
}

static INLINE void raise_flag(int* flag) { __atomic_store_n(flag, 1, __ATOMIC_RELAXED); }
static INLINE bool is_raised(const int* flag) { return __atomic_load_n(flag, __ATOMIC_RELAXED) != 0; }

}  // namespace
}  // namespace cg
