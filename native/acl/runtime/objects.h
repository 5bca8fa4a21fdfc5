// Tensors, scalars, arrays and lists: copies of what the program described. Only a tensor's data stays the program's.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "acl/acl_base.h"
#include "runtime/locks.h"
#include "runtime/registry.h"

namespace convgrad {

struct TensorShape {
    std::vector<int64_t> dims, strides, storage_dims;
    int64_t offset = 0;  // in elements
    aclDataType dtype = ACL_DT_UNDEFINED;
    aclFormat format = ACL_FORMAT_UNDEFINED;
};

// A shape is replaced as a whole: who holds one keeps what the tensor was.
class Tensor {
public:
    std::shared_ptr<const TensorShape> shape() const {
        Hold hold(lock_of(Lock::Contents));
        return shape_;
    }
    void set_shape(std::shared_ptr<const TensorShape> shape) {
        Hold hold(lock_of(Lock::Contents));
        shape_.swap(shape);
    }
    std::atomic<void*> address{nullptr};

private:
    std::shared_ptr<const TensorShape> shape_;
};

struct Scalar {
    std::vector<unsigned char> bytes;
    aclDataType dtype = ACL_DT_UNDEFINED;
};

template <class Item> struct Array { std::vector<Item> items; };
using IntArray = Array<int64_t>;
using FloatArray = Array<float>;
using BoolArray = Array<unsigned char>;
using HandleList = Array<const void*>;  // of tensors or scalars

struct Objects {
    Registry<Tensor> tensors{Kind::Tensor};
    Registry<Scalar> scalars{Kind::Scalar};
    Registry<IntArray> int_arrays{Kind::IntArray};
    Registry<FloatArray> float_arrays{Kind::FloatArray};
    Registry<BoolArray> bool_arrays{Kind::BoolArray};
    Registry<HandleList> tensor_lists{Kind::TensorList};
    Registry<HandleList> scalar_lists{Kind::ScalarList};
};

Objects& objects() noexcept;

}  // namespace convgrad
