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

}  // namespace convgrad_tile

extern "C" { /* of the linker: where the code of __vector__ and __mix__ kernels begins and ends */
extern const char __start_cgt_vector[] __attribute__((weak)), __stop_cgt_vector[] __attribute__((weak));
extern const char __start_cgt_mix_0_1[] __attribute__((weak)), __stop_cgt_mix_0_1[] __attribute__((weak));
extern const char __start_cgt_mix_1_1[] __attribute__((weak)), __stop_cgt_mix_1_1[] __attribute__((weak));
extern const char __start_cgt_mix_1_2[] __attribute__((weak)), __stop_cgt_mix_1_2[] __attribute__((weak));
}

namespace convgrad_tile {

/* The cores that a kernel's declaration asks for, on a core that is about to run it. */
inline void take_roles(uintptr_t kernel) {
    const auto lies_in = [kernel](const char *first, const char *last) {
        return reinterpret_cast<uintptr_t>(first) <= kernel && kernel < reinterpret_cast<uintptr_t>(last);
    };
    if (lies_in(__start_cgt_mix_1_1, __stop_cgt_mix_1_1)) cgt_task_type(1, 1);
    else if (lies_in(__start_cgt_mix_1_2, __stop_cgt_mix_1_2)) cgt_task_type(2, 1);
    else if (lies_in(__start_cgt_vector, __stop_cgt_vector) || lies_in(__start_cgt_mix_0_1, __stop_cgt_mix_0_1)) cgt_task_type(0, 0);
}

/* An argument as a kernel's parameter: a void pointer becomes the pointer it takes. */
template <class Parameter, class Argument>
Parameter as(Argument &argument) {
    if constexpr (std::is_pointer<Parameter>::value && std::is_convertible<Argument, const void *>::value &&
                  std::is_void<typename std::remove_pointer<Argument>::type>::value)
        return static_cast<Parameter>(argument);
    else return argument;
}

/* How a launch calls its kernel; what is no function, a lambda, gets the arguments as they are. */
template <class Function>
struct Kernel {
    template <class Callable, class... Arguments>
    static void run(Callable &function, Arguments... arguments) {
        function(arguments...);
    }
};
template <class Result, class... Parameters>
struct Kernel<Result (*)(Parameters...)> {
    template <class... Arguments>
    static void run(Result (*function)(Parameters...), Arguments... arguments) {
        static_assert(sizeof...(Parameters) == sizeof...(Arguments), "the launch gives another number of arguments than the kernel takes");
        take_roles(reinterpret_cast<uintptr_t>(function));
        function(as<Parameters>(arguments)...);
    }
};

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
        auto body = [&] { Kernel<typename std::decay<Function>::type>::run(function, readable(arguments)...); };
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
