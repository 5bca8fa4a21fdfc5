/* The C ABI under the Ascend C headers: kernel objects, global memory, cores that take turns, findings.
 *
 * Kernel code does not call it: kernel_operator.h, lib/conv_backprop/ and tikicpulib.h do. A call answers CGT_OK,
 * CGT_REFUSED (a finding was made, the kernel goes on) or CGT_STOP (this core cannot go on). */
#ifndef CONVGRAD_TILE_H
#define CONVGRAD_TILE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CGT_API __attribute__((visibility("default")))

enum { CGT_OK = 0, CGT_REFUSED = 1, CGT_STOP = 2 };
enum { CGT_INPUT = 0, CGT_FILTER = 1 };                /* which gradient an object computes */
enum { CGT_HALF = 0, CGT_BFLOAT16 = 1, CGT_FLOAT = 2 }; /* number formats */
enum { CGT_CUBE = 0, CGT_VECTOR = 1 };                 /* roles of a core */
/* What is done to global memory; CGT_ZERO: zeros are stored, a fill where no tile was before. */
enum { CGT_READ = 0, CGT_STORE = 1, CGT_FILL = 2, CGT_ADD = 3, CGT_ZERO = 4 };
enum { CGT_MODE_MIX = 0, CGT_MODE_AIC = 1, CGT_MODE_AIV = 2, CGT_MODE_OF_KERNEL = -1 };

typedef struct cgt_object cgt_object;

/* The line of the program that made a call. */
typedef struct cgt_where {
    const char *file;
    int line;
} cgt_where;

/* A GlobalTensor: the address and size (0: not given) of SetGlobalBuffer, and elements since. */
typedef struct cgt_view {
    void *base;
    uint64_t size;
    int64_t offset;
    int32_t element_bytes;
} cgt_view;

/* What Iterate tells of a tile. */
typedef struct cgt_tile {
    int64_t i, j, plane, rows, columns;
    int32_t computed;
} cgt_tile;

/* ---- kernel objects; `first` is the address of ctx.isFirstIter_ */
CGT_API cgt_object *cgt_make(int gradient, int number, int ncdhw, cgt_where where);
CGT_API void cgt_drop(cgt_object *object);
CGT_API int cgt_init(cgt_object *object, uint8_t *first, const void *record, cgt_where where);
CGT_API const void *cgt_record(const cgt_object *object);
CGT_API int cgt_set_single_shape(cgt_object *object, uint8_t *first, uint64_t one, uint64_t two, uint64_t three,
                                 cgt_where where);
/* The older spelling: how many planes a walk of Input covers, the plane slowest; for Filter, that N may run on into so many
 * window planes. Before SetSingleShape. */
CGT_API int cgt_set_planes(cgt_object *object, uint8_t *first, uint64_t planes, cgt_where where);
CGT_API int cgt_set_start(cgt_object *object, uint8_t *first, int64_t plane, int64_t row, cgt_where where);
CGT_API int cgt_set_grad_output(cgt_object *object, uint8_t *first, const cgt_view *view, cgt_where where);
CGT_API int cgt_set_other(cgt_object *object, uint8_t *first, const cgt_view *view, cgt_where where);
CGT_API int cgt_iterate(cgt_object *object, uint8_t *first, int partial_sum, cgt_tile *tile, int *more,
                        cgt_where where);
CGT_API int cgt_get_tensor_c(cgt_object *object, uint8_t *first, const cgt_view *output, int atomic, int sequential,
                             cgt_where where);
CGT_API int cgt_end(cgt_object *object, uint8_t *first, cgt_where where);

/* The product of one tile: c (rows x columns) = or += a (rows x k) * b (k x columns), all row after row, `chunk` of k at a
 * time: each chunk is summed in order of k and then added to c; with `overwrite` the first takes the place of c. Columns
 * come in sixteens, or the call is refused. The same bits on every instruction set. */
CGT_API int cgt_product(const float *a, const float *b, int64_t rows, int64_t k, int64_t columns, int64_t chunk,
                        int overwrite, float *c);

/* ---- GetTiling: what the host objects were told; axes are planes, rows, columns */
typedef struct cgt_tiling_request {
    int64_t batch, cin, cout;
    int64_t input[3], window[3], out[3], stride[3], dilation[3], output_padding[3];
    int64_t padding[6], backprop_padding[4];
    int64_t groups, cores;
    uint64_t l1Size, l0ASize, l0BSize, l0CSize, ubSize; /* bytes; 0: those of the 910B */
    uint32_t weight_format, input_format, grad_output_format;
    uint32_t weight_dtype, input_dtype, grad_output_dtype;
    int32_t hf32, transposed, zeroed_before; /* zeroed_before: an earlier record of the object had initOutputFlag 1 */
} cgt_tiling_request;
/* Fills the outer record of a gradient (280 or 240 bytes), or leaves it alone and answers CGT_REFUSED. */
CGT_API int cgt_get_tiling(int gradient, const cgt_tiling_request *request, void *record);
/* Why the last GetTiling of this thread was refused; empty when it was not. */
CGT_API const char *convgrad_tile_reason(void);

/* A product by any of its names; null: the one CONVGRAD_PRODUCT chooses. Sizes are bytes of one core's stores. */
typedef struct cgt_platform_facts {
    int32_t soc_version; /* of platform_ascendc::SocVersion */
    uint32_t cube_cores, vector_cores;
    uint64_t l0a, l0b, l0c, l1, l2, ub, fb, bt;
} cgt_platform_facts;
CGT_API int cgt_platform(const char *name, cgt_platform_facts *facts);

/* ---- global memory */
CGT_API void *cgt_gm_alloc(size_t bytes);
CGT_API void cgt_gm_free(void *address, cgt_where where);
CGT_API void cgt_register(void *address, size_t bytes, const char *name);
CGT_API void cgt_unregister(void *address);
CGT_API void *cgt_readable(const void *address); /* where a kernel finds the bytes of a device address */
CGT_API int cgt_known(const void *address, cgt_where where);
CGT_API int cgt_touch(const cgt_view *view, int64_t start, int64_t count, int doing, const char *call,
                      cgt_where where);

/* ---- cores */
CGT_API int64_t cgt_block_idx(void);
CGT_API int64_t cgt_block_num(void);
CGT_API int64_t cgt_sub_block_idx(void);
CGT_API int64_t cgt_vectors_per_block(void);
CGT_API int cgt_role(void);
CGT_API int cgt_sync_all(int vectors_only, cgt_where where);
CGT_API int cgt_cross_core_set(int mode, int flag, cgt_where where);
CGT_API int cgt_cross_core_wait(int flag, cgt_where where);
CGT_API void cgt_task_type(int vectors_per_block, int cube);
CGT_API void cgt_kernel_mode(int mode);
/* Runs body(context) on every core; body answers CGT_OK or CGT_STOP. `texts` is the source of the arguments. */
CGT_API int cgt_launch(const char *name, uint32_t blocks, const char *texts, const void *const *arguments, int count,
                       int (*body)(void *), void *context, cgt_where where);

/* ---- findings */
CGT_API void cgt_found(const char *rule, const char *text, cgt_where where);
/* The same where the core cannot go on: CGT_STOP. */
CGT_API int cgt_stop(const char *rule, const char *text, cgt_where where);
CGT_API void cgt_die(void); /* prints what was found and ends the process: for code without exceptions */
CGT_API size_t convgrad_tile_findings(void);
CGT_API const char *convgrad_tile_finding(size_t number);

#ifdef __cplusplus
}
#endif
#endif
