/* Convolution3DBackprop::Conv3DBackpropInput: the spelling of operator kernels, over the same object. */
#ifndef CONVGRAD_CONV3D_BP_INPUT_H
#define CONVGRAD_CONV3D_BP_INPUT_H

#include "lib/conv_backprop/conv3d_bp_input_api.h"

namespace Convolution3DBackprop {

enum class CubeFormat { NDC1HWC0, NDHWC, NCDHW, DHWCN, FRACTALZ_3D, ND };

template <AscendC::TPosition POSITION, CubeFormat FORMAT, typename T>
struct ConvType {
    static constexpr AscendC::TPosition pos = POSITION;
    static constexpr CubeFormat format = FORMAT;
    using Type = T;
};

using ConvBackpropApi::B2Condition;
using ConvBackpropApi::CONV3D_CFG_DEFAULT;
using ConvBackpropApi::Conv3dConfig;
using ConvBackpropApi::GetDstType;

/* The type parameter of the documented object that means the same. */
constexpr ConvCommonApi::ConvFormat cgt_format(CubeFormat format) {
    return format == CubeFormat::NDC1HWC0      ? ConvCommonApi::ConvFormat::NDC1HWC0
           : format == CubeFormat::NDHWC       ? ConvCommonApi::ConvFormat::NDHWC
           : format == CubeFormat::NCDHW       ? ConvCommonApi::ConvFormat::NCDHW
           : format == CubeFormat::DHWCN       ? ConvCommonApi::ConvFormat::DHWCN
           : format == CubeFormat::FRACTALZ_3D ? ConvCommonApi::ConvFormat::FRACTAL_Z_3D
                                               : ConvCommonApi::ConvFormat::ND;
}
template <class TYPE>
using CgtType = ConvBackpropApi::ConvType<TYPE::pos, cgt_format(TYPE::format), typename TYPE::Type>;

template <class W, class S, class G, class Y, const Conv3dConfig &CONFIG = CONV3D_CFG_DEFAULT>
using Conv3DBpInputCfg = ConvBackpropApi::Conv3DBpInputCfg<CgtType<W>, CgtType<S>, CgtType<G>, CgtType<Y>, CONFIG>;

template <class W, class S, class G, class Y, const Conv3dConfig &CONFIG = CONV3D_CFG_DEFAULT>
struct Conv3DBackpropInput : private ConvBackpropApi::Conv3DBpInputIntf<Conv3DBpInputCfg<W, S, G, Y, CONFIG>,
                                                                        ConvBackpropApi::Conv3DBpInputImpl> {
private:
    using Base =
        ConvBackpropApi::Conv3DBpInputIntf<Conv3DBpInputCfg<W, S, G, Y, CONFIG>, ConvBackpropApi::Conv3DBpInputImpl>;
    using Where = convgrad_tile::Where;

public:
    using Config = typename Base::Config;
    using SrcT = typename Base::SrcT;
    using DstT = typename Base::DstT;
    using L0cT = typename Base::L0cT;
    using Base::ctx;
    using Base::End;
    using Base::GetTensorC;
    using Base::Iterate;
    using Base::SetWeight;

    Conv3DBackpropInput(Where where = {}) : Base(where) {}
    /* Any record that has the 66 fields by name. */
    template <class Record>
    void Init(const Record *__restrict tiling, Where where = {}) {
        TConv3DBackpropInputTiling record;
        if (tiling) {
#define CGT_COPY(name) record.name = static_cast<decltype(record.name)>(tiling->name);
            CGT_INPUT_FIELDS(CGT_COPY, CGT_COPY, CGT_COPY)
#undef CGT_COPY
        }
        Base::Init(tiling ? &record : nullptr, where);
    }
    void SetOutBackprop(const AscendC::GlobalTensor<SrcT> &outBackprop, Where where = {}) { this->SetGradOutput(outBackprop, where); }
    /* A walk covers `planes` gradInput planes, the plane slowest. */
    void SetSingleShape(uint64_t singleShapeM, uint64_t singleShapeK, uint32_t singleShapeN, uint32_t planes, Where where = {}) {
        this->set_planes(planes, where);
        Base::SetSingleShape(singleShapeM, singleShapeK, singleShapeN, where);
    }
    void SetStartIdx(uint32_t curDinStartIdx, int32_t curHoStartIdx, Where where = {}) {
        this->SetStartPosition(curDinStartIdx, curHoStartIdx, where);
    }
    template <bool sync = true>
    void IterateAll(const AscendC::GlobalTensor<DstT> &output, uint8_t enAtomic = 0, Where where = {}) {
        while (this->template Iterate<sync>(false, where)) this->template GetTensorC<sync>(output, enAtomic, false, where);
        ctx.isFirstIter_ = true;
    }
};

}  // namespace Convolution3DBackprop

#endif
