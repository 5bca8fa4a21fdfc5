// The library put to work, for programs that test when and where it may be called: at exit, in the child of a fork,
// without memory. A call that does not do what it should prints a line and counts as wrong, unless it is `excused`.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "acl/acl.h"
#include "aclnn/opdev/op_errno.h"
#include "aclnnop/aclnn_convolution_backward.h"

namespace every_call {

// Whether calls may fail now, because an allocation did.
inline bool nothing_is_excused() { return false; }
static bool (*excused)() = nothing_is_excused;
static thread_local int wrong = 0;

// Written without the C library's buffers: the program may be at its end, or a child that leaves with _exit.
inline void say(const char *words, const char *what, int line) {
    char text[300];
    const int length = std::snprintf(text, sizeof text, "line %d: %s%s\n", line, words, what);
    const ssize_t written = write(STDOUT_FILENO, text, size_t(length));
    (void)written;
}

inline void holds(bool condition, const char *what, int line) {
    if (condition) return;
    ++wrong;
    say("not true: ", what, line);
}

// A status is 0, or excused and then the thread's last error.
inline bool works(int status, const char *what, int line) {
    if (status == 0) return true;
    holds(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL) == status, "the last error is the status", line);
    if (!excused()) holds(false, what, line);
    return false;
}
template <class Made>
Made *given(Made *made, const char *what, int line) {
    if (!made && !excused()) holds(false, what, line);
    return made;
}

#define HOLDS(condition) every_call::holds(condition, #condition, __LINE__)
// What a call that worked left behind.
#define HOLDS_UNLESS_EXCUSED(condition) every_call::holds((condition) || every_call::excused(), #condition, __LINE__)
#define WORKS(call) every_call::works(call, #call, __LINE__)
#define GIVEN(call) every_call::given(call, #call, __LINE__)
// A call that must fail: with its status, or for want of memory.
#define FAILS(call, wanted)                                                                              \
    do {                                                                                                 \
        const int failed_with = call;                                                                    \
        HOLDS(failed_with == (wanted) || (failed_with != 0 && every_call::excused()));                   \
        HOLDS(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL) == failed_with);                                 \
    } while (0)

inline void objects() {
    const int64_t dims[] = {2, 3}, strides[] = {3, 1};
    float one = 1;
    const float floats[] = {1, 2};
    const bool bools[] = {true, false};
    aclTensor *tensor = GIVEN(aclCreateTensor(dims, 2, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, dims, 2, &one));
    aclTensor *member = GIVEN(aclCreateTensor(dims, 2, ACL_FLOAT16, nullptr, 0, ACL_FORMAT_ND, dims, 2, nullptr));
    aclScalar *scalar = GIVEN(aclCreateScalar(&one, ACL_FLOAT)), *held = GIVEN(aclCreateScalar(&one, ACL_FLOAT));
    aclIntArray *ints = GIVEN(aclCreateIntArray(dims, 2));
    aclFloatArray *reals = GIVEN(aclCreateFloatArray(floats, 2));
    aclBoolArray *flags = GIVEN(aclCreateBoolArray(bools, 2));
    const aclTensor *members[] = {member};
    const aclScalar *scalars[] = {held};
    aclTensorList *list = GIVEN(aclCreateTensorList(members, 1));
    aclScalarList *scalar_list = GIVEN(aclCreateScalarList(scalars, 1));
    int64_t *values = nullptr;
    uint64_t count = 0;
    aclDataType dtype = ACL_DT_UNDEFINED;
    void *address = nullptr;
    if (tensor) {
        if (WORKS(aclGetViewShape(tensor, &values, &count))) {
            HOLDS(count == 2 && values[0] == 2 && values[1] == 3);
            delete[] values;
        }
        if (WORKS(aclGetViewStrides(tensor, &values, &count))) delete[] values;
        if (WORKS(aclGetStorageShape(tensor, &values, &count))) delete[] values;
        if (WORKS(aclGetDataType(tensor, &dtype))) HOLDS(dtype == ACL_FLOAT);
        if (WORKS(aclGetRawTensorAddr(tensor, &address))) HOLDS(address == &one);
        // What could not be changed is what it was.
        const bool changed = WORKS(aclInitTensor(tensor, dims, 1, ACL_INT8, nullptr, 0, ACL_FORMAT_ND, dims, 1, nullptr));
        if (WORKS(aclGetDataType(tensor, &dtype))) HOLDS(dtype == (changed ? ACL_INT8 : ACL_FLOAT));
    }
    if (ints && WORKS(aclGetIntArraySize(ints, &count))) HOLDS(count == 2);
    if (list && WORKS(aclGetTensorListSize(list, &count))) HOLDS(count == 1);
    WORKS(aclDestroyTensor(tensor));
    WORKS(aclDestroyScalar(scalar));
    WORKS(aclDestroyIntArray(ints));
    WORKS(aclDestroyFloatArray(reals));
    WORKS(aclDestroyBoolArray(flags));
    WORKS(list ? aclDestroyTensorList(list) : aclDestroyTensor(member));
    WORKS(scalar_list ? aclDestroyScalarList(scalar_list) : aclDestroyScalar(held));
    if (tensor) FAILS(aclDestroyTensor(tensor), ACLNN_ERR_INNER);
}

