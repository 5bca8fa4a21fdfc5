/* ConvolutionBackprop::Conv3DBackpropFilter: the spelling of operator kernels, over the same object. */
#ifndef CONVGRAD_CONV3D_BP_FILTER_H
#define CONVGRAD_CONV3D_BP_FILTER_H

#include "convgrad_tile/operator_spelling.h"
#include "lib/conv_backprop/conv3d_bp_filter_api.h"

namespace ConvolutionBackprop {

using ConvBackpropApi::GetDstType;

enum class CubeFormat { NDC1HWC0, NCDHW, FRACTAL_Z_3D, ND };
constexpr ConvCommonApi::ConvFormat cgt_documented(CubeFormat format) {
    using Documented = ConvCommonApi::ConvFormat;
    constexpr Documented all[] = {Documented::NDC1HWC0, Documented::NCDHW, Documented::FRACTAL_Z_3D, Documented::ND};
    return all[static_cast<int>(format)];
}
template <AscendC::TPosition POSITION, CubeFormat FORMAT, typename T>
using ConvType = convgrad_tile::CubeType<POSITION, FORMAT, T>;

template <class X, class S, class G, class Y>
using Conv3DBpFilterCfg =
    ConvBackpropApi::Conv3DBpFilterCfg<convgrad_tile::DocumentedType<X>, convgrad_tile::DocumentedType<S>,
                                       convgrad_tile::DocumentedType<G>, convgrad_tile::DocumentedType<Y>>;
template <class Config>
using CgtBase = convgrad_tile::OperatorSpelling<ConvBackpropApi::Conv3DBpFilterIntf<Config, ConvBackpropApi::Conv3DBpFilterImpl>,
                                                TConv3DBpFilterTiling, 1>;

template <class X, class S, class G, class Y>
struct Conv3DBackpropFilter : CgtBase<Conv3DBpFilterCfg<X, S, G, Y>> {
private:
    using Base = CgtBase<Conv3DBpFilterCfg<X, S, G, Y>>;
    using Where = convgrad_tile::Where;

public:
    using typename Base::SrcT;
    Conv3DBackpropFilter(Where where = {}) : Base(where) {}
    void SetFmap(const AscendC::GlobalTensor<SrcT> &fmap, Where where = {}) { this->SetInput(fmap, where); }
    /* N may run on into the next window planes when dilationD is 1. */
    void SetSingleShape(uint64_t singleShapeM, uint64_t singleShapeN, uint64_t singleShapeK, uint32_t hoStartIdx, Where where = {}) {
        this->set_planes(this->ctx.tiling_ ? this->ctx.tiling_->dk : 1, where);
        Base::SetSingleShape(singleShapeM, singleShapeN, singleShapeK, where);
        this->SetStartPosition(hoStartIdx, where);
    }
};

}  // namespace ConvolutionBackprop

#endif
