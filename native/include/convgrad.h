/* The engine's C ABI: finished integers and pointers in, gradients out.
 *
 * The engine derives nothing from products or rules and validates only what would otherwise be
 * undefined behaviour. One law ties a fine grid to a coarse grid through a window, per axis:
 *
 *     fine index = coarse index * stride - pad + tap * dilation
 *     T = sum  fine[b, f, i] * weight[c, f, k] * coarse[b, c, o]      over every tied (i, k, o), per group
 *
 * and every result is one partial derivative of T. Convolution: fine = input, coarse = output.
 * Transposed convolution: fine = output, coarse = input. Three axes always; lower ranks are unit axes.
 */
#ifndef CONVGRAD_H
#define CONVGRAD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CG_ABI_VERSION 4
#define CG_API __attribute__((visibility("default")))

/* Number formats. The first seven can be stored; the two HF32 rows only round (values stay float32). */
enum cg_dtype {
    CG_FLOAT64 = 0,
    CG_FLOAT32 = 1,
    CG_FLOAT16 = 2,
    CG_BFLOAT16 = 3,
    CG_FLOAT8_E4M3FN = 4,
    CG_FLOAT8_E5M2 = 5,
    CG_HIFLOAT8 = 6,
    CG_HF32_11 = 7, /* float32 with 11 fraction bits, ties away from zero */
    CG_HF32_10 = 8  /* float32 with 10 fraction bits, ties away from zero */
};

enum cg_status {
    CG_OK = 0,
    CG_BAD_ARGUMENT = 1, /* a size, dtype or pointer the engine cannot run without undefined behaviour */
    CG_OUT_OF_MEMORY = 2,
    CG_SCRATCH_OVERRUN = 3 /* a kernel wrote outside of its piece of scratch memory; only where that is checked */
};

/* How multiplications may be saved. CG_FAST computes tiles of 3x3 and 5x5 windows of stride 1 from 2 to 6 times fewer of them,
 * where that pays: an error is then relative to the largest values of a tile, not to a result's own terms.
 * CG_EXACT_FAST only takes the tiles that keep small integers exact. */
enum cg_algorithm { CG_DIRECT = 0, CG_FAST = 1, CG_EXACT_FAST = 2 };

/* A strided tensor. Strides count elements, in the order (batch, channel, depth, height, width);
 * for weights (coarse channel, fine channel within the group, depth, height, width); for a bias only
 * stride[1] counts. `data` points at element (0, 0, 0, 0, 0). `cast` is a cg_dtype: an operand is rounded
 * to it once after loading; a result is rounded to it before it is stored as `dtype`.
 * cast == dtype means no extra rounding. */
typedef struct cg_tensor {
    void *data;
    int32_t dtype;
    int32_t cast;
    int64_t stride[5];
} cg_tensor;

typedef struct cg_problem {
    int64_t batch;
    int64_t groups;
    int64_t fine_channels;   /* per group */
    int64_t coarse_channels; /* per group */
    int64_t fine[3], coarse[3], window[3], stride[3], dilation[3], pad[3]; /* depth, height, width */
    cg_tensor fine_operand, coarse_operand, weight_operand; /* data may be null when nothing wanted reads it */
    cg_tensor to_fine;   /* dT/dfine   from coarse and weight; data null = not wanted */
    cg_tensor to_coarse; /* dT/dcoarse from fine and weight */
    cg_tensor to_weight; /* dT/dweight from fine and coarse */
    cg_tensor bias;      /* per channel sum of bias_source, before any operand cast */
    int32_t bias_source; /* 0 = coarse_operand, 1 = fine_operand */
    int32_t threads;     /* 0 = the default of cg_default_threads() */
    int32_t path;        /* 0 = choose; otherwise a number of the path table (tests force paths) */
    int32_t algorithm;   /* a cg_algorithm */
    int32_t deterministic; /* a level, 0 to 3; 3: to_weight and bias are a fixed tree over samples */
    int32_t unused;        /* 0 */
} cg_problem;

CG_API int32_t cg_abi_version(void);

/* Computes every result whose data is not null. A cg_status; on failure cg_last_error() says why and the
 * results are unspecified. Safe from several threads at once, and in the child of a fork. */
