/* The part of Ascend C's basic API that kernels around the convolution gradients use, on any CPU. */
#ifndef CONVGRAD_KERNEL_OPERATOR_H
#define CONVGRAD_KERNEL_OPERATOR_H

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <initializer_list>

#include "convgrad_tile/core.h"
#include "convgrad_tile/local.h"
#include "convgrad_tile/tensor.h"
#include "convgrad_tile/unnamed.h"
#include "kernel_tiling/kernel_tiling.h"

/* ---- roles: run-time conditions here, used as `if ASCEND_IS_AIV {` */
#define ASCEND_IS_AIV (cgt_role() == CGT_VECTOR)
#define ASCEND_IS_AIC (cgt_role() == CGT_CUBE)
#define ASCEND_IS_NOT_AIV (!ASCEND_IS_AIV)
#define ASCEND_IS_NOT_AIC (!ASCEND_IS_AIC)

/* ---- layouts as build systems hand them to operator kernels (FORMAT_Y and so on) */
#define FORMAT_NCDHW 30
#define FORMAT_NDC1HWC0 32
#define FORMAT_FRACTAL_Z_3D 33

/* ---- kernel types: number of vector cores per block, and whether there is a cube core */
enum KernelMetaType : uint8_t {
    KERNEL_TYPE_AIV_ONLY,
    KERNEL_TYPE_AIC_ONLY,
    KERNEL_TYPE_MIX_AIV_HARD_SYNC,
    KERNEL_TYPE_MIX_AIC_HARD_SYNC,
    KERNEL_TYPE_MIX_AIV_1_0,
    KERNEL_TYPE_MIX_AIC_1_0,
    KERNEL_TYPE_MIX_AIC_1_1,
    KERNEL_TYPE_MIX_AIC_1_2,
    KERNEL_TYPE_AICORE,
    KERNEL_TYPE_VECTORCORE,
    KERNEL_TYPE_MAX
};
namespace convgrad_tile {
inline void set_task_type(KernelMetaType type) {
    const bool cube = !(type == KERNEL_TYPE_AIV_ONLY || type == KERNEL_TYPE_MIX_AIV_1_0 || type == KERNEL_TYPE_VECTORCORE ||
                        type == KERNEL_TYPE_MIX_AIV_HARD_SYNC);
    cgt_task_type(type == KERNEL_TYPE_MIX_AIC_1_2 ? 2 : type == KERNEL_TYPE_MIX_AIC_1_1 ? 1 : 0, cube);
}
}  // namespace convgrad_tile
#define KERNEL_TASK_TYPE_DEFAULT(type) ::convgrad_tile::set_task_type(type)
#define KERNEL_TASK_TYPE(key, type) \
    do {                            \
        if (TILING_KEY_IS(key)) ::convgrad_tile::set_task_type(type); \
    } while (0)
#define ENABLE_DETERMINISTIC() static_cast<void>(0)
#define TILING_KEY_IS(key) (g_tilingKey == static_cast<uint64_t>(key))

/* ---- tiling data: the struct registered in the same function, else CONVGRAD_TILING_STRUCT, which the header of a kernel
 * object sets to its documented outer record */
using CgtRegisteredTiling = void;
namespace convgrad_tile {
template <class Registered, class Documented>
struct TilingOf {
    using type = Registered;
};
template <class Documented>
struct TilingOf<void, Documented> {
    using type = Documented;
};
template <class Record>
inline Record read_tiling(const void *from, Where where) {
    Record record;
    if (from) std::memcpy(static_cast<void *>(&record), from, sizeof(Record));
    else go_on(cgt_stop("launch.arguments", "GET_TILING_DATA: the tiling argument is a null pointer", where));
    return record;
}
}  // namespace convgrad_tile
#define REGISTER_TILING_DEFAULT(type) using CgtRegisteredTiling [[maybe_unused]] = type
#define REGISTER_TILING_FOR_TILINGKEY(condition, type) static_assert(true, "")
#define REGISTER_NONE_TILING static_assert(true, "")
#define GET_TILING_DATA_WITH_STRUCT(type, name, from) \
    type name = ::convgrad_tile::read_tiling<type>((from), ::convgrad_tile::Where(__FILE__, __LINE__))
#define GET_TILING_DATA(name, from)                                                                          \
    typename ::convgrad_tile::TilingOf<CgtRegisteredTiling, CONVGRAD_TILING_STRUCT>::type name =             \
        ::convgrad_tile::read_tiling<::convgrad_tile::TilingOf<CgtRegisteredTiling, CONVGRAD_TILING_STRUCT>::type>( \
            (from), ::convgrad_tile::Where(__FILE__, __LINE__))
#define GET_TILING_DATA_PTR_WITH_STRUCT(type, name, from) type *name = (type *)(from)
#define GET_TILING_DATA_MEMBER(type, member, name, from) \
    auto name = ::convgrad_tile::read_tiling<type>((from), ::convgrad_tile::Where(__FILE__, __LINE__)).member

