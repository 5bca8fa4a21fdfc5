// One instruction set's half of the engine. Compiled once per set with CG_ISA (a name) and LANES (floats per vector);
// everything has internal linkage, so copies of different sets can never be exchanged by the linker.
#include "isa.h"
#include "paths.h"
#include "paths/bias/task.inl.h"
#include "paths/depthwise_channels/task.inl.h"
#include "paths/depthwise_rows/data_task.inl.h"
#include "paths/depthwise_rows/weight_task.inl.h"
#include "paths/few_channels/task.inl.h"
#include "paths/gemm_columns/task.inl.h"
#include "paths/gemm_data/task.inl.h"
#include "paths/gemm_weight/task.inl.h"
#include "paths/plain/kernels.inl.h"
#include "paths/winograd/data_task.inl.h"
#include "paths/winograd/weight_task.inl.h"

namespace cg {
namespace {

constexpr PathRuns path_runs[PATHS] = {
    {PATH_CHOOSE, nullptr, nullptr},
    {PATH_PLAIN, run_plain, run_plain},
    {PATH_WINOGRAD_4, run_winograd_data<4>, run_winograd_weight<4>},
    {PATH_WINOGRAD_7, run_winograd_data<7>, run_winograd_weight<7>},
    {PATH_WINOGRAD_8, run_winograd_data<8>, run_winograd_weight<8>},
    {PATH_WINOGRAD_LINE_4, run_winograd_line_data<4>, run_winograd_line_weight<4>},
    {PATH_WINOGRAD_LINE_8, run_winograd_line_data<8>, run_winograd_line_weight<8>},
    {PATH_WINOGRAD_LINE_16, run_winograd_line_data<16>, run_winograd_line_weight<16>},
    {PATH_DEPTHWISE_CHANNELS, run_channels, run_channels},
    {PATH_GROUPED_CHANNELS, run_channels, run_channels},
    {PATH_DEPTHWISE_ROWS, run_depthwise_data, run_depthwise_weight},
    {PATH_GEMM_COLUMNS, nullptr, run_gemm_columns},
    {PATH_FEW_CHANNELS, nullptr, run_few_channels},
    {PATH_GEMM_IMAGES, run_gemm_data, nullptr},
    {PATH_GEMM_DIRECT, run_gemm_data, nullptr},
    {PATH_GEMM_PACKED, run_gemm_data, run_gemm_weight},
};

constexpr bool in_order() {
    for (int i = 0; i < PATHS; ++i)
        if (path_runs[i].path != i) return false;
    return true;
}
static_assert(in_order(), "path_runs is indexed by the number of a path");

static void load_all(const cg_tensor& tensor, index_t count, float* out) {
    const Source s = make_source(tensor);
    s.rows(s, 0, 1, 0, count, tensor.stride[4], out, 0);
}

static void store_all(const cg_tensor& tensor, index_t count, const float* values) {
    const Target t = make_target(tensor);
    t.rows(t, 0, 1, 0, count, tensor.stride[4], values, 0);
}

}  // namespace

#define PASTE(a, b) a##b
#define ISA_SYMBOL(name) PASTE(isa_, name)
#define TEXT(a) #a
#define ISA_NAME(name) TEXT(name)
extern const Isa ISA_SYMBOL(CG_ISA);
const Isa ISA_SYMBOL(CG_ISA) = {ISA_NAME(CG_ISA), LANES, path_runs, run_bias, load_all, store_all};

}  // namespace cg
