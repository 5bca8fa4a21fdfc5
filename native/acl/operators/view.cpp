#include "operators/view.h"

#include <utility>

#include "aclnn/opdev/op_errno.h"
#include "convgrad.h"
#include "runtime/errors.h"
#include "runtime/strict.h"

namespace convgrad {
namespace {

#include "../../generated/acl_dtypes.inc"

using Wide = __int128;
constexpr Wide kFarthest = INT64_MAX;

const AclDtype* find_dtype(int acl_code) {
    for (const AclDtype& row : kAclDtypes)
        if (row.acl_code == acl_code) return &row;
    return nullptr;
}

int refuse(const char* operator_name, const View& view, const char* problem, const Span& span) {
    const unsigned long long block = span.block ? span.block->number : 0;
    const size_t asked = span.block ? span.block->asked : 0;
    if (strict::enabled()) {
        if (span.block)
            strict::report("%s: %s %s (device block #%llu, %zu bytes)", operator_name, view.name, problem, block,
                           asked);
        else strict::report("%s: %s %s", operator_name, view.name, problem);
    }
    return fail(ACLNN_ERR_RUNTIME_ERROR, "%s %s", view.name, problem);
}

}  // namespace

bool View::may_overlap_itself() const { return cg_may_overlap_itself(5, size.data(), stride.data(), 1) != 0; }

bool make_view(const char* name, std::shared_ptr<Tensor> tensor, const TensorShape* shape, const AxisOrder& order,
               View* view) {
    view->name = name;
    view->tensor = std::move(tensor);
    if (!view->tensor) return true;
    const AclDtype* dtype = find_dtype(shape->dtype);
    if (!dtype) return false;
    view->dtype = dtype->engine_code;
    view->item_bytes = dtype->bytes;
    Wide lowest = shape->offset, highest = shape->offset, elements = 1;
    for (int axis = 0; axis < 5; ++axis) {
        const int own = order[axis];
        const bool stored = own >= 0 && size_t(own) < shape->dims.size();
        view->size[axis] = stored ? shape->dims[own] : 1;
        view->stride[axis] = stored ? shape->strides[own] : 0;
        elements *= view->size[axis];  // the rules bound the product
        const Wide reach = Wide(view->stride[axis]) * (view->size[axis] - 1);
        (reach < 0 ? lowest : highest) += reach;
        if (reach > kFarthest || reach < -kFarthest) return false;
    }
    view->elements = int64_t(elements);
    if (elements == 0) return true;
    const Wide first = lowest * dtype->bytes, last = (highest + 1) * dtype->bytes;
    if (first < -kFarthest || last > kFarthest || last - first > kFarthest) return false;
    view->origin = shape->offset * dtype->bytes;
    view->low = int64_t(first);
    view->bytes = int64_t(last - first);
    return true;
}

int locate_view(const char* operator_name, const View& view, Span* span) {
    if (view.elements == 0) return 0;
    char* address = static_cast<char*>(view.tensor->address.load());
    if (!address) return refuse(operator_name, view, "has no data address", *span);
    const uintptr_t first = reinterpret_cast<uintptr_t>(address) + uintptr_t(view.low);
    *span = locate(reinterpret_cast<void*>(first), size_t(view.bytes));
    if (!span->block && strict::enabled() && strict::freed_block_at(reinterpret_cast<void*>(first)))
        return refuse(operator_name, view, "lies in a freed device block", *span);
    if (!span->block || span->block->side != Side::Device)
        return refuse(operator_name, view, "is not in device memory: its address comes from no live aclrtMalloc",
                      Span());
    if (reinterpret_cast<uintptr_t>(span->bytes) % uintptr_t(view.item_bytes))
        return refuse(operator_name, view, "has an address that is no multiple of its element size", *span);
    if (!span->fits) return refuse(operator_name, view, "runs past the end of its device block", *span);
    return 0;
}

}  // namespace convgrad
