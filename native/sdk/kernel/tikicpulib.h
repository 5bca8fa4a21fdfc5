/* Launching kernels on simulated cores: ICPU_RUN_KF, launches written <<<...>>>, ACLRT_LAUNCH_KERNEL. */
#ifndef CONVGRAD_TIKICPULIB_H
#define CONVGRAD_TIKICPULIB_H

#include "kernel_operator.h"

namespace AscendC {

enum class KernelMode { MIX_MODE = 0, AIC_MODE, AIV_MODE };
inline void SetKernelMode(KernelMode mode) { cgt_kernel_mode(static_cast<int>(mode)); }

inline void *GmAlloc(size_t size) { return cgt_gm_alloc(size); }
inline void GmFree(void *address, convgrad_tile::Where where = {}) { cgt_gm_free(address, where); }

}  // namespace AscendC
using AscendC::KernelMode;

namespace convgrad_tile {

template <class T>
const void *address_of(const T &) {
    return nullptr;
}
template <class T>
const void *address_of(T *const &pointer) {
    return reinterpret_cast<const void *>(pointer);
}
template <class T>
T readable(T value) {
    return value;
}
template <class T>
T *readable(T *pointer) {
    return static_cast<T *>(cgt_readable(static_cast<const void *>(pointer)));
}

template <class Body>
int call(void *body) {
    block_idx = cgt_block_idx();
    block_num = cgt_block_num();
#if defined(__cpp_exceptions)
    try {
        (*static_cast<Body *>(body))();
    } catch (const Stop &) {
        return CGT_STOP;
    }
#else
    (*static_cast<Body *>(body))();
#endif
    return CGT_OK;
}

/* A kernel that waits for its arguments. `texts` is the source of all that stands in the brackets of the launch, the number
 * of blocks first. */
template <class Function>
struct Launcher {
    Function function;
    const char *name, *texts;
    uint32_t blocks;
    Where where;

    template <class... Arguments>
    int operator()(Arguments... arguments) {
        const void *addresses[sizeof...(Arguments) + 1] = {address_of(arguments)..., nullptr};
        auto body = [&] { function(readable(arguments)...); };
        return cgt_launch(name, blocks, texts, addresses, static_cast<int>(sizeof...(Arguments)), call<decltype(body)>, &body,
                          where);
    }
};

template <class Function, class Blocks, class... Arguments>
int run(Function &&function, const char *name, const char *texts, Where where, Blocks blocks, Arguments &&...arguments) {
    Launcher<Function &> launcher{function, name, texts, static_cast<uint32_t>(blocks), where};
    return launcher(arguments...);
}

}  // namespace convgrad_tile

namespace AscendC {

/* What a launch written kernel<<<blocks, l2, stream>>>(arguments) becomes. */
template <class Function, class Blocks, class L2, class Stream>
convgrad_tile::Launcher<Function> cgt_launch_on_cores(const char *name, const char *texts, Function function, Blocks blocks, L2,
                                                      Stream, convgrad_tile::Where where = {}) {
    return {function, name, texts, static_cast<uint32_t>(blocks), where};
}

}  // namespace AscendC

namespace convgrad_tile {

/* ACLRT_LAUNCH_KERNEL(kernel)(blocks, stream, arguments...) */
template <class Function>
struct AclLauncher {
    Function function;
    const char *name;
    Where where;
    template <class Blocks, class Stream, class... Arguments>
    uint32_t operator()(Blocks blocks, Stream, Arguments... arguments) {
        Launcher<Function> launcher{function, name, "", static_cast<uint32_t>(blocks), where};
        return launcher(arguments...) == CGT_OK ? 0u : 1u;
    }
};
template <class Function>
AclLauncher<Function> acl_launcher(Function function, const char *name, Where where) {
    return {function, name, where};
}

}  // namespace convgrad_tile

#define ACLRT_LAUNCH_KERNEL(kernel) \
    ::convgrad_tile::acl_launcher(kernel, #kernel, ::convgrad_tile::Where(__FILE__, __LINE__))
#define ICPU_RUN_KF(func, ...) \
    ::convgrad_tile::run(func, #func, #__VA_ARGS__, ::convgrad_tile::Where(__FILE__, __LINE__), __VA_ARGS__)
#define ICPU_SET_TILING_KEY(key) (g_tilingKey = static_cast<uint64_t>(key))

#endif
