/* The calls both kernel objects have, over the library's object. */
#ifndef CONVGRAD_TILE_OBJECT_H
#define CONVGRAD_TILE_OBJECT_H

#include "convgrad_tile/conv_types.h"
#include "kernel_operator.h"

namespace convgrad_tile {

template <class T>
constexpr int number_of() {
    return std::is_same<T, half>::value ? CGT_HALF : CGT_BFLOAT16;
}

/* What kernel code reads and sets; `Wide` is the integer of the fields that are 64 bits in the filter's context. */
template <class Record, class Wide>
struct Context {
    uint8_t isFirstIter_ = 0;
    uint8_t needComputeFlag_ = 1;
    const Record *tiling_ = nullptr;
    AscendC::TPipe pipe_;
    uint32_t curML0Idx_ = 0;
    Wide curNL0Idx_ = 0;
    uint32_t curDinIdx_ = 0;
    uint32_t baseUseM_ = 0;
    uint32_t baseUseN_ = 0;
    Wide singleShapeCin_ = 0;
};

template <class Record, class Wide, class SrcT, class DstT, int gradient>
class Object {
public:
    Context<Record, Wide> ctx;

    Object(bool ncdhw, Where where) : object_(cgt_make(gradient, number_of<SrcT>(), ncdhw, where)) {}
    Object(const Object &) = delete;
    Object &operator=(const Object &) = delete;
    ~Object() { cgt_drop(object_); }

protected:
    void init(const Record *tiling, Where where) {
        go_on(cgt_init(object_, &ctx.isFirstIter_, tiling, where));
        ctx.tiling_ = static_cast<const Record *>(cgt_record(object_));
    }
    void set_grad_output(const AscendC::GlobalTensor<SrcT> &tensor, Where where) {
        const cgt_view view = tensor.cgt_pointer();
        go_on(cgt_set_grad_output(object_, &ctx.isFirstIter_, &view, where));
    }
    void set_other(const AscendC::GlobalTensor<SrcT> &tensor, Where where) {
        const cgt_view view = tensor.cgt_pointer();
        go_on(cgt_set_other(object_, &ctx.isFirstIter_, &view, where));
    }
    void set_single_shape(uint64_t one, uint64_t two, uint64_t three, uint64_t channels, Where where) {
        go_on(cgt_set_single_shape(object_, &ctx.isFirstIter_, one, two, three, where));
        ctx.singleShapeCin_ = static_cast<Wide>(channels);
    }
    void set_planes(uint64_t planes, Where where) { go_on(cgt_set_planes(object_, &ctx.isFirstIter_, planes, where)); }
    void set_start(int64_t plane, int64_t row, Where where) {
        go_on(cgt_set_start(object_, &ctx.isFirstIter_, plane, row, where));
    }
    bool iterate(bool enPartialSum, Where where) {
        cgt_tile tile = {};
        int more = 0;
        go_on(cgt_iterate(object_, &ctx.isFirstIter_, enPartialSum, &tile, &more, where));
        if (!more) return false;
        ctx.curML0Idx_ = static_cast<uint32_t>(tile.i), ctx.curNL0Idx_ = static_cast<Wide>(tile.j);
        ctx.curDinIdx_ = static_cast<uint32_t>(tile.plane < 0 ? 0 : tile.plane);
        ctx.baseUseM_ = static_cast<uint32_t>(tile.rows), ctx.baseUseN_ = static_cast<uint32_t>(tile.columns);
        ctx.needComputeFlag_ = tile.computed != 0;
        return true;
    }
    void get_tensor_c(const AscendC::GlobalTensor<DstT> &output, uint8_t enAtomic, bool enSequentialWrite, Where where) {
        const cgt_view view = output.cgt_pointer();
        go_on(cgt_get_tensor_c(object_, &ctx.isFirstIter_, &view, enAtomic, enSequentialWrite, where));
    }
    void end(Where where) { go_on(cgt_end(object_, &ctx.isFirstIter_, where)); }

private:
    cgt_object *object_;
};

}  // namespace convgrad_tile

#endif
