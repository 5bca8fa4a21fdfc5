// Launches in both other spellings: brackets of three (with a template, comments, several lines), and ACLRT_LAUNCH_KERNEL
// with pointers to void; and kernels whose declaration says what cores they run on.
#include "kernel_operator.h"
#ifdef ASCENDC_CPU_DEBUG
#include "cpu_debug_launch.h"
#endif
#include "aclrtlaunch_number_blocks.h"

#include "acl/acl.h"

#include <cstdio>

using namespace AscendC;

template <typename T>
__global__ __aicore__ void twice(GM_ADDR numbers) {
    GlobalTensor<T> gm;
    gm.SetGlobalBuffer((__gm__ T *)numbers);
    gm.SetValue(GetBlockIdx(), T(2 * float(gm.GetValue(GetBlockIdx()))));
}

extern "C" __global__ __aicore__ void number_blocks(GM_ADDR numbers, int32_t first) {
    GlobalTensor<float> gm;
    gm.SetGlobalBuffer((__gm__ float *)numbers, GetBlockNum());
    gm.SetValue(block_idx, float(first + GetBlockIdx()));
}

// How many vector cores ran, and the cube core, of each block.
__aicore__ inline void count_cores(GM_ADDR counts) {
    GlobalTensor<float> gm;
    gm.SetGlobalBuffer((__gm__ float *)counts);
    const float worth = ASCEND_IS_AIC ? 10.0f : 1.0f;
    gm.SetValue(block_idx, gm.GetValue(block_idx) + worth);
}
__global__ __mix__(1, 2) void mixed(GM_ADDR counts) { count_cores(counts); }
template <typename T, int N> __global__ __mix__(1, 1)
void mixed_template(GM_ADDR counts) { count_cores(counts); }
__global__ __vector__ void vectors(GM_ADDR counts) { count_cores(counts); }
__global__ __cube__ void cubes(GM_ADDR counts) { count_cores(counts); }

int main() {
    aclInit(nullptr);
    aclrtSetDevice(0);
    void *device = nullptr;
    float host[4] = {};
    aclrtMalloc(&device, sizeof host, ACL_MEM_MALLOC_HUGE_FIRST);
    auto *numbers = static_cast<uint8_t *>(device);
    ACLRT_LAUNCH_KERNEL(number_blocks)(4, nullptr, numbers, 1);
    ACLRT_LAUNCH_KERNEL(number_blocks)(2, nullptr, device, 5);
    aclrtlaunch_number_blocks(4, nullptr, device, 5);
    twice<float><<<4, nullptr,  // blocks
                   nullptr>>>(
        numbers);
    const char *text = "not<<<a, launch>>>(at all)";
    aclrtMemcpy(host, sizeof host, device, sizeof host, ACL_MEMCPY_DEVICE_TO_HOST);
    std::printf("%s %g %g %g %g line %d\n", text, host[0], host[1], host[2], host[3], __LINE__);
    const auto run = [&](auto launch) {
        aclrtMemset(device, sizeof host, 0, sizeof host);
        launch();
        aclrtMemcpy(host, sizeof host, device, sizeof host, ACL_MEMCPY_DEVICE_TO_HOST);
        std::printf("%g %g\n", host[0], host[1]);
    };
    run([&] { mixed<<<2, nullptr, nullptr>>>(numbers); });
    run([&] { mixed_template<half, 3><<<2, nullptr, nullptr>>>(numbers); });
    run([&] { vectors<<<2, nullptr, nullptr>>>(numbers); });
    run([&] { cubes<<<2, nullptr, nullptr>>>(numbers); });
    aclrtFree(device);
    aclrtResetDevice(0);
    aclFinalize();
    return 0;
}
