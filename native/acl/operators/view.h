// A tensor as the engine sees it: strides by canonical axis, and the bytes it can reach.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/memory.h"
#include "runtime/objects.h"

namespace convgrad {

// For each canonical axis (n, c, d, h, w) the tensor's own axis; -1 is a unit axis that is not stored.
using AxisOrder = std::array<int, 5>;

struct View {
    const char* name = "";
    std::shared_ptr<Tensor> tensor;
    int dtype = 0;  // an enum cg_dtype
    int64_t item_bytes = 0;
    std::array<int64_t, 5> size{}, stride{};  // canonical axes; strides count elements
    int64_t elements = 0;
    int64_t origin = 0;  // bytes from the tensor's address to element (0, 0, 0, 0, 0)
    int64_t low = 0;     // bytes from the tensor's address to the first byte of the view; `bytes` follow
    int64_t bytes = 0;

    bool given() const { return tensor != nullptr; }
    // Whether two elements may share a byte: proved apart only when each stride steps over all smaller ones.
    bool may_overlap_itself() const;
};

// The shape is looked at only where there is a tensor. False when strides and offset reach further than 63 bits of
// bytes.
bool make_view(const char* name, std::shared_ptr<Tensor> tensor, const TensorShape* shape, const AxisOrder& order,
               View* view);

// Where the view's bytes are now. A status and a message when they are not device memory, or run out of their block.
int locate_view(const char* operator_name, const View& view, Span* span);

}  // namespace convgrad
