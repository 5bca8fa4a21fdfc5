/* GlobalTensor: a pointer into global memory that knows its bounds. */
#ifndef CONVGRAD_TILE_TENSOR_H
#define CONVGRAD_TILE_TENSOR_H

#include "convgrad_tile/core.h"
#include "convgrad_tile/enums.h"
#include "convgrad_tile/numbers.h"

namespace AscendC {

enum class CacheMode { CACHE_MODE_DISABLE = 0, CACHE_MODE_NORMAL = 1, CACHE_MODE_LAST = 2, CACHE_MODE_PERSISTENT = 4 };
enum class CacheRwMode { READ = 1, WRITE = 2, RW = 3 };

enum class DataFormat : uint8_t { ND = 0, NZ, NCHW, NC1HWC0, NHWC, NCDHW, NDC1HWC0, FRACTAL_Z_3D };
constexpr int K_MAX_SHAPE_DIM = 8;
/* What a kernel notes of a tensor for itself: nothing here reads it. */
struct ShapeInfo {
    uint8_t shapeDim = 0, originalShapeDim = 0;
    uint32_t shape[K_MAX_SHAPE_DIM] = {}, originalShape[K_MAX_SHAPE_DIM] = {};
    DataFormat dataFormat = DataFormat::ND;
    ShapeInfo() = default;
    ShapeInfo(uint8_t dim, const uint32_t sizes[], DataFormat format = DataFormat::ND) : ShapeInfo(dim, sizes, dim, sizes, format) {}
    ShapeInfo(uint8_t dim, const uint32_t sizes[], uint8_t originalDim, const uint32_t originalSizes[], DataFormat format)
        : shapeDim(dim), originalShapeDim(originalDim), dataFormat(format) {
        for (int at = 0; at < dim && at < K_MAX_SHAPE_DIM; ++at) shape[at] = sizes[at];
        for (int at = 0; at < originalDim && at < K_MAX_SHAPE_DIM; ++at) originalShape[at] = originalSizes[at];
    }
};

template <typename T>
class GlobalTensor {
public:
    using PrimType = T;

    void SetGlobalBuffer(T *buffer, uint64_t size, convgrad_tile::Where where = {}) {
        cgt_known(buffer, where);
        base_ = buffer, size_ = size, offset_ = 0;
    }
    void SetGlobalBuffer(T *buffer, convgrad_tile::Where where = {}) { SetGlobalBuffer(buffer, 0, where); }
    const T *GetPhyAddr() const { return base_ + offset_; }
    T *GetPhyAddr(const uint64_t offset) const { return base_ + offset_ + static_cast<int64_t>(offset); }
    T GetValue(const uint64_t offset, convgrad_tile::Where where = {}) const {
        return touch(offset, CGT_READ, "GetValue", where) ? *GetPhyAddr(offset) : T();
    }
    void SetValue(const uint64_t offset, T value, convgrad_tile::Where where = {}) {
        const T zero = T();
        const bool is_zero = std::memcmp(static_cast<const void *>(&value), static_cast<const void *>(&zero), sizeof(T)) == 0;
        if (touch(offset, is_zero ? CGT_ZERO : CGT_STORE, "SetValue", where)) *GetPhyAddr(offset) = value;
    }
    T &operator()(const uint64_t offset, convgrad_tile::Where where = {}) const {
        static thread_local T nowhere;
        return touch(offset, CGT_READ, "operator()", where) ? *GetPhyAddr(offset) : nowhere;
    }
    uint64_t GetSize() const { return size_; }
    GlobalTensor operator[](const uint64_t offset) const {
        GlobalTensor moved = *this;
        moved.offset_ += static_cast<int64_t>(offset);
        return moved;
    }
    template <CacheRwMode rwMode = CacheRwMode::RW>
    void SetL2CacheHint(CacheMode) {}
    void SetShapeInfo(const ShapeInfo &shapeInfo) { shape_ = shapeInfo; }
    ShapeInfo GetShapeInfo() const { return shape_; }

    /* For the headers: what the library needs to know. */
    cgt_view cgt_pointer() const {
        return {const_cast<void *>(static_cast<const void *>(base_)), size_, offset_, static_cast<int32_t>(sizeof(T))};
    }

private:
    bool touch(uint64_t offset, int doing, const char *call, convgrad_tile::Where where) const {
        const cgt_view view = cgt_pointer();
        const int64_t start = offset > INT64_MAX ? INT64_MAX : static_cast<int64_t>(offset);
        return cgt_touch(&view, start, 1, doing, call, where) == CGT_OK;
    }
    T *base_ = nullptr;
    uint64_t size_ = 0;
    int64_t offset_ = 0;
    ShapeInfo shape_;
};

}  // namespace AscendC

#endif
