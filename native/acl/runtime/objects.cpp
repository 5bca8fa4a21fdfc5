// aclCreateTensor ... aclGetRawTensorAddr.
#include "runtime/objects.h"

#include <new>

#include "aclnn/acl_meta.h"
#include "aclnn/opdev/op_errno.h"
#include "runtime/errors.h"
#include "runtime/immortal.h"

namespace convgrad {
namespace {

constexpr uint64_t kMostDims = 64;  // far above any rank the rules accept; stops a garbage count before it is read

int contiguous_strides(const std::vector<int64_t>& dims, std::vector<int64_t>* strides) {
    strides->assign(dims.size(), 1);
    for (size_t i = dims.size(); i-- > 1;)
        if (__builtin_mul_overflow((*strides)[i], dims[i], &(*strides)[i - 1]))
            return fail(ACLNN_ERR_PARAM_INVALID, "the number of elements of the tensor does not fit in 64 bits");
    return 0;
}

int describe(const int64_t* view_dims, uint64_t rank, aclDataType dtype, const int64_t* stride, int64_t offset,
             aclFormat format, const int64_t* storage_dims, uint64_t storage_rank, TensorShape* shape) {
    if ((rank > 0 && !view_dims) || (storage_rank > 0 && !storage_dims))
        return fail(ACLNN_ERR_PARAM_NULLPTR, "viewDims and storageDims must not be null when their count is not 0");
    if (rank > kMostDims || storage_rank > kMostDims)
        return fail(ACLNN_ERR_PARAM_INVALID, "a tensor has at most %d dims, got %llu and %llu", int(kMostDims),
                    static_cast<unsigned long long>(rank), static_cast<unsigned long long>(storage_rank));
    shape->dims.assign(view_dims, view_dims + rank);
    shape->storage_dims.assign(storage_dims, storage_dims + storage_rank);
    shape->offset = offset;
    shape->dtype = dtype;
    shape->format = format;
    if (!stride) return contiguous_strides(shape->dims, &shape->strides);
    shape->strides.assign(stride, stride + rank);
    return 0;
}

// Makes an object and gives its handle as the opaque type; null, with a message, when that fails.
template <class Opaque, class Object, class Fill> Opaque* create(Registry<Object>& registry, Fill fill) noexcept {
    void* handle = nullptr;
    guarded(ACLNN_ERR_INNER, [&]() -> int {
        auto object = std::make_shared<Object>();
        if (const int status = fill(*object)) return status;
        handle = registry.add(std::move(object));
        return 0;
    });
    return static_cast<Opaque*>(handle);
}

template <class Opaque, class Item, class Value>
Opaque* create_array(Registry<Array<Item>>& registry, const Value* value, uint64_t size) noexcept {
    return create<Opaque>(registry, [&](Array<Item>& array) -> int {
        if (value) array.items.assign(value, value + size);
        return 0;
    });
}

int not_live(const char* what, const void* handle) {
    return fail(ACLNN_ERR_INNER, "%p is not a live %s", handle, what);
}

template <class Object> int destroy(Registry<Object>& registry, const char* what, const void* handle) noexcept {
    if (!handle || registry.remove(handle)) return 0;
    return not_live(what, handle);
}

template <class Member>
int destroy_list(Registry<HandleList>& lists, Registry<Member>& members, const char* what,
                 const void* handle) noexcept {
    if (!handle) return 0;
    const auto list = lists.remove(handle);
    if (!list) return not_live(what, handle);
    for (const void* member : list->items) members.remove(member);
    return 0;
}

template <class Item>
int size_of(Registry<Array<Item>>& registry, const char* what, const void* handle, uint64_t* size) noexcept {
    if (!handle || !size) return fail(ACLNN_ERR_PARAM_NULLPTR, "the %s and size must not be null", what);
    const auto array = registry.find(handle);
    if (!array) return not_live(what, handle);
    *size = array->items.size();
    return 0;
}

// Reads one thing off a tensor: both pointers checked, the tensor looked up.
template <class Result, class Read> int read_tensor(const aclTensor* tensor, Result* result, Read read) noexcept {
    if (!tensor || !result) return fail(ACLNN_ERR_PARAM_NULLPTR, "the tensor and the result pointer must not be null");
    return guarded(ACLNN_ERR_INNER, [&]() -> int {
        const auto found = objects().tensors.find(tensor);
        if (!found) return not_live("tensor", tensor);
        read(*found);
        return 0;
    });
}

int give_values(const aclTensor* tensor, std::vector<int64_t> TensorShape::*which, int64_t** values, uint64_t* count) {
    if (!count) return fail(ACLNN_ERR_PARAM_NULLPTR, "the count pointer must not be null");
    return read_tensor(tensor, values, [&](const Tensor& found) {
        const auto shape = found.shape();
        const std::vector<int64_t>& source = (*shape).*which;
        int64_t* copy = new int64_t[source.size()];  // the caller ends it with delete[]
        for (size_t i = 0; i < source.size(); ++i) copy[i] = source[i];
        *values = copy;
        *count = source.size();
    });
}

Immortal<Objects> all;

}  // namespace

Objects& objects() noexcept { return *all; }

}  // namespace convgrad

