// What every program needs: the device for its lifetime, tensors with memory of their own, int arrays.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_convolution_backward.h"

// Stops with the library's own words when a call fails.
inline void check(int status, const char *what) {
    if (status == 0) return;
    const char *reason = aclGetRecentErrMsg();
    std::fprintf(stderr, "%s failed with %d\n%s", what, status, reason ? reason : "");
    std::exit(1);
}

class Device {
public:
    Device() {
        check(aclInit(nullptr), "aclInit");
        check(aclrtSetDevice(0), "aclrtSetDevice");
        check(aclrtCreateStream(&stream), "aclrtCreateStream");
    }
    ~Device() {
        aclrtDestroyStream(stream);
        aclrtResetDevice(0);
        aclFinalize();
    }
    aclrtStream stream = nullptr;
};

class Tensor {
public:
    Tensor(const std::vector<int64_t> &shape, float value, aclFormat format = ACL_FORMAT_ND) {
        size_t count = 1;
        for (int64_t size : shape) count *= static_cast<size_t>(size);
        std::vector<float> values(count, value);
        bytes_ = count * sizeof(float);
        check(aclrtMalloc(&address_, bytes_, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
        check(aclrtMemcpy(address_, bytes_, values.data(), bytes_, ACL_MEMCPY_HOST_TO_DEVICE), "aclrtMemcpy");
        handle = aclCreateTensor(shape.data(), shape.size(), ACL_FLOAT, nullptr, 0, format, shape.data(), shape.size(), address_);
    }
    ~Tensor() {
        aclDestroyTensor(handle);
        aclrtFree(address_);
    }
    Tensor(const Tensor &) = delete;
    Tensor &operator=(const Tensor &) = delete;

    std::vector<float> read() const {
        std::vector<float> values(bytes_ / sizeof(float));
        check(aclrtMemcpy(values.data(), bytes_, address_, bytes_, ACL_MEMCPY_DEVICE_TO_HOST), "aclrtMemcpy");
        return values;
    }
    void *address() const { return address_; }
    aclTensor *handle = nullptr;

private:
    void *address_ = nullptr;
    size_t bytes_ = 0;
};

class Ints {
public:
    Ints(std::initializer_list<int64_t> values) : handle(aclCreateIntArray(values.begin(), values.size())) {}
    ~Ints() { aclDestroyIntArray(handle); }
    aclIntArray *handle;
};

class Mask {
public:
    Mask(bool input, bool weight, bool bias) {
        const bool values[] = {input, weight, bias};
        handle = aclCreateBoolArray(values, 3);
    }
    ~Mask() { aclDestroyBoolArray(handle); }
    aclBoolArray *handle;
};

// The smallest and the largest value of a result, so that a page shows it.
inline void show(const char *name, const Tensor &tensor) {
    const std::vector<float> values = tensor.read();
    float low = values[0], high = values[0];
    for (float value : values) {
        if (value < low) low = value;
        if (value > high) high = value;
    }
    std::printf("%-11s %g to %g\n", name, low, high);
}

// Workspace as phase 1 asked, phase 2, and the wait.
inline void run(decltype(&aclnnConvolutionBackward) phase_two, uint64_t size, aclOpExecutor *executor, aclrtStream stream) {
    void *workspace = nullptr;
    if (size > 0) check(aclrtMalloc(&workspace, size, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
    check(phase_two(workspace, size, executor, stream), "phase 2");
    check(aclrtSynchronizeStream(stream), "aclrtSynchronizeStream");
    if (workspace) aclrtFree(workspace);
}
