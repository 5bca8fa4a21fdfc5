/* ConvBackpropApi::Conv3DBackpropFilter: gradWeight of a 3-D convolution, tile by tile. */
#ifndef CONVGRAD_CONV3D_BP_FILTER_API_H
#define CONVGRAD_CONV3D_BP_FILTER_API_H

#include "convgrad_tile/object.h"

#ifndef CONVGRAD_TILING_STRUCT
#define CONVGRAD_TILING_STRUCT ::AscendC::tiling::Conv3DBackpropFilterTilingData
#endif

namespace ConvBackpropApi {

template <class INPUT, class WEIGHT_SIZE, class GRAD_OUTPUT, class GRAD_WEIGHT>
struct Conv3DBpFilterCfg : FilterTypeDemands<INPUT, WEIGHT_SIZE, GRAD_OUTPUT, GRAD_WEIGHT> {
    using SrcT = typename INPUT::Type;
    using DstT = typename GRAD_WEIGHT::Type;
    using L0cT = typename GetDstType<SrcT>::Type;
};

template <typename Intf, class Config>
struct Conv3DBpFilterImpl {};

template <class Config_, template <typename, class> class Impl>
struct Conv3DBpFilterIntf
    : private convgrad_tile::Object<TConv3DBpFilterTiling, uint64_t, typename Config_::SrcT, typename Config_::DstT,
                                    CGT_FILTER> {
private:
    using Base = convgrad_tile::Object<TConv3DBpFilterTiling, uint64_t, typename Config_::SrcT, typename Config_::DstT,
                                       CGT_FILTER>;
    using Where = convgrad_tile::Where;

public:
    using Config = Config_;
    using SrcT = typename Config::SrcT;
    using DstT = typename Config::DstT;
    using L0cT = typename Config::L0cT;
    using Base::ctx;

    Conv3DBpFilterIntf(Where where = {}) : Base(false, where) {}
    void Init(const TConv3DBpFilterTiling *__restrict tiling, Where where = {}) { this->init(tiling, where); }
    void SetInput(const AscendC::GlobalTensor<SrcT> &input, Where where = {}) { this->set_other(input, where); }
    void SetGradOutput(const AscendC::GlobalTensor<SrcT> &gradOutput, Where where = {}) {
        this->set_grad_output(gradOutput, where);
    }
    void SetSingleShape(uint64_t singleShapeM, uint64_t singleShapeN, uint64_t singleShapeK, Where where = {}) {
        const uint64_t area = ctx.tiling_ ? static_cast<uint64_t>(ctx.tiling_->hk) * ctx.tiling_->wk : 0;
        this->set_single_shape(singleShapeM, singleShapeN, singleShapeK, area ? singleShapeN / area : 0, where);
    }
    void SetStartPosition(uint32_t hoStartIdx, Where where = {}) { this->set_start(0, hoStartIdx, where); }
    template <bool sync = true>
    bool Iterate(bool enPartialSum = false, Where where = {}) {
        return this->iterate(enPartialSum, where);
    }
    template <bool sync = true>
    void GetTensorC(const AscendC::GlobalTensor<DstT> &output, uint8_t enAtomic = 1, bool enSequentialWrite = false,
                    Where where = {}) {
        this->get_tensor_c(output, enAtomic, enSequentialWrite, where);
    }
    void End(Where where = {}) { this->end(where); }

protected:
    using Base::set_planes; /* of the older spelling */
};

template <class INPUT, class WEIGHT_SIZE, class GRAD_OUTPUT, class GRAD_WEIGHT>
using Conv3DBackpropFilter =
    Conv3DBpFilterIntf<Conv3DBpFilterCfg<INPUT, WEIGHT_SIZE, GRAD_OUTPUT, GRAD_WEIGHT>, Conv3DBpFilterImpl>;

}  // namespace ConvBackpropApi

#endif
