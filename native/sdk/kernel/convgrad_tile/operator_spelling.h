/* What both objects have in the spelling of operator kernels: conv3d_bp_input.h, conv3d_bp_filter.h. */
#ifndef CONVGRAD_TILE_OPERATOR_SPELLING_H
#define CONVGRAD_TILE_OPERATOR_SPELLING_H

#include "convgrad_tile/object.h"

namespace convgrad_tile {

/* A type parameter; FORMAT is a CubeFormat, of which each object has its own. */
template <AscendC::TPosition POSITION, auto FORMAT, typename T>
struct CubeType {
    static constexpr AscendC::TPosition pos = POSITION;
    static constexpr auto format = FORMAT;
    using Type = T;
};
/* The type parameter of the documented object that means the same. */
template <class TYPE>
using DocumentedType = ConvBackpropApi::ConvType<TYPE::pos, cgt_documented(TYPE::format), typename TYPE::Type>;

/* From any record that has the fields by name. */
template <class Given>
void copy_fields(TConv3DBackpropInputTiling &record, const Given &given) {
#define CGT_COPY(name) record.name = static_cast<decltype(record.name)>(given.name);
    CGT_INPUT_FIELDS(CGT_COPY, CGT_COPY, CGT_COPY)
}
template <class Given>
void copy_fields(TConv3DBpFilterTiling &record, const Given &given) {
    CGT_FILTER_FIELDS(CGT_COPY, CGT_COPY, CGT_COPY)
#undef CGT_COPY
}

template <class Base, class Record, uint8_t ATOMIC>
struct OperatorSpelling : protected Base {
    using typename Base::Config;
    using typename Base::DstT;
    using typename Base::L0cT;
    using typename Base::SrcT;
    using Base::ctx;
    using Base::End;
    using Base::GetTensorC;
    using Base::Iterate;

    OperatorSpelling(Where where) : Base(where) {}
    template <class Given>
    void Init(const Given *__restrict tiling, Where where = {}) {
        Record record;
        if (tiling) copy_fields(record, *tiling);
        Base::Init(tiling ? &record : nullptr, where);
    }
    void SetOutBackprop(const AscendC::GlobalTensor<SrcT> &outBackprop, Where where = {}) { this->SetGradOutput(outBackprop, where); }
    template <bool sync = true>
    void IterateAll(const AscendC::GlobalTensor<DstT> &output, uint8_t enAtomic = ATOMIC, Where where = {}) {
        while (this->template Iterate<sync>(false, where)) this->template GetTensorC<sync>(output, enAtomic, false, where);
        ctx.isFirstIter_ = true;
    }
};

}  // namespace convgrad_tile

#endif
