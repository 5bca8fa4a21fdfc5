// The host classes as operators use them, in one file with a kernel: refusals of setters, records of the program's own,
// platforms by name. Prints what it sees.
#include "kernel_operator.h"
#include "lib/conv_backprop/conv3d_bp_input_api.h"
#include "register/tilingdata_base.h"
#include "tikicpulib.h"
#include "tiling/tiling_api.h"

#include <cstdio>
#include <initializer_list>

namespace optiling {
BEGIN_TILING_DATA_DEF(InnerTiling)
TILING_DATA_FIELD_DEF(uint8_t, small);
TILING_DATA_FIELD_DEF(uint64_t, large);
END_TILING_DATA_DEF;
BEGIN_TILING_DATA_DEF(OperatorTiling)
TILING_DATA_FIELD_DEF(uint32_t, blocks);
TILING_DATA_FIELD_DEF_ARR(int16_t, 3, shares);
TILING_DATA_FIELD_DEF_STRUCT(InnerTiling, inner);
TILING_DATA_FIELD_DEF_STRUCT(TConv3DBackpropInputTiling, conv3DDxTiling);
TILING_DATA_FIELD_DEF(float, scale);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(Operator, OperatorTiling)
}  // namespace optiling

extern "C" __global__ __aicore__ void read_back(GM_ADDR result, GM_ADDR tiling) {
    GET_TILING_DATA_WITH_STRUCT(optiling::OperatorTiling, data, tiling);
    AscendC::GlobalTensor<float> gm;
    gm.SetGlobalBuffer(reinterpret_cast<__gm__ float *>(result));
    gm.SetValue(0, float(data.blocks) + float(data.shares[2]) + float(data.inner.large) + data.scale);
    gm.SetValue(1, float(data.conv3DDxTiling.hi));
}

int main() {
    using namespace ConvBackpropApi;
    Conv3DBpInputTiling tiling;
    auto told = [](const char *what, bool answer) { std::printf("%s %d\n", what, answer); };
    told("weight", tiling.SetWeightShape(24, 20, 1, 3, 3));
    told("the same", tiling.SetWeightShape(24, 20, 1, 3, 3));
    told("another cin", tiling.SetWeightShape(24, 21, 1, 3, 3));
    told("another cout", tiling.SetWeightShape(25, 20, 1, 3, 3));
    told("output padding", tiling.SetOutputPadding(0, 0, 0));
    told("gradOutput", tiling.SetGradOutputShape(1, 24, 2, 6, 5));
    told("another cout", tiling.SetGradOutputShape(1, 23, 2, 6, 5));
    told("input", tiling.SetInputShape(1, 20, 2, 6, 5));
    told("another batch", tiling.SetInputShape(2, 20, 2, 6, 5));
    told("another cin", tiling.SetInputShape(1, 19, 2, 6, 5));
    told("output padding after the input shape", tiling.SetOutputPadding(0, 1, 1));
    tiling.SetPadding(0, 0, 1, 1, 1, 1);
    optiling::Conv3DBackpropInputTilingData record;
    AscendC::tiling::Conv3DBackpropInputTilingData plain;
    told("GetTiling", tiling.GetTiling(record) == 0);
    told("into the plain record", tiling.GetTiling(plain) == 0);
    told("equal bytes", std::memcmp(&record, &plain, sizeof plain) == 0 && record.GetDataSize() == 280);
    tiling.SetStride(1, 64, 1);
    const int64_t code = tiling.GetTiling(plain);
    std::printf("refused %d: %s\n", int(code), convgrad_tile_reason());
    told("left alone", std::memcmp(&record, &plain, sizeof plain) == 0);

    optiling::OperatorTiling mine;
    const int16_t shares[3] = {1, 2, 30};
    mine.set_blocks(4), mine.set_shares(shares), mine.set_scale(0.5f);
    mine.inner.set_large(500), mine.inner.set_small(7);
    mine.conv3DDxTiling = record.conv3DDxTiling;
    uint8_t *tilingGm = static_cast<uint8_t *>(AscendC::GmAlloc(mine.GetDataSize()));
    float *result = static_cast<float *>(AscendC::GmAlloc(2 * sizeof(float)));
    mine.SaveToBuffer(tilingGm, mine.GetDataSize());
    ICPU_RUN_KF(read_back, 1, reinterpret_cast<uint8_t *>(result), tilingGm);
    std::printf("own record: %zu bytes, scale %g, baseM %s, kernel %g %g\n", mine.GetDataSize(), mine.get_scale(),
                mine.conv3DDxTiling.get_baseM() == record.conv3DDxTiling.get_baseM() ? "the same" : "another", result[0], result[1]);
    AscendC::GmFree(tilingGm);
    AscendC::GmFree(result);

    using platform_ascendc::CoreMemType;
    using platform_ascendc::PlatformAscendCManager;
    std::printf("unknown %d\n", PlatformAscendCManager::GetInstance("Ascend999") == nullptr);
    platform_ascendc::PlatformAscendC *platform = PlatformAscendCManager::GetInstance("Ascend910_9391");
    std::printf("platform %d cores %u %u, the same %d, stores", platform->GetSocVersion() == platform_ascendc::SocVersion::ASCEND910_93,
                platform->GetCoreNumAic(), platform->GetCoreNumAiv(), platform == PlatformAscendCManager::GetInstance("Ascend910B1"));
    for (const CoreMemType store : {CoreMemType::L0_A, CoreMemType::L0_C, CoreMemType::L1, CoreMemType::UB, CoreMemType::BT}) {
        uint64_t bytes = 0;
        platform->GetCoreMemSize(store, bytes);
        std::printf(" %llu", static_cast<unsigned long long>(bytes));
    }
    Conv3dBpFilterTiling filter(*platform);
    filter.SetWeightShape(1, 1, 1, 1, 1), filter.SetWeightShape(24, 20, 1, 3, 3);
    filter.SetInputShape(1, 20, 2, 6, 5), filter.SetGradOutputShape(1, 24, 2, 6, 5), filter.SetPadding(0, 0, 1, 1, 1, 1);
    optiling::Conv3DBackpropFilterTilingData weights;
    told("\nfilter", filter.GetTiling(weights) == 0);
    std::printf("cout %u, bytes %zu\n", weights.dwTiling.get_cout(), weights.GetDataSize());
    return 0;
}
