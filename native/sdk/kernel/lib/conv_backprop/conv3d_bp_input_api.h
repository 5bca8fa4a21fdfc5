/* ConvBackpropApi::Conv3DBackpropInput: gradInput of a 3-D convolution, tile by tile. */
#ifndef CONVGRAD_CONV3D_BP_INPUT_API_H
#define CONVGRAD_CONV3D_BP_INPUT_API_H

#include "convgrad_tile/object.h"

#ifndef CONVGRAD_TILING_STRUCT
#define CONVGRAD_TILING_STRUCT ::AscendC::tiling::Conv3DBackpropInputTilingData
#endif

namespace ConvBackpropApi {

template <class WEIGHT, class INPUT_SIZE, class GRAD_OUTPUT, class GRAD_INPUT,
          const Conv3dConfig &CONFIG = CONV3D_CFG_DEFAULT>
struct Conv3DBpInputCfg : InputTypeDemands<WEIGHT, INPUT_SIZE, GRAD_OUTPUT, GRAD_INPUT> {
    static_assert(!CONFIG.enableKernelSplit, "enableKernelSplit is not supported");
    using SrcT = typename WEIGHT::Type;
    using DstT = typename GRAD_INPUT::Type;
    using L0cT = typename GetDstType<SrcT>::Type;
    static constexpr bool ncdhw = GRAD_INPUT::format == ConvCommonApi::ConvFormat::NCDHW;
    static constexpr Conv3dConfig conv3dConfig_ = CONFIG;
};

template <typename Intf, class Config>
struct Conv3DBpInputImpl {};

template <class Config_, template <typename, class> class Impl>
struct Conv3DBpInputIntf
    : private convgrad_tile::Object<TConv3DBackpropInputTiling, uint32_t, typename Config_::SrcT, typename Config_::DstT,
                                    CGT_INPUT> {
private:
    using Base = convgrad_tile::Object<TConv3DBackpropInputTiling, uint32_t, typename Config_::SrcT,
                                       typename Config_::DstT, CGT_INPUT>;
    using Where = convgrad_tile::Where;

public:
    using Config = Config_;
    using SrcT = typename Config::SrcT;
    using DstT = typename Config::DstT;
    using L0cT = typename Config::L0cT;
    using Base::ctx;

    Conv3DBpInputIntf(Where where = {}) : Base(Config::ncdhw, where) {}
    void Init(const TConv3DBackpropInputTiling *__restrict tiling, Where where = {}) { this->init(tiling, where); }
    void SetWeight(const AscendC::GlobalTensor<SrcT> &weight, Where where = {}) { this->set_other(weight, where); }
    void SetGradOutput(const AscendC::GlobalTensor<SrcT> &gradOutput, Where where = {}) {
        this->set_grad_output(gradOutput, where);
    }
    void SetSingleShape(uint64_t singleShapeM, uint64_t singleShapeK, uint32_t singleShapeN, Where where = {}) {
        this->set_single_shape(singleShapeM, singleShapeK, singleShapeN, singleShapeN, where);
    }
    void SetStartPosition(uint32_t dinStartIdx, int32_t hoStartIdx, Where where = {}) {
        this->set_start(dinStartIdx, hoStartIdx, where);
    }
    template <bool sync = true>
    bool Iterate(bool enPartialSum = false, Where where = {}) {
        return this->iterate(enPartialSum, where);
    }
    template <bool sync = true>
    void GetTensorC(const AscendC::GlobalTensor<DstT> &output, uint8_t enAtomic = 0, bool enSequentialWrite = false,
                    Where where = {}) {
        this->get_tensor_c(output, enAtomic, enSequentialWrite, where);
    }
    void End(Where where = {}) { this->end(where); }

protected:
    using Base::set_planes; /* of the older spelling */
};

template <class WEIGHT, class INPUT_SIZE, class GRAD_OUTPUT, class GRAD_INPUT>
using Conv3DBackpropInput =
    Conv3DBpInputIntf<Conv3DBpInputCfg<WEIGHT, INPUT_SIZE, GRAD_OUTPUT, GRAD_INPUT, CONV3D_CFG_DEFAULT>, Conv3DBpInputImpl>;

}  // namespace ConvBackpropApi

#endif
