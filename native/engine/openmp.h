// An OpenMP runtime that somebody else brought into the process: PyTorch, scikit-learn, the program itself.
#pragma once

#include <cstdint>

namespace cg {

struct OpenMP {
    // GOMP_parallel: member(context) on `members` threads at once, the caller's among them, until all have returned.
    // GCC's runtime has it for the code its compiler makes, LLVM's and Intel's so that they can take its place.
    void (*parallel)(void (*member)(void*), void* context, uint32_t members, uint32_t flags);
    int (*in_parallel)();  // omp_in_parallel
    int (*max_threads)();  // omp_get_max_threads: what this thread's next region would get
    const char* path;
};

// Looks for runtimes if anything was loaded into the process since the last time (10 ns if not). The engine itself
// neither needs nor loads one.
void look_for_openmp();

// The runtime found: the one the whole process sees, as PyTorch's, before those that belong to single libraries, in the
// order they were loaded. Null where there is none. It is never unloaded.
const OpenMP* openmp();

// Whether a region may be opened. Not in a child of fork(): GCC's runtime waits there for threads that fork() did not
// copy. Not while the process ends: the runtime may have ended.
bool openmp_may_start();

// Whether the caller is a member of a team of any runtime in the process: every core is taken already.
bool in_openmp_region();

}  // namespace cg
