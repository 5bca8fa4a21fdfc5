// Mistakes that strict mode must catch, one per name given on the command line. Each prints "status N" for the call
// that should fail; a mistake that should stop the program prints "survived" if it does not.
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "device_tensor.h"

namespace {

volatile char sink;

void *block(size_t size) {
    void *address = nullptr;
    if (aclrtMalloc(&address, size, ACL_MEM_MALLOC_HUGE_FIRST) != 0) std::exit(9);
    return address;
}

char *bytes(void *address) { return static_cast<char *>(address); }

void status(int value) { std::printf("status %d\n", value); }

// A plain 1-D convolution on ones: grad_output 1x1x4, input 1x1x4, window 1.
struct Call {
    DeviceTensor grad_output{{1, 1, 4}, 1, ACL_FORMAT_NCL}, input{{1, 1, 4}, 1, ACL_FORMAT_NCL}, weight{{1, 1, 1}, 1, ACL_FORMAT_NCL},
        grad_input{{1, 1, 4}, 0, ACL_FORMAT_NCL}, grad_weight{{1, 1, 1}, 0, ACL_FORMAT_NCL}, grad_bias{{1}, 0, ACL_FORMAT_ND};
    uint64_t size = 0;
    aclOpExecutor *executor = nullptr;
    Call() {
        const int64_t one[] = {1}, zero[] = {0};
        const bool mask[] = {true, true, true};
        aclIntArray *ones = aclCreateIntArray(one, 1), *zeros = aclCreateIntArray(zero, 1);
        aclBoolArray *flags = aclCreateBoolArray(mask, 3);
        const int phase_one = aclnnConvolutionBackwardGetWorkspaceSize(
            grad_output.tensor, input.tensor, weight.tensor, ones, ones, zeros, ones, false, zeros, 1, flags, 0,
            grad_input.tensor, grad_weight.tensor, grad_bias.tensor, &size, &executor);
        aclDestroyIntArray(ones);
        aclDestroyIntArray(zeros);
        aclDestroyBoolArray(flags);
        if (phase_one != 0) std::exit(8);
    }
    int run() {
        void *workspace = block(size);
        const int result = aclnnConvolutionBackward(workspace, size, executor, nullptr);
        aclrtFree(workspace);
        return result;
    }
};

void clean_program() {
    Call call;
    status(call.run());
    std::printf("%g %g %g\n", call.grad_input.read()[0], call.grad_weight.read()[0], call.grad_bias.read()[0]);
}
void read_device_memory() { sink = bytes(block(40))[8]; }
void write_device_memory() { bytes(block(40))[39] = 1; }
void write_past_the_end() { bytes(block(40))[100] = 1; }
void read_before_the_start() { sink = bytes(block(40))[-16]; }
void read_freed_memory() {
    void *address = block(40);
    aclrtFree(address);
    sink = bytes(address)[0];
}
void copy_past_the_end() {
    std::vector<char> host(64);
    status(aclrtMemcpy(block(40), 64, host.data(), 41, ACL_MEMCPY_HOST_TO_DEVICE));
}
void copy_from_freed_memory() {
    char host[40];
    void *address = block(40);
    aclrtFree(address);
    status(aclrtMemcpy(host, 40, address, 40, ACL_MEMCPY_DEVICE_TO_HOST));
}
void copy_in_the_wrong_direction() {
    char host[40] = {};
    status(aclrtMemcpy(host, 40, block(40), 40, ACL_MEMCPY_HOST_TO_DEVICE));
}
void free_twice() {
    void *address = block(40);
    aclrtFree(address);
    status(aclrtFree(address));
}
void forget_to_copy_the_input() {
    Call call;
    void *fresh = block(16);
    aclSetRawTensorAddr(call.input.tensor, fresh);
    status(call.run());
}
void set_the_input_to_zero() {
    Call call;
    void *fresh = block(16);
    aclrtMemset(fresh, 16, 0, 16);
    aclSetRawTensorAddr(call.input.tensor, fresh);
    status(call.run());
    std::printf("%g\n", call.grad_weight.read()[0]);
}
void pass_a_host_pointer() {
    Call call;
    std::vector<float> host(4, 1);
    aclSetRawTensorAddr(call.input.tensor, host.data());
    status(call.run());
}
void pass_a_short_block() {
    Call call;
    void *small = block(12);
    aclrtMemset(small, 12, 0, 12);
    aclSetRawTensorAddr(call.grad_output.tensor, small);
    status(call.run());
}
void pass_a_freed_block() {
    Call call;
    void *gone = block(16);
    aclrtFree(gone);
    aclSetRawTensorAddr(call.weight.tensor, gone);
    status(call.run());
}
void name_a_small_workspace() {
    Call call;
    void *workspace = block(call.size);
    status(aclnnConvolutionBackward(workspace, call.size - 1, call.executor, nullptr));
}
void allocate_a_small_workspace() {
    Call call;
    void *workspace = block(call.size - 1);
    status(aclnnConvolutionBackward(workspace, call.size, call.executor, nullptr));
}
void give_no_workspace() {
    Call call;
    status(aclnnConvolutionBackward(nullptr, 0, call.executor, nullptr));
}
void fresh_memory_is_nan() {
    float values[10];
    aclrtMemcpy(values, 40, block(40), 40, ACL_MEMCPY_DEVICE_TO_HOST);
    int count = 0;
    for (float value : values) count += std::isnan(value);
    std::printf("%d of 10 are NaN\n", count);
}
void write_past_pinned_memory() {
    void *address = nullptr;
    aclrtMallocHost(&address, 40);
    bytes(address)[40] = 1;  // between the end and the guarded page: found when freed
    status(aclrtFreeHost(address));
}
void write_far_past_pinned_memory() {
    void *address = nullptr;
    aclrtMallocHost(&address, 40);
    std::memset(address, 1, 40);
    bytes(address)[64] = 1;
}
void forget_the_device() {
    std::thread([] {
        void *address = nullptr;
        status(aclrtMalloc(&address, 40, ACL_MEM_MALLOC_HUGE_FIRST));
    }).join();
}
void leak_everything() {
    const int64_t one[] = {1};
    aclrtStream stream;
    aclrtEvent event;
    aclrtContext context;
    void *pinned;
    block(40);
    aclrtMallocHost(&pinned, 7);
    aclrtCreateEvent(&event);
    aclrtCreateContext(&context, 0);
    aclrtCreateStream(&stream);  // of the new context: those of the default one end with aclrtResetDevice
    aclCreateTensor(one, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, one, 1, nullptr);
    aclCreateIntArray(one, 1);
    aclCreateIntArray(one, 1);
}
void allocate_and_free_many() {
    for (int i = 0; i < 100000; ++i) aclrtFree(block(64));
    status(0);
}

// A block that is freed while another thread writes to it is kept until that is done: no memory of the host either.
void set_freed_memory_that_another_thread_uses() {
    enum { kBytes = 1 << 22 };
    std::atomic<void *> current{nullptr};
    std::atomic<bool> over{false};
    std::thread other([&] {
        aclrtSetDevice(0);
        while (!over) {
            void *address = current;
            if (address) aclrtMemset(address, kBytes, 0, kBytes);
        }
        aclrtResetDevice(0);
    });
    int refused = 0;
    for (int i = 0; i < 100; ++i) {
        void *address = block(kBytes);
        current = address;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        aclrtFree(address);
        refused += aclrtMemset(address, kBytes, 0, kBytes) != 0;
        current = nullptr;
    }
    over = true;
    other.join();
    std::printf("%d refused\n", refused);
}

struct { const char *name; void (*body)(); } mistakes[] = {
#define MISTAKE(name) {#name, name}
    MISTAKE(clean_program), MISTAKE(read_device_memory), MISTAKE(write_device_memory), MISTAKE(write_past_the_end),
    MISTAKE(read_before_the_start), MISTAKE(read_freed_memory), MISTAKE(copy_past_the_end), MISTAKE(copy_from_freed_memory),
    MISTAKE(copy_in_the_wrong_direction), MISTAKE(free_twice), MISTAKE(forget_to_copy_the_input), MISTAKE(set_the_input_to_zero),
    MISTAKE(pass_a_host_pointer),
    MISTAKE(pass_a_short_block), MISTAKE(pass_a_freed_block), MISTAKE(name_a_small_workspace),
    MISTAKE(allocate_a_small_workspace), MISTAKE(give_no_workspace), MISTAKE(fresh_memory_is_nan),
    MISTAKE(write_past_pinned_memory), MISTAKE(write_far_past_pinned_memory), MISTAKE(forget_the_device),
    MISTAKE(leak_everything), MISTAKE(allocate_and_free_many), MISTAKE(set_freed_memory_that_another_thread_uses)};

}  // namespace

int main(int count, char **arguments) {
    for (const auto &mistake : mistakes) {
        if (count < 2 || std::strcmp(arguments[1], mistake.name) != 0) continue;
        if (aclInit(nullptr) != 0 || aclrtSetDevice(0) != 0) return 7;
        mistake.body();
        std::printf("survived\n");
        std::fflush(stdout);
        aclrtResetDevice(0);
        aclFinalize();
        return failures() ? 1 : 0;
    }
    return 6;
}
