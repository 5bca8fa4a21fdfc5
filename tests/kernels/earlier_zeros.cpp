// gradWeight zeroed before the launch that adds to it, as the argument says: "launch", by vector cores; "part", but for its
// end; "host", by a copy; "device", by aclrtMemset; "not". Sums are right where memory was zero.
#include "acl/acl.h"
#include "kernel_operator.h"
#include "lib/conv_backprop/conv3d_bp_filter_api.h"
#include "lib/conv_backprop/conv3d_bp_filter_tiling.h"
#include "tikicpulib.h"

#include <string>
#include <vector>

using namespace AscendC;
using Data = AscendC::tiling::Conv3DBackpropFilterTilingData;

__global__ __aicore__ __vector__ void zeros(GM_ADDR gradWeight, uint64_t count) {
    const uint64_t share = DivCeil(count, GetBlockNum()), from = share * GetBlockIdx();
    GlobalTensor<float> all;
    all.SetGlobalBuffer((__gm__ float *)gradWeight);
    GlobalTensor<float> mine = all[from];
    if (from < count) Fill<float>(mine, count - from < share ? count - from : share, 0.0f);
}

__global__ __aicore__ void sums(GM_ADDR input, GM_ADDR gradOutput, GM_ADDR gradWeight, GM_ADDR tiling) {
    using Packed = ConvBackpropApi::ConvType<TPosition::GM, ConvCommonApi::ConvFormat::NDC1HWC0, half>;
    using Sizes = ConvBackpropApi::ConvType<TPosition::GM, ConvCommonApi::ConvFormat::ND, int32_t>;
    using Weight = ConvBackpropApi::ConvType<TPosition::GM, ConvCommonApi::ConvFormat::FRACTAL_Z_3D, float>;
    GET_TILING_DATA(data, tiling);
    const auto &t = data.dwTiling;
    GlobalTensor<half> inputGm, gradOutputGm;
    GlobalTensor<float> gradWeightGm;
    inputGm.SetGlobalBuffer((__gm__ half *)input);
    gradOutputGm.SetGlobalBuffer((__gm__ half *)gradOutput);
    gradWeightGm.SetGlobalBuffer((__gm__ float *)gradWeight);
    ConvBackpropApi::Conv3DBackpropFilter<Packed, Sizes, Packed, Weight> object;
    object.Init(&data.dwTiling);
    object.SetSingleShape(t.cout, AlignUp(t.cin, 16) * t.hk * t.wk, uint64_t(t.ho) * t.wo);
    object.SetStartPosition(0);
    object.SetInput(inputGm);
    object.SetGradOutput(gradOutputGm);
    while (object.Iterate()) object.GetTensorC(gradWeightGm);
    object.End();
}

int main(int, char **arguments) {
    const std::string how = arguments[1];
    aclInit(nullptr), aclrtSetDevice(0);
    ConvBackpropApi::Conv3dBpFilterTiling tiling;
    tiling.SetWeightShape(16, 16, 1, 3, 3);
    tiling.SetInputShape(1, 16, 1, 6, 5);
    tiling.SetGradOutputShape(1, 16, 1, 4, 3);
    auto *data = static_cast<Data *>(GmAlloc(sizeof(Data)));
    if (tiling.GetTiling(*data) != 0) return 2;
    const size_t inputs = 6 * 5 * 16, outputs = 4 * 3 * 16, weights = 9 * 256;
    auto *input = static_cast<half *>(GmAlloc(inputs * sizeof(half)));
    auto *gradOutput = static_cast<half *>(GmAlloc(outputs * sizeof(half)));
    for (size_t at = 0; at < inputs; ++at) input[at] = half(1);
    for (size_t at = 0; at < outputs; ++at) gradOutput[at] = half(1);
    void *gradWeight = nullptr;
    aclrtMalloc(&gradWeight, weights * sizeof(float), ACL_MEM_MALLOC_HUGE_FIRST);
    std::vector<float> host(weights);
    const size_t bytes = weights * sizeof(float);
    if (how == "device") aclrtMemset(gradWeight, bytes, 0, bytes);
    if (how == "host") aclrtMemcpy(gradWeight, bytes, host.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE);
    if (how == "launch") ICPU_RUN_KF(zeros, 3, static_cast<uint8_t *>(gradWeight), weights);
    if (how == "part") ICPU_RUN_KF(zeros, 3, static_cast<uint8_t *>(gradWeight), weights - 43);
    auto as_bytes = [](auto *memory) { return reinterpret_cast<uint8_t *>(memory); };
    ICPU_RUN_KF(sums, 2, as_bytes(input), as_bytes(gradOutput), static_cast<uint8_t *>(gradWeight), as_bytes(data));
    aclrtMemcpy(host.data(), bytes, gradWeight, bytes, ACL_MEMCPY_DEVICE_TO_HOST);
    size_t right = 0;
    for (float sum : host) right += sum == 24;  // two cores add 4 x 3 ones
    std::printf("%zu of %zu\n", right, weights);
    for (void *memory : {(void *)data, (void *)input, (void *)gradOutput}) GmFree(memory);
    aclrtFree(gradWeight), aclFinalize();
    return 0;
}
