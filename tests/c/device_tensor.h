// A tensor with device memory of its own, for the test programs: values in, values out.
#pragma once

#include <cstdint>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_convolution_backward.h"
#include "check.h"

class DeviceTensor {
public:
    DeviceTensor(const std::vector<int64_t> &shape, const std::vector<float> &values, aclFormat format)
        : shape_(shape), bytes_(values.size() * sizeof(float)) {
        const size_t room = bytes_ ? bytes_ : 1;
        CHECK_EQUAL(aclrtMalloc(&address, room, ACL_MEM_MALLOC_HUGE_FIRST), 0);
        write(values);
        tensor = aclCreateTensor(shape.data(), shape.size(), ACL_FLOAT, nullptr, 0, format, shape.data(), shape.size(), address);
        CHECK(tensor != nullptr);
    }
    DeviceTensor(const std::vector<int64_t> &shape, float value, aclFormat format)
        : DeviceTensor(shape, std::vector<float>(count(shape), value), format) {}
    ~DeviceTensor() {
        if (tensor) CHECK_EQUAL(aclDestroyTensor(tensor), 0);
        if (address) CHECK_EQUAL(aclrtFree(address), 0);
    }
    DeviceTensor(const DeviceTensor &) = delete;
    DeviceTensor &operator=(const DeviceTensor &) = delete;

    void write(const std::vector<float> &values) {
        CHECK_EQUAL(aclrtMemcpy(address, bytes_, values.data(), bytes_, ACL_MEMCPY_HOST_TO_DEVICE), 0);
    }
    std::vector<float> read() const {
        std::vector<float> values(bytes_ / sizeof(float));
        CHECK_EQUAL(aclrtMemcpy(values.data(), bytes_, address, bytes_, ACL_MEMCPY_DEVICE_TO_HOST), 0);
        return values;
    }
    static size_t count(const std::vector<int64_t> &shape) {
        size_t product = 1;
        for (int64_t size : shape) product *= size_t(size);
        return product;
    }

    aclTensor *tensor = nullptr;
    void *address = nullptr;

private:
    std::vector<int64_t> shape_;
    size_t bytes_;
};

// Every value is `wanted`.
inline bool all_are(const std::vector<float> &values, float wanted) {
    for (float value : values)
        if (!(value == wanted)) return false;
    return true;
}