inline void memory() {
    void *block = nullptr, *pinned = nullptr;
    float value = 2, back = 0;
    if (WORKS(aclrtMalloc(&block, sizeof value, ACL_MEM_MALLOC_HUGE_FIRST))) {
        WORKS(aclrtMemset(block, sizeof value, 0, sizeof value));
        WORKS(aclrtMemcpy(block, sizeof value, &value, sizeof value, ACL_MEMCPY_HOST_TO_DEVICE));
        WORKS(aclrtMemcpy(&back, sizeof back, block, sizeof back, ACL_MEMCPY_DEVICE_TO_HOST));
        HOLDS_UNLESS_EXCUSED(back == value);
        WORKS(aclrtFree(block));
        FAILS(aclrtFree(block), ACL_ERROR_RT_PARAM_INVALID);
    }
    if (WORKS(aclrtMallocHost(&pinned, 100))) {
        std::memset(pinned, 1, 100);
        WORKS(aclrtFreeHost(pinned));
    }
}

inline void streams_and_events() {
    aclrtStream stream = nullptr;
    aclrtEvent event = nullptr, later = nullptr;
    aclrtContext before = nullptr, context = nullptr;
    float milliseconds = -1;
    if (!WORKS(aclrtSetDevice(0))) return;
    WORKS(aclrtGetCurrentContext(&before));
    if (WORKS(aclrtCreateContext(&context, 0))) {
        WORKS(aclrtDestroyContext(context));
        WORKS(aclrtSetCurrentContext(before));
    }
    if (WORKS(aclrtCreateEvent(&event)) && WORKS(aclrtCreateEvent(&later)) && WORKS(aclrtCreateStream(&stream))) {
        WORKS(aclrtRecordEvent(event, stream));
        WORKS(aclrtRecordEvent(later, stream));
        WORKS(aclrtStreamWaitEvent(stream, event));
        WORKS(aclrtSynchronizeStream(stream));
        WORKS(aclrtEventElapsedTime(&milliseconds, event, later));
        HOLDS_UNLESS_EXCUSED(milliseconds >= 0);
    }
    if (event) WORKS(aclrtDestroyEvent(event));
    if (later) WORKS(aclrtDestroyEvent(later));
    if (stream) WORKS(aclrtDestroyStream(stream));
    WORKS(aclrtResetDevice(0));
}

// A failing call leaves its status and its words with the thread.
inline void errors() {
    aclGetRecentErrMsg();
    FAILS(aclrtDestroyStream(reinterpret_cast<aclrtStream>(uintptr_t(64))), ACL_ERROR_RT_INVALID_HANDLE);
    const char *text = aclGetRecentErrMsg();
    HOLDS_UNLESS_EXCUSED(text && std::strstr(text, "is not a live stream"));
    HOLDS_UNLESS_EXCUSED(aclGetRecentErrMsg() == nullptr);
    HOLDS(aclrtGetSocName() != nullptr);
    aclrtGetLastError(ACL_RT_THREAD_LEVEL);
}

