// Launches in both other spellings: brackets of three (with a template, comments, several lines), and ACLRT_LAUNCH_KERNEL.
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

int main() {
    aclInit(nullptr);
    aclrtSetDevice(0);
    void *device = nullptr;
    float host[4] = {};
    aclrtMalloc(&device, sizeof host, ACL_MEM_MALLOC_HUGE_FIRST);
    auto *numbers = static_cast<uint8_t *>(device);
    ACLRT_LAUNCH_KERNEL(number_blocks)(4, nullptr, numbers, 5);
    twice<float><<<4, nullptr,  // blocks
                   nullptr>>>(
        numbers);
    const char *text = "not<<<a, launch>>>(at all)";
    aclrtMemcpy(host, sizeof host, device, sizeof host, ACL_MEMCPY_DEVICE_TO_HOST);
    std::printf("%s %g %g %g %g line %d\n", text, host[0], host[1], host[2], host[3], __LINE__);
    aclrtFree(device);
    aclrtResetDevice(0);
    aclFinalize();
    return 0;
}