CG_API int32_t cg_run(const cg_problem *problem);

/* Bytes of workspace cg_run would hold for this problem and number of threads; -1 for a bad argument. The engine
 * owns the memory: it is kept by each thread and used again. */
CG_API int64_t cg_workspace_bytes(const cg_problem *problem);

/* The calling thread's last refusal, in words. */
CG_API const char *cg_last_error(void);

/* Whether two elements of a strided tensor may share a byte: 0 only where every stride steps over all that the smaller
 * ones reach, else 1. Strides and `item`, the size of an element, count the same unit (bytes, or elements with item 1);
 * results in such a tensor would be written over each other. More than 64 axes count as 1, a size of 0 as 0. */
CG_API int32_t cg_may_overlap_itself(int32_t axes, const int64_t *sizes, const int64_t *strides, int64_t item);

/* CONVGRAD_NUM_THREADS; else what the OpenMP runtime of cg_threadpool() would give the calling thread; else
 * OMP_NUM_THREADS; else the cores this process may use. */
CG_API int32_t cg_default_threads(void);

/* Whose threads compute: the path of an OpenMP runtime that is in the process already ("libgomp", "libomp", "libiomp" and
 * whatever follows; looked for anew whenever something was loaded), or "own": where there is none, in a child of fork(),
 * while the process ends. Two pools of one process would compete for its cores. CONVGRAD_THREADPOOL=own keeps to the
 * engine's own threads; =shared uses the runtime's from any number of the program's threads, which is four at once
 * otherwise, as GCC's runtime keeps a team for each. Calls from inside a parallel region compute on the calling thread.
 * Results are the same bits either way. */
CG_API const char *cg_threadpool(void);

/* Threads of the host process instead ("lent"): `team` calls member(context) on up to `members` threads at once, the
 * caller's among them, and returns when all have returned. Null ends that; so does fork() in the child. */
typedef void (*cg_team)(void (*member)(void *), void *context, uint32_t members, uint32_t flags);
CG_API void cg_borrow_threads(cg_team team);

/* The instruction set in use: "baseline", "avx2", "avx512" or "neon". CONVGRAD_ISA forces one the machine has. */
CG_API const char *cg_isa_name(void);

/* The path table: number 0 chooses, further numbers until the name is null. */
CG_API const char *cg_path_name(int32_t path);
CG_API const char *cg_path_condition(int32_t path);
CG_API int32_t cg_path_is_exact(int32_t path); /* whether small integers leave no rounding */

/* Contractions are 0 to_fine, 1 to_coarse, 2 to_weight, 3 bias. */
CG_API int32_t cg_path_accepts(const cg_problem *problem, int32_t contraction, int32_t path);
CG_API int32_t cg_choose_path(const cg_problem *problem, int32_t contraction);

/* Where a path cuts its loops for this problem, for tests that cross every cut: the number of parts of each axis. */
enum cg_cut {
    CG_CUT_BATCH,
    CG_CUT_DEPTH,
    CG_CUT_HEIGHT,
    CG_CUT_WIDTH,
    CG_CUT_WINDOW, /* groups of taps */
    CG_CUT_REDUCED_CHANNELS,
    CG_CUT_RESULT_CHANNELS,
    CG_CUT_GROUPS,
    CG_CUT_PARTIALS, /* runs of pixels that are summed separately */
    CG_CUTS
};
CG_API int32_t cg_path_cuts(const cg_problem *problem, int32_t contraction, int32_t path, int64_t cuts[CG_CUTS]);

/* For tests: fills scratch memory with NaN before every task and checks guard words between its pieces after it. Says
 * what held before. */
CG_API int32_t cg_check_scratch(int32_t on);

/* The engine's conversions, for tests: operands as float32 (cast applied), results from float32, and the exact
 * scalar rounding to a format. Elements are stride[4] apart. */
CG_API int32_t cg_load(const cg_tensor *tensor, int64_t count, float *out);
CG_API int32_t cg_store(const cg_tensor *tensor, int64_t count, const float *values);
CG_API int32_t cg_round(int32_t dtype, const double *values, double *out, int64_t count);

#ifdef __cplusplus
}
#endif
#endif