// A tensor of equal values with device memory of its own.
class Filled {
public:
    Filled(const int64_t *dims, int rank, float value, aclFormat format) : count_(1) {
        for (int i = 0; i < rank; ++i) count_ *= size_t(dims[i]);
        const uint64_t axes = uint64_t(rank);
        tensor = GIVEN(aclCreateTensor(dims, axes, ACL_FLOAT, nullptr, 0, format, dims, axes, nullptr));
        if (!tensor || !WORKS(aclrtMalloc(&address, bytes(), ACL_MEM_MALLOC_HUGE_FIRST))) return;
        WORKS(aclSetRawTensorAddr(tensor, address));
        float values[kMost];
        for (size_t i = 0; i < count_; ++i) values[i] = value;
        WORKS(aclrtMemcpy(address, bytes(), values, bytes(), ACL_MEMCPY_HOST_TO_DEVICE));
    }
    ~Filled() {
        WORKS(aclDestroyTensor(tensor));
        if (address) WORKS(aclrtFree(address));
    }
    bool holds_only(float value) const {
        float values[kMost];
        if (!WORKS(aclrtMemcpy(values, sizeof values, address, bytes(), ACL_MEMCPY_DEVICE_TO_HOST))) return false;
        for (size_t i = 0; i < count_; ++i)
            if (values[i] != value) return false;
        return true;
    }
    aclTensor *tensor = nullptr;
    void *address = nullptr;

private:
    enum { kMost = 128 * 128 };
    size_t bytes() const { return count_ * sizeof(float); }
    size_t count_;
};

inline bool phase_two(int phase_one, int (*run)(void *, uint64_t, aclOpExecutor *, aclrtStream), uint64_t size,
                      aclOpExecutor *executor) {
    void *workspace = nullptr;
    if (!WORKS(phase_one)) return false;
    if (!WORKS(aclrtMalloc(&workspace, size, ACL_MEM_MALLOC_HUGE_FIRST))) return aclDestroyAclOpExecutor(executor), false;
    const bool ran = WORKS(run(workspace, size, executor, nullptr));
    WORKS(aclrtFree(workspace));
    return ran;
}

// Ones everywhere, a window of one cell: every input gradient is `channels`, every weight gradient `cells`. From about
// 1,100,000 multiplications on several threads share the work.
inline void convolution(int64_t channels, int64_t cells) {
    const int64_t data[] = {1, channels, cells}, kernel[] = {channels, channels, 1}, bias[] = {channels};
    const int64_t one[] = {1}, zero[] = {0};
    const bool mask[] = {true, true, true};
    Filled grad_output(data, 3, 1, ACL_FORMAT_NCL), input(data, 3, 1, ACL_FORMAT_NCL), weight(kernel, 3, 1, ACL_FORMAT_NCL),
        grad_input(data, 3, 0, ACL_FORMAT_NCL), grad_weight(kernel, 3, 0, ACL_FORMAT_NCL), grad_bias(bias, 1, 0, ACL_FORMAT_ND);
    aclIntArray *ones = GIVEN(aclCreateIntArray(one, 1)), *zeros = GIVEN(aclCreateIntArray(zero, 1)),
                *sizes = GIVEN(aclCreateIntArray(bias, 1));
    aclBoolArray *flags = GIVEN(aclCreateBoolArray(mask, 3));
    uint64_t size = 0;
    aclOpExecutor *executor = nullptr;
    const int phase_one = aclnnConvolutionBackwardGetWorkspaceSize(
        grad_output.tensor, input.tensor, weight.tensor, sizes, ones, zeros, ones, false, zeros, 1, flags, 0, grad_input.tensor,
        grad_weight.tensor, grad_bias.tensor, &size, &executor);
    if (phase_two(phase_one, aclnnConvolutionBackward, size, executor)) {
        HOLDS_UNLESS_EXCUSED(grad_input.holds_only(float(channels)));
        HOLDS_UNLESS_EXCUSED(grad_weight.holds_only(float(cells)) && grad_bias.holds_only(float(cells)));
    }
    WORKS(aclDestroyIntArray(ones));
    WORKS(aclDestroyIntArray(zeros));
    WORKS(aclDestroyIntArray(sizes));
    WORKS(aclDestroyBoolArray(flags));
}
inline void small_convolution() { convolution(2, 3); }
inline void large_convolution() { convolution(128, 80); }

