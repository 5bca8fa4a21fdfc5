/* What every kernel header stands on: call sites, a stopped core, and the macros that a device compiler knows. */
#ifndef CONVGRAD_TILE_CORE_H
#define CONVGRAD_TILE_CORE_H

#if defined(__NPU_DEVICE__)
#error "these headers run kernels on a CPU: a device compiler has its own"
#endif
#ifndef ASCENDC_CPU_DEBUG
#define ASCENDC_CPU_DEBUG 1
#endif
#ifndef __NPU_ARCH__
#define __NPU_ARCH__ 2201
#endif

#include <cstddef>
#include <cstdint>

#include "convgrad_tile.h"

#ifndef __aicore__
#define __aicore__
#endif
#ifndef __global__
#define __global__
#endif
#define __gm__
#define __ubuf__
#define __cbuf__
#define __ca__
#define __cb__
#define __cc__
/* What cores a kernel runs on: the section its code lies in tells the launcher (which g++ leaves out for templates). */
#define __cube__
#define __vector__ __attribute__((section("cgt_vector")))
#define __mix__(cubes, vectors) __attribute__((section("cgt_mix_" #cubes "_" #vectors)))
#define __kfc_workspace__
#define __inout_pipe__(x)
#define __in_pipe__(x)
#define __out_pipe__(x)
#define __sync_noalias__
#ifndef GM_ADDR
#define GM_ADDR uint8_t *
#endif
#ifndef likely
#define likely(x) __builtin_expect(!!(x), 1)
#endif
#ifndef unlikely
#define unlikely(x) __builtin_expect(!!(x), 0)
#endif

/* The block that runs, on every role. */
inline thread_local int64_t block_idx = 0;
inline int64_t block_num = 1;
inline uint64_t g_tilingKey = 0;

namespace convgrad_tile {

/* The last, defaulted parameter of a public call: where it stands in the program. */
struct Where {
    const char *file;
    int line;
    Where(const char *file_ = __builtin_FILE(), int line_ = __builtin_LINE()) : file(file_), line(line_) {}
    operator cgt_where() const { return {file, line}; }
};

/* Thrown where a core cannot go on; the launcher catches it. */
struct Stop {};

inline void go_on(int answer) {
    if (answer != CGT_STOP) return;
#if defined(__cpp_exceptions)
    throw Stop();
#else
    cgt_die();
#endif
}

}  // namespace convgrad_tile

#endif
