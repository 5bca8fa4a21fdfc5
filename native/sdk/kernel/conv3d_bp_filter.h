/* ConvolutionBackprop::Conv3DBackpropFilter: the spelling of operator kernels, over the same object. */
#ifndef CONVGRAD_CONV3D_BP_FILTER_H
#define CONVGRAD_CONV3D_BP_FILTER_H

#include "lib/conv_backprop/conv3d_bp_filter_api.h"

namespace ConvolutionBackprop {

enum class CubeFormat { NDC1HWC0, NCDHW, FRACTAL_Z_3D, ND };

template <AscendC::TPosition POSITION, CubeFormat FORMAT, typename T>
struct ConvType {
    static constexpr AscendC::TPosition pos = POSITION;
    static constexpr CubeFormat format = FORMAT;
    using Type = T;
};

using ConvBackpropApi::GetDstType;

/* The type parameter of the documented object that means the same. */
constexpr ConvCommonApi::ConvFormat cgt_format(CubeFormat format) {
    return format == CubeFormat::NDC1HWC0       ? ConvCommonApi::ConvFormat::NDC1HWC0
           : format == CubeFormat::NCDHW        ? ConvCommonApi::ConvFormat::NCDHW
           : format == CubeFormat::FRACTAL_Z_3D ? ConvCommonApi::ConvFormat::FRACTAL_Z_3D
                                                : ConvCommonApi::ConvFormat::ND;
}
template <class TYPE>
using CgtType = ConvBackpropApi::ConvType<TYPE::pos, cgt_format(TYPE::format), typename TYPE::Type>;

template <class X, class S, class G, class Y>
using Conv3DBpFilterCfg = ConvBackpropApi::Conv3DBpFilterCfg<CgtType<X>, CgtType<S>, CgtType<G>, CgtType<Y>>;

template <class X, class S, class G, class Y>
struct Conv3DBackpropFilter
    : private ConvBackpropApi::Conv3DBpFilterIntf<Conv3DBpFilterCfg<X, S, G, Y>, ConvBackpropApi::Conv3DBpFilterImpl> {
private:
    using Base = ConvBackpropApi::Conv3DBpFilterIntf<Conv3DBpFilterCfg<X, S, G, Y>, ConvBackpropApi::Conv3DBpFilterImpl>;
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

    Conv3DBackpropFilter(Where where = {}) : Base(where) {}
    /* Any record that has the 52 fields by name. */
    template <class Record>
    void Init(const Record *__restrict tiling, Where where = {}) {
        TConv3DBpFilterTiling record;
        if (tiling) {
#define CGT_COPY(name) record.name = static_cast<decltype(record.name)>(tiling->name);
            CGT_FILTER_FIELDS(CGT_COPY, CGT_COPY, CGT_COPY)
#undef CGT_COPY
        }
        Base::Init(tiling ? &record : nullptr, where);
    }
    void SetFmap(const AscendC::GlobalTensor<SrcT> &fmap, Where where = {}) { this->SetInput(fmap, where); }
    void SetOutBackprop(const AscendC::GlobalTensor<SrcT> &outBackprop, Where where = {}) { this->SetGradOutput(outBackprop, where); }
    /* N may run on into the next window planes when dilationD is 1. */
    void SetSingleShape(uint64_t singleShapeM, uint64_t singleShapeN, uint64_t singleShapeK, uint32_t hoStartIdx, Where where = {}) {
        this->set_planes(ctx.tiling_ ? ctx.tiling_->dk : 1, where);
        Base::SetSingleShape(singleShapeM, singleShapeN, singleShapeK, where);
        this->SetStartPosition(hoStartIdx, where);
    }
    template <bool sync = true>
    void IterateAll(const AscendC::GlobalTensor<DstT> &output, uint8_t enAtomic = 1, Where where = {}) {
        while (this->template Iterate<sync>(false, where)) this->template GetTensorC<sync>(output, enAtomic, false, where);
        ctx.isFirstIter_ = true;
    }
};

}  // namespace ConvolutionBackprop

#endif