// The gradient of the input is written over grad_output: it is computed beside and copied.
inline void tbc_in_place() {
    const int64_t data[] = {4, 1, 2}, kernel[] = {1, 2, 2}, bias[] = {2};
    Filled grad_output(data, 3, 1, ACL_FORMAT_ND), input(data, 3, 1, ACL_FORMAT_ND), weight(kernel, 3, 1, ACL_FORMAT_ND),
        bias_values(bias, 1, 1, ACL_FORMAT_ND), grad_weight(kernel, 3, 0, ACL_FORMAT_ND), grad_bias(bias, 1, 0, ACL_FORMAT_ND);
    aclTensor *over = GIVEN(aclCreateTensor(data, 3, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, data, 3, grad_output.address));
    uint64_t size = 0;
    aclOpExecutor *executor = nullptr;
    const int phase_one =
        aclnnConvTbcBackwardGetWorkspaceSize(grad_output.tensor, input.tensor, weight.tensor, bias_values.tensor, 0, 0, over,
                                             grad_weight.tensor, grad_bias.tensor, &size, &executor);
    if (phase_two(phase_one, aclnnConvTbcBackward, size, executor)) {
        HOLDS_UNLESS_EXCUSED(grad_output.holds_only(2) && grad_weight.holds_only(4) && grad_bias.holds_only(4));
    }
    WORKS(aclDestroyTensor(over));
}

// A call the rules refuse: the words name rule, value and line.
inline void refused_convolution() {
    uint64_t size = 0;
    aclOpExecutor *executor = nullptr;
    aclGetRecentErrMsg();
    FAILS(aclnnConvolutionBackwardGetWorkspaceSize(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, false,
                                                   nullptr, 1, nullptr, 0, nullptr, nullptr, nullptr, &size, &executor),
          ACLNN_ERR_PARAM_NULLPTR);
    HOLDS(executor == nullptr);
    const char *text = aclGetRecentErrMsg();
    HOLDS_UNLESS_EXCUSED(text && std::strstr(text, "[rule ") && std::strstr(text, "reproduce: conv go=null"));
    aclrtGetLastError(ACL_RT_THREAD_LEVEL);
}

struct Part {
    const char *name;
    void (*calls)();
};
static const Part parts[] = {{"errors", errors},
                             {"objects", objects},
                             {"memory", memory},
                             {"streams_and_events", streams_and_events},
                             {"small_convolution", small_convolution},
                             {"large_convolution", large_convolution},
                             {"tbc_in_place", tbc_in_place},
                             {"refused_convolution", refused_convolution}};

// The calls of one part, or of all where `name` is "all"; the number that went wrong, -1 where there is no such part.
inline int make_calls(const char *name) {
    const int before = wrong;
    const char *setting = std::getenv("CONVGRAD_STRICT");
    const bool strict = setting && std::strcmp(setting, "0") != 0;  // which wants a device on every thread
    int ran = 0;
    for (const Part &part : parts) {
        if (std::strcmp(name, "all") != 0 && std::strcmp(name, part.name) != 0) continue;
        ++ran;
        if (strict && !WORKS(aclrtSetDevice(0))) continue;
        part.calls();
        if (strict) WORKS(aclrtResetDevice(0));
    }
    return ran ? wrong - before : -1;
}

}  // namespace every_call
