// A cube core and its two vector cores tied by flags instead of a meeting: the vector cores zero a float each, the cube core
// adds to both. The argument leaves something out: "no_set" a vector core's flag, "no_wait" the cube core's wait.
#include "kernel_operator.h"
#include "tikicpulib.h"

using namespace AscendC;

extern "C" __global__ __aicore__ void tied(GM_ADDR numbers, char leftOut) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    GlobalTensor<float> gm;
    gm.SetGlobalBuffer((__gm__ float *)numbers);
    if ASCEND_IS_AIV {
        GlobalTensor<float> mine = gm[GetBlockIdx()];
        Fill<float>(mine, 1, 1.0f);
        PipeBarrier<PIPE_ALL>();
        if (leftOut != 's' || GetSubBlockIdx() == 0) CrossCoreSetFlag<2, PIPE_MTE3>(3);
        return;
    }
    if (leftOut != 'w') CrossCoreWaitFlag(3);
    for (int64_t at = 2 * GetBlockIdx(); at < 2 * GetBlockIdx() + 2; ++at) gm.SetValue(at, gm.GetValue(at) + 10.0f);
}

int main(int count, char **arguments) {
    auto *numbers = static_cast<float *>(GmAlloc(4 * sizeof(float)));
    const char leftOut = count > 1 ? arguments[1][0] : 'n';
    ICPU_RUN_KF(tied, 2, reinterpret_cast<uint8_t *>(numbers), leftOut);
    std::printf("%g %g %g %g\n", numbers[0], numbers[1], numbers[2], numbers[3]);
    GmFree(numbers);
    return 0;
}