namespace convgrad_tile {
template <class... Message>
inline void assertion(const char *text, Where where, bool holds, const Message &...) {
    if (!holds) go_on(cgt_stop("kernel.assert", text, where));
}
}  // namespace convgrad_tile
#ifndef ascendc_assert
#define ascendc_assert(...) ::convgrad_tile::assertion(#__VA_ARGS__, ::convgrad_tile::Where(__FILE__, __LINE__), __VA_ARGS__)
#endif
#ifndef ASCENDC_ASSERT
#define ASCENDC_ASSERT(condition, behavior)                                                                 \
    do {                                                                                                    \
        if (!(condition)) {                                                                                 \
            behavior;                                                                                       \
            ::convgrad_tile::go_on(                                                                         \
                cgt_stop("kernel.assert", #condition, ::convgrad_tile::Where(__FILE__, __LINE__)));         \
        }                                                                                                   \
    } while (0)
#endif
#ifndef ASSERT
#define ASSERT(...) ascendc_assert(__VA_ARGS__)
#endif
#define KERNEL_LOG(level, ...) static_cast<void>(0)

namespace AscendC {

constexpr int32_t BLOCK_CUBE = 16, ONE_BLK_SIZE = 32, CUBE_MAX_SIZE = 256, B8_DATA_NUM_PER_BLOCK = 32;
constexpr int32_t B16_DATA_NUM_PER_BLOCK = 16, B32_DATA_NUM_PER_BLOCK = 8;
constexpr int32_t TOTAL_L1_SIZE = 512 * 1024, TOTAL_L0A_SIZE = 64 * 1024, TOTAL_L0B_SIZE = 64 * 1024;
constexpr int32_t TOTAL_L0C_SIZE = 128 * 1024, TOTAL_UB_SIZE = 192 * 1024;

inline int64_t GetBlockIdx() {
    return cgt_role() == CGT_VECTOR ? cgt_block_idx() * cgt_vectors_per_block() + cgt_sub_block_idx() : cgt_block_idx();
}
inline int64_t GetBlockNum() { return cgt_block_num(); }
inline int64_t GetSubBlockIdx() { return cgt_sub_block_idx(); }
inline int64_t GetSubBlockNum() { return cgt_vectors_per_block(); }
inline int64_t GetTaskRatio() { return cgt_role() == CGT_VECTOR ? cgt_vectors_per_block() : 1; }
inline int64_t GetTaskRation() { return GetTaskRatio(); }

inline float ToFloat(const bfloat16_t &number) { return number; }
inline bfloat16_t ToBfloat16(const float &number) { return number; }

constexpr uint64_t DivCeil(uint64_t a, uint64_t b) { return b == 0 ? 0 : (a + b - 1) / b; }
constexpr uint64_t Ceil(uint64_t a, uint64_t b) { return DivCeil(a, b); }
constexpr uint64_t CeilDivision(uint64_t a, uint64_t b) { return DivCeil(a, b); }
constexpr uint64_t AlignUp(uint64_t a, uint64_t b) { return DivCeil(a, b) * b; }

template <class... Arguments>
inline void PRINTF(const char *format, Arguments... arguments) {
    if constexpr (sizeof...(Arguments) == 0) std::printf("%s", format);
    else std::printf(format, arguments...);
}
using ::printf;

/* The workspace an operator gets begins with the system's part, which is empty here. */
inline GM_ADDR &cgt_system_workspace() {
    static thread_local GM_ADDR workspace = nullptr;
    return workspace;
}
inline void SetSysWorkspace(GM_ADDR workspace) { cgt_system_workspace() = workspace; }
inline GM_ADDR GetSysWorkSpacePtr() { return cgt_system_workspace(); }
inline GM_ADDR GetUserWorkspace(GM_ADDR workspace) { return workspace; }

/* Sets `size` elements; a vector core's work. The tensor is no temporary: keep the view in a variable. */
template <typename T>
void Fill(GlobalTensor<T> &gm, const uint64_t size, const T value, convgrad_tile::Where where = {}) {
    static_assert(!std::is_same<T, bfloat16_t>::value,
                  "Fill takes half, float and 16- and 32-bit integers; fill a uint16_t view of a bfloat16_t tensor");
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "Fill takes half, float and 16- and 32-bit integers");
    if (cgt_role() == CGT_CUBE)
        cgt_found("role.cube_fill", "Fill: works through the buffer of a vector core; call it there (ASCEND_IS_AIV)", where);
    const cgt_view view = gm.cgt_pointer();
    const int64_t count = size > INT64_MAX ? INT64_MAX : static_cast<int64_t>(size);
    if (cgt_touch(&view, 0, count, CGT_FILL, "Fill", where) != CGT_OK) return;
    T *to = gm.GetPhyAddr(0);
    for (uint64_t at = 0; at < size; ++at) to[at] = value;
}
template <typename T>
void InitGlobalMemory(GlobalTensor<T> &gm, const uint64_t size, const T value, convgrad_tile::Where where = {}) {
    Fill(gm, size, value, where);
}

/* Vector cores meet; with false all cores do. */
template <bool isAIVOnly = true>
void SyncAll(convgrad_tile::Where where = {}) {
    convgrad_tile::go_on(cgt_sync_all(isAIVOnly, where));
}
/* The form that counts in memory of the kernel's own: the memory is not needed. */
template <bool isAIVOnly = true>
void SyncAll(const GlobalTensor<int32_t> &, const LocalTensor<int32_t> &, const int32_t = 0, convgrad_tile::Where where = {}) {
    SyncAll<isAIVOnly>(where);
}

/* Flags between cores: mode 0 all cores of a role, mode 1 the vector cores of a block, mode 2 the cube core of a block and
 * its vector cores. A wait ends when every setter has set the flag once more than was waited for. */
template <uint8_t modeId, pipe_t pipe>
void CrossCoreSetFlag(uint16_t flagId, convgrad_tile::Where where = {}) {
    static_assert(modeId <= 2, "CrossCoreSetFlag takes mode 0, 1 or 2");
    convgrad_tile::go_on(cgt_cross_core_set(modeId, flagId, where));
}
template <uint8_t modeId = 0, pipe_t pipe = PIPE_S>
void CrossCoreWaitFlag(uint16_t flagId, convgrad_tile::Where where = {}) {
    convgrad_tile::go_on(cgt_cross_core_wait(flagId, where));
}

}  // namespace AscendC

#endif
