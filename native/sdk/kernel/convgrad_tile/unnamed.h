/* Vector instructions that these headers do not have: using one is a compile error that says so. */
#ifndef CONVGRAD_TILE_UNNAMED_H
#define CONVGRAD_TILE_UNNAMED_H

#include "convgrad_tile/local.h"

namespace convgrad_tile {
template <class...>
struct Never {
    static constexpr bool value = false;
};
}  // namespace convgrad_tile

namespace AscendC {

/* What these instructions take, so that the error names the instruction. */
enum class RoundMode { CAST_NONE = 0, CAST_RINT, CAST_FLOOR, CAST_CEIL, CAST_ROUND, CAST_TRUNC, CAST_ODD };
enum class CMPMODE { LT = 0, GT, EQ, LE, GE, NE };
enum class SELMODE { VSEL_CMPMASK_SPR = 0, VSEL_TENSOR_SCALAR_MODE, VSEL_TENSOR_TENSOR_MODE };

#define CGT_UNNAMED(name)                                                                                     \
    template <class... Template, class T, class... Arguments>                                                 \
    void name(const LocalTensor<T> &, Arguments &&...) {                                                      \
        static_assert(::convgrad_tile::Never<Template..., T>::value,                                          \
                      #name " is a vector instruction beyond tier 3 of kernel_operator.h: docs/ascendc_cpp.md, " \
                            "\"What of kernel_operator.h is here\"");                                         \
    }
CGT_UNNAMED(Abs)
CGT_UNNAMED(Add)
CGT_UNNAMED(AddDeqRelu)
CGT_UNNAMED(AddRelu)
CGT_UNNAMED(Adds)
CGT_UNNAMED(And)
CGT_UNNAMED(Axpy)
CGT_UNNAMED(BlockReduceMax)
CGT_UNNAMED(BlockReduceMin)
CGT_UNNAMED(BlockReduceSum)
CGT_UNNAMED(Brcb)
CGT_UNNAMED(BroadCastVecToMM)
CGT_UNNAMED(Broadcast)
CGT_UNNAMED(Cast)
CGT_UNNAMED(Compare)
CGT_UNNAMED(CompareScalar)
CGT_UNNAMED(Concat)
CGT_UNNAMED(Conv2D)
CGT_UNNAMED(Copy)
CGT_UNNAMED(CreateVecIndex)
CGT_UNNAMED(Div)
CGT_UNNAMED(Exp)
CGT_UNNAMED(Extract)
CGT_UNNAMED(FusedMulAdd)
CGT_UNNAMED(FusedMulAddRelu)
CGT_UNNAMED(Gather)
CGT_UNNAMED(GatherMask)
CGT_UNNAMED(Gatherb)
CGT_UNNAMED(Gemm)
CGT_UNNAMED(LeakyRelu)
CGT_UNNAMED(Ln)
CGT_UNNAMED(LoadData)
CGT_UNNAMED(LoadDataWithTranspose)
CGT_UNNAMED(LoadImageToLocal)
CGT_UNNAMED(Max)
CGT_UNNAMED(Maxs)
CGT_UNNAMED(Min)
CGT_UNNAMED(Mins)
CGT_UNNAMED(MrgSort)
CGT_UNNAMED(MrgSort4)
CGT_UNNAMED(Mul)
CGT_UNNAMED(MulAddDst)
CGT_UNNAMED(MulCast)
CGT_UNNAMED(Muls)
CGT_UNNAMED(Not)
CGT_UNNAMED(Or)
CGT_UNNAMED(PairReduceSum)
CGT_UNNAMED(Reciprocal)
CGT_UNNAMED(ReduceMax)
CGT_UNNAMED(ReduceMin)
CGT_UNNAMED(ReduceSum)
CGT_UNNAMED(Relu)
CGT_UNNAMED(RepeatReduceSum)
CGT_UNNAMED(RpSort16)
CGT_UNNAMED(Rsqrt)
CGT_UNNAMED(Scatter)
CGT_UNNAMED(Select)
CGT_UNNAMED(ShiftLeft)
CGT_UNNAMED(ShiftRight)
CGT_UNNAMED(Sort)
CGT_UNNAMED(Sort32)
CGT_UNNAMED(Sqrt)
CGT_UNNAMED(Sub)
CGT_UNNAMED(SubRelu)
CGT_UNNAMED(Transpose)
CGT_UNNAMED(WholeReduceMax)
CGT_UNNAMED(WholeReduceMin)
CGT_UNNAMED(WholeReduceSum)
#undef CGT_UNNAMED

}  // namespace AscendC

#endif