using namespace convgrad;

extern "C" {

aclTensor* aclCreateTensor(const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType, const int64_t* stride,
                           int64_t offset, aclFormat format, const int64_t* storageDims, uint64_t storageDimsNum,
                           void* tensorData) {
    return create<aclTensor>(objects().tensors, [&](Tensor& tensor) -> int {
        auto shape = std::make_shared<TensorShape>();
        const int status =
            describe(viewDims, viewDimsNum, dataType, stride, offset, format, storageDims, storageDimsNum, shape.get());
        tensor.set_shape(std::move(shape));
        tensor.address = tensorData;
        return status;
    });
}

aclnnStatus aclInitTensor(aclTensor* tensor, const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType,
                          const int64_t* stride, int64_t offset, aclFormat format, const int64_t* storageDims,
                          uint64_t storageDimsNum, void* tensorData) {
    if (!tensor) return fail(ACLNN_ERR_PARAM_NULLPTR, "tensor must not be null");
    return guarded(ACLNN_ERR_INNER, [&]() -> int {
        const auto found = objects().tensors.find(tensor);
        if (!found) return not_live("tensor", tensor);
        auto shape = std::make_shared<TensorShape>();
        if (const int status = describe(viewDims, viewDimsNum, dataType, stride, offset, format, storageDims,
                                        storageDimsNum, shape.get()))
            return status;
        found->set_shape(std::move(shape));
        found->address = tensorData;
        return 0;
    });
}

aclScalar* aclCreateScalar(void* value, aclDataType dataType) {
    return create<aclScalar>(objects().scalars, [&](Scalar& scalar) -> int {
        if (!value) return fail(ACLNN_ERR_PARAM_NULLPTR, "value must not be null");
        const size_t size = aclDataTypeSize(dataType);
        if (size == 0) return fail(ACLNN_ERR_PARAM_INVALID, "data type %d has no scalar", int(dataType));
        const auto* bytes = static_cast<const unsigned char*>(value);
        scalar.bytes.assign(bytes, bytes + size);
        scalar.dtype = dataType;
        return 0;
    });
}

aclIntArray* aclCreateIntArray(const int64_t* value, uint64_t size) {
    return create_array<aclIntArray>(objects().int_arrays, value, size);
}

aclFloatArray* aclCreateFloatArray(const float* value, uint64_t size) {
    return create_array<aclFloatArray>(objects().float_arrays, value, size);
}

aclBoolArray* aclCreateBoolArray(const bool* value, uint64_t size) {
    return create_array<aclBoolArray>(objects().bool_arrays, value, size);
}

aclTensorList* aclCreateTensorList(const aclTensor* const* value, uint64_t size) {
    return create_array<aclTensorList>(objects().tensor_lists, value, size);
}

aclScalarList* aclCreateScalarList(const aclScalar* const* value, uint64_t size) {
    return create_array<aclScalarList>(objects().scalar_lists, value, size);
}

aclnnStatus aclDestroyTensor(const aclTensor* tensor) { return destroy(objects().tensors, "tensor", tensor); }
aclnnStatus aclDestroyScalar(const aclScalar* scalar) { return destroy(objects().scalars, "scalar", scalar); }
aclnnStatus aclDestroyIntArray(const aclIntArray* array) { return destroy(objects().int_arrays, "int array", array); }
aclnnStatus aclDestroyFloatArray(const aclFloatArray* array) {
    return destroy(objects().float_arrays, "float array", array);
}
aclnnStatus aclDestroyBoolArray(const aclBoolArray* array) {
    return destroy(objects().bool_arrays, "bool array", array);
}

aclnnStatus aclDestroyTensorList(const aclTensorList* array) {
    return destroy_list(objects().tensor_lists, objects().tensors, "tensor list", array);
}

aclnnStatus aclDestroyScalarList(const aclScalarList* array) {
    return destroy_list(objects().scalar_lists, objects().scalars, "scalar list", array);
}

aclnnStatus aclGetViewShape(const aclTensor* tensor, int64_t** viewDims, uint64_t* viewDimsNum) {
    return give_values(tensor, &TensorShape::dims, viewDims, viewDimsNum);
}

aclnnStatus aclGetStorageShape(const aclTensor* tensor, int64_t** storageDims, uint64_t* storageDimsNum) {
    return give_values(tensor, &TensorShape::storage_dims, storageDims, storageDimsNum);
}

aclnnStatus aclGetViewStrides(const aclTensor* tensor, int64_t** stridesValue, uint64_t* stridesNum) {
    return give_values(tensor, &TensorShape::strides, stridesValue, stridesNum);
}

aclnnStatus aclGetViewOffset(const aclTensor* tensor, int64_t* offset) {
    return read_tensor(tensor, offset, [&](const Tensor& found) { *offset = found.shape()->offset; });
}

aclnnStatus aclGetFormat(const aclTensor* tensor, aclFormat* format) {
    return read_tensor(tensor, format, [&](const Tensor& found) { *format = found.shape()->format; });
}

aclnnStatus aclGetDataType(const aclTensor* tensor, aclDataType* dataType) {
    return read_tensor(tensor, dataType, [&](const Tensor& found) { *dataType = found.shape()->dtype; });
}

aclnnStatus aclGetRawTensorAddr(const aclTensor* tensor, void** addr) {
    return read_tensor(tensor, addr, [&](const Tensor& found) { *addr = found.address; });
}

aclnnStatus aclSetRawTensorAddr(aclTensor* tensor, void* addr) {
    if (!tensor) return fail(ACLNN_ERR_PARAM_NULLPTR, "tensor must not be null");
    const auto found = objects().tensors.find(tensor);
    if (!found) return not_live("tensor", tensor);
    found->address = addr;
    return 0;
}

aclnnStatus aclGetIntArraySize(const aclIntArray* array, uint64_t* size) {
    return size_of(objects().int_arrays, "int array", array, size);
}

aclnnStatus aclGetFloatArraySize(const aclFloatArray* array, uint64_t* size) {
    return size_of(objects().float_arrays, "float array", array, size);
}

aclnnStatus aclGetBoolArraySize(const aclBoolArray* array, uint64_t* size) {
    return size_of(objects().bool_arrays, "bool array", array, size);
}

aclnnStatus aclGetTensorListSize(const aclTensorList* tensorList, uint64_t* size) {
    return size_of(objects().tensor_lists, "tensor list", tensorList, size);
}

aclnnStatus aclGetScalarListSize(const aclScalarList* scalarList, uint64_t* size) {
    return size_of(objects().scalar_lists, "scalar list", scalarList, size);
}

}  // extern "C"
