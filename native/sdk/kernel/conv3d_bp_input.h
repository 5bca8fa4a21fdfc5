/* Convolution3DBackprop::Conv3DBackpropInput: the spelling of operator kernels, over the same object. */
#ifndef CONVGRAD_CONV3D_BP_INPUT_H
#define CONVGRAD_CONV3D_BP_INPUT_H

#include "convgrad_tile/operator_spelling.h"
#include "lib/conv_backprop/conv3d_bp_input_api.h"

namespace Convolution3DBackprop {

using ConvBackpropApi::B2Condition;
using ConvBackpropApi::CONV3D_CFG_DEFAULT;
using ConvBackpropApi::Conv3dConfig;
using ConvBackpropApi::GetDstType;

enum class CubeFormat { NDC1HWC0, NDHWC, NCDHW, DHWCN, FRACTALZ_3D, ND };
constexpr ConvCommonApi::ConvFormat cgt_documented(CubeFormat format) {
    using Documented = ConvCommonApi::ConvFormat;
    constexpr Documented all[] = {Documented::NDC1HWC0, Documented::NDHWC,        Documented::NCDHW,
                                  Documented::DHWCN,    Documented::FRACTAL_Z_3D, Documented::ND};
    return all[static_cast<int>(format)];
}
template <AscendC::TPosition POSITION, CubeFormat FORMAT, typename T>
using ConvType = convgrad_tile::CubeType<POSITION, FORMAT, T>;

template <class W, class S, class G, class Y, const Conv3dConfig &CONFIG = CONV3D_CFG_DEFAULT>
using Conv3DBpInputCfg =
    ConvBackpropApi::Conv3DBpInputCfg<convgrad_tile::DocumentedType<W>, convgrad_tile::DocumentedType<S>,
                                      convgrad_tile::DocumentedType<G>, convgrad_tile::DocumentedType<Y>, CONFIG>;
template <class Config>
using CgtBase = convgrad_tile::OperatorSpelling<ConvBackpropApi::Conv3DBpInputIntf<Config, ConvBackpropApi::Conv3DBpInputImpl>,
                                                TConv3DBackpropInputTiling, 0>;

template <class W, class S, class G, class Y, const Conv3dConfig &CONFIG = CONV3D_CFG_DEFAULT>
struct Conv3DBackpropInput : CgtBase<Conv3DBpInputCfg<W, S, G, Y, CONFIG>> {
private:
    using Base = CgtBase<Conv3DBpInputCfg<W, S, G, Y, CONFIG>>;
    using Where = convgrad_tile::Where;

public:
    Conv3DBackpropInput(Where where = {}) : Base(where) {}
    using Base::SetWeight;
    /* A walk covers `planes` gradInput planes, the plane slowest. */
    void SetSingleShape(uint64_t singleShapeM, uint64_t singleShapeK, uint32_t singleShapeN, uint32_t planes, Where where = {}) {
        this->set_planes(planes, where);
        Base::SetSingleShape(singleShapeM, singleShapeK, singleShapeN, where);
    }
    void SetStartIdx(uint32_t curDinStartIdx, int32_t curHoStartIdx, Where where = {}) {
        this->SetStartPosition(curDinStartIdx, curHoStartIdx, where);
    }
};

}  // namespace Convolution3DBackprop

#endif
