// Both operators through both phases: numbers, executors, addresses, threads, and everything a caller can do wrong.
// All data are small integers, so results are exact.
#include <atomic>
#include <cmath>
#include <memory>
#include <string>
#include <thread>

#include "aclnn/opdev/op_errno.h"
#include "device_tensor.h"

namespace {

struct Device {
    Device() {
        CHECK_EQUAL(aclInit(nullptr), 0);
        CHECK_EQUAL(aclrtSetDevice(0), 0);
    }
    ~Device() {
        CHECK_EQUAL(aclrtResetDevice(0), 0);
        CHECK_EQUAL(aclFinalize(), 0);
    }
};

// seed: 2 x 2 x 7 x 7, window 1 x 1, everything one: gradInput 2, gradWeight 98, gradBias 98.
struct Convolution {
    DeviceTensor grad_output{{2, 2, 7, 7}, 1, ACL_FORMAT_NCHW}, input{{2, 2, 7, 7}, 1, ACL_FORMAT_NCHW},
        weight{{2, 2, 1, 1}, 1, ACL_FORMAT_NCHW}, grad_input{{2, 2, 7, 7}, -7, ACL_FORMAT_NCHW},
        grad_weight{{2, 2, 1, 1}, -7, ACL_FORMAT_NCHW}, grad_bias{{2}, -7, ACL_FORMAT_ND};
    bool mask[3] = {true, true, true};
    int groups = 1;
    int8_t math = 0;
    uint64_t size = 4242;
    aclOpExecutor *executor = nullptr;

    int phase_one() {
        const int64_t ones[] = {1, 1}, zeros[] = {0, 0}, two[] = {2};
        aclIntArray *bias_sizes = aclCreateIntArray(two, 1), *stride = aclCreateIntArray(ones, 2),
                    *padding = aclCreateIntArray(zeros, 2), *dilation = aclCreateIntArray(ones, 2),
                    *output_padding = aclCreateIntArray(zeros, 2);
        aclBoolArray *output_mask = aclCreateBoolArray(mask, 3);
        const int status = aclnnConvolutionBackwardGetWorkspaceSize(
            grad_output.tensor, input.tensor, weight.tensor, bias_sizes, stride, padding, dilation, false, output_padding,
            groups, output_mask, math, grad_input.tensor, grad_weight.tensor, grad_bias.tensor, &size, &executor);
        // The arrays may go right after phase 1.
        for (aclIntArray *array : {bias_sizes, stride, padding, dilation, output_padding}) CHECK_EQUAL(aclDestroyIntArray(array), 0);
        CHECK_EQUAL(aclDestroyBoolArray(output_mask), 0);
        return status;
    }
    int phase_two() { return run(executor); }
    int run(aclOpExecutor *which) {
        void *workspace = nullptr;
        if (aclrtMalloc(&workspace, size, ACL_MEM_MALLOC_HUGE_FIRST) != 0) return -1;
        const int status = aclnnConvolutionBackward(workspace, size, which, nullptr);
        CHECK_EQUAL(aclrtFree(workspace), 0);
        return status;
    }
    bool is_right() { return all_are(grad_input.read(), 2) && all_are(grad_weight.read(), 98) && all_are(grad_bias.read(), 98); }
    bool is_untouched() { return all_are(grad_input.read(), -7) && all_are(grad_weight.read(), -7) && all_are(grad_bias.read(), -7); }
};

bool says(const char *words) {
    const char *text = aclGetRecentErrMsg();
    const bool found = text && std::strstr(text, words);
    if (!found) std::printf("the message is: %s\n", text ? text : "(none)");
    return found;
}

}  // namespace

TEST(two_phases, "a convolution gives its exact gradients, and a workspace that is never 0") {
    Device device;
    Convolution call;
    CHECK_EQUAL(call.phase_one(), 0);
    CHECK(call.size > 0 && call.size != 4242);
    CHECK(call.is_untouched());
    CHECK_EQUAL(call.phase_two(), 0);
    CHECK_EQUAL(aclrtSynchronizeStream(nullptr), 0);
    CHECK(call.is_right());
}

TEST(mask, "what the mask does not ask for is not written") {
    Device device;
    Convolution call;
    call.mask[0] = call.mask[2] = false;
    CHECK_EQUAL(call.phase_one(), 0);
    CHECK_EQUAL(call.phase_two(), 0);
    CHECK(all_are(call.grad_input.read(), -7) && all_are(call.grad_weight.read(), 98) && all_are(call.grad_bias.read(), -7));
    call.mask[1] = false;
    CHECK_EQUAL(call.phase_one(), 0);
    CHECK_EQUAL(call.phase_two(), 0);
}

TEST(refusal, "a refused call writes neither size nor executor and leaves a message with rule and reproducer") {
    Device device;
    Convolution call;
    call.groups = 3;
    CHECK_EQUAL(call.phase_one(), ACLNN_ERR_PARAM_INVALID);
    CHECK_EQUAL(call.size, 4242);
    CHECK(call.executor == nullptr);
    const char *message = aclGetRecentErrMsg();
    CHECK(message && std::strstr(message, "AclNN_Parameter_Error(EZ1001): aclnnConvolutionBackward: ") &&
          std::strstr(message, "[rule ") && std::strstr(message, "reproduce: conv go=2x2x7x7/float32/NCHW"));
    CHECK_EQUAL(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), ACLNN_ERR_PARAM_INVALID);
    uint64_t size = 0;
    aclOpExecutor *executor = nullptr;
    CHECK_EQUAL(aclnnConvTbcBackwardGetWorkspaceSize(nullptr, nullptr, nullptr, nullptr, 0, 0, nullptr, nullptr, nullptr, nullptr, &executor), ACLNN_ERR_PARAM_NULLPTR);
    CHECK_EQUAL(aclnnConvTbcBackwardGetWorkspaceSize(nullptr, nullptr, nullptr, nullptr, 0, 0, nullptr, nullptr, nullptr, &size, nullptr), ACLNN_ERR_PARAM_NULLPTR);
    CHECK_EQUAL(aclnnConvTbcBackwardGetWorkspaceSize(nullptr, nullptr, nullptr, nullptr, 0, 0, nullptr, nullptr, nullptr, &size, &executor), ACLNN_ERR_PARAM_NULLPTR);
    aclTensor *nonsense = reinterpret_cast<aclTensor *>(0x1234);
    CHECK_EQUAL(aclnnConvTbcBackwardGetWorkspaceSize(nonsense, nullptr, nullptr, nullptr, 0, 0, nullptr, nullptr, nullptr, &size, &executor), ACLNN_ERR_PARAM_INVALID);
    CHECK(says("self: 0x1234 is not a live aclTensor"));
}

TEST(executor_runs_once, "a second run, a run after destruction and a made-up executor are 361001") {
    Device device;
    Convolution call;
    CHECK_EQUAL(call.phase_one(), 0);
    CHECK_EQUAL(call.phase_two(), 0);
    CHECK_EQUAL(call.phase_two(), ACLNN_ERR_RUNTIME_ERROR);
    CHECK(says("the executor has run or was destroyed"));
    CHECK_EQUAL(call.phase_one(), 0);
    CHECK_EQUAL(aclDestroyAclOpExecutor(call.executor), 0);
    CHECK_EQUAL(aclDestroyAclOpExecutor(call.executor), ACLNN_ERR_INNER);
    CHECK_EQUAL(call.phase_two(), ACLNN_ERR_RUNTIME_ERROR);
    CHECK_EQUAL(call.run(reinterpret_cast<aclOpExecutor *>(0x10)), ACLNN_ERR_RUNTIME_ERROR);
    CHECK_EQUAL(aclnnConvolutionBackward(nullptr, 0, nullptr, nullptr), ACLNN_ERR_PARAM_NULLPTR);
}

TEST(missing_workspace, "a size without a workspace is 161001 and ends the executor; size 0 with null is fine") {
    Device device;
    Convolution call;
    CHECK_EQUAL(call.phase_one(), 0);
    CHECK_EQUAL(aclSetAclOpExecutorRepeatable(call.executor), 0);
    CHECK_EQUAL(aclnnConvolutionBackward(nullptr, 64, call.executor, nullptr), ACLNN_ERR_PARAM_NULLPTR);
    CHECK_EQUAL(aclDestroyAclOpExecutor(call.executor), ACLNN_ERR_INNER);
    CHECK(call.is_untouched());
    CHECK_EQUAL(call.phase_one(), 0);
    CHECK_EQUAL(aclnnConvolutionBackward(nullptr, 0, call.executor, nullptr), 0);
    CHECK(call.is_right());
}

TEST(wrong_operator_or_stream, "an executor belongs to its operator; a stale stream is refused and consumes it") {
    Device device;
    Convolution call;
    CHECK_EQUAL(call.phase_one(), 0);
    CHECK_EQUAL(aclnnConvTbcBackward(nullptr, 0, call.executor, nullptr), ACLNN_ERR_RUNTIME_ERROR);
    CHECK(says("the executor belongs to aclnnConvolutionBackward"));
    CHECK_EQUAL(call.phase_one(), 0);
    CHECK_EQUAL(aclnnConvolutionBackward(nullptr, 0, call.executor, reinterpret_cast<void *>(0x40)), ACLNN_ERR_RUNTIME_ERROR);
    CHECK_EQUAL(call.phase_two(), ACLNN_ERR_RUNTIME_ERROR);
    CHECK(call.is_untouched());
}

TEST(repeatable, "a repeatable executor runs again on new data and on new addresses until it is destroyed") {
    Device device;
    Convolution call;
    CHECK_EQUAL(call.phase_one(), 0);
    CHECK_EQUAL(aclSetAclOpExecutorRepeatable(call.executor), 0);
    CHECK_EQUAL(call.phase_two(), 0);
    CHECK(call.is_right());
    call.grad_output.write(std::vector<float>(196, 3));
    CHECK_EQUAL(call.phase_two(), 0);
    CHECK(all_are(call.grad_input.read(), 6) && all_are(call.grad_weight.read(), 294) && all_are(call.grad_bias.read(), 294));
    DeviceTensor other_output({2, 2, 7, 7}, 5, ACL_FORMAT_NCHW), other_bias({2}, 0, ACL_FORMAT_ND);
    CHECK_EQUAL(aclSetInputTensorAddr(call.executor, 0, call.grad_output.tensor, other_output.address), 0);
    CHECK_EQUAL(AclSetOutputTensorAddr(call.executor, 2, call.grad_bias.tensor, other_bias.address), 0);
    CHECK_EQUAL(call.phase_two(), 0);
    CHECK(all_are(call.grad_input.read(), 10) && all_are(other_bias.read(), 490) && all_are(call.grad_bias.read(), 294));
    CHECK_EQUAL(aclSetInputTensorAddr(call.executor, 0, nullptr, other_output.address), ACLNN_ERR_INNER_NULLPTR);
    const aclTensor *members[] = {call.grad_output.tensor};
    aclTensorList *list = aclCreateTensorList(members, 1);
    CHECK_EQUAL(aclSetDynamicInputTensorAddr(call.executor, 0, 0, list, call.grad_output.address), 0);
    CHECK_EQUAL(aclSetDynamicInputTensorAddr(call.executor, 0, 1, list, call.grad_output.address), ACLNN_ERR_PARAM_INVALID);
    CHECK_EQUAL(call.phase_two(), 0);
    CHECK(all_are(call.grad_input.read(), 6));
    CHECK_EQUAL(aclDestroyTensorList(list), 0);
    call.grad_output.tensor = nullptr;  // the list destroyed it
    CHECK_EQUAL(aclDestroyAclOpExecutor(call.executor), 0);
    CHECK_EQUAL(call.phase_two(), ACLNN_ERR_RUNTIME_ERROR);
}

TEST(repointed_between_phases, "phase 2 uses the address of its own moment and the shape of phase 1") {
    Device device;
    Convolution call;
    CHECK_EQUAL(call.phase_one(), 0);
    DeviceTensor other({2, 2, 7, 7}, 5, ACL_FORMAT_NCHW);
    const int64_t one[] = {1};
    CHECK_EQUAL(aclInitTensor(call.grad_output.tensor, one, 1, ACL_INT8, nullptr, 0, ACL_FORMAT_ND, one, 1, other.address), 0);
    CHECK_EQUAL(call.phase_two(), 0);
    CHECK(all_are(call.grad_input.read(), 10));
}

TEST(other_thread, "phase 2 runs on another thread; tensors go right after it, before any synchronise") {
    Device device;
    Convolution call;
    CHECK_EQUAL(call.phase_one(), 0);
    std::thread([&call] {
        CHECK_EQUAL(call.phase_two(), 0);
        for (DeviceTensor *tensor : {&call.grad_output, &call.input, &call.weight, &call.grad_input, &call.grad_weight, &call.grad_bias}) {
            CHECK_EQUAL(aclDestroyTensor(tensor->tensor), 0);
            tensor->tensor = nullptr;
        }
    }).join();
    CHECK_EQUAL(aclrtSynchronizeStream(nullptr), 0);
    CHECK(call.is_right());
}

TEST(tensors_destroyed_between_phases, "an executor keeps what it needs of tensors destroyed too early") {
    Device device;
    Convolution call;
    CHECK_EQUAL(call.phase_one(), 0);
    for (DeviceTensor *tensor : {&call.grad_output, &call.input, &call.weight, &call.grad_input, &call.grad_weight, &call.grad_bias}) {
        CHECK_EQUAL(aclDestroyTensor(tensor->tensor), 0);
        tensor->tensor = nullptr;
    }
    CHECK_EQUAL(call.phase_two(), 0);
    CHECK(call.is_right());
}

TEST(two_threads_two_streams, "two threads with a stream each compute at the same time, sixteen runs each") {
    Device device;
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i)
        threads.emplace_back([] {
            CHECK_EQUAL(aclrtSetDevice(0), 0);
            aclrtStream stream = nullptr;
            CHECK_EQUAL(aclrtCreateStream(&stream), 0);
            for (int round = 0; round < 16; ++round) {
                Convolution call;
                CHECK_EQUAL(call.phase_one(), 0);
                CHECK_EQUAL(aclnnConvolutionBackward(nullptr, 0, call.executor, stream), 0);
                CHECK_EQUAL(aclrtSynchronizeStream(stream), 0);
                CHECK(call.is_right());
            }
            CHECK_EQUAL(aclrtDestroyStream(stream), 0);
            CHECK_EQUAL(aclrtResetDevice(0), 0);
        });
    for (std::thread &thread : threads) thread.join();
}

TEST(racing_runs, "of many threads that run one executor exactly one succeeds") {
    Device device;
    Convolution call;
    CHECK_EQUAL(call.phase_one(), 0);
    std::atomic<int> successes{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i)
        threads.emplace_back([&] { successes += aclnnConvolutionBackward(nullptr, 0, call.executor, nullptr) == 0; });
    for (std::thread &thread : threads) thread.join();
    CHECK_EQUAL(successes.load(), 1);
    CHECK(call.is_right());
}

TEST(addresses, "host pointers, null, freed blocks and views that leave their block are 361001, nothing is written") {
    Device device;
    std::vector<float> host(196, 1);
    void *freed = nullptr, *small = nullptr, *large = nullptr;
    CHECK_EQUAL(aclrtMalloc(&small, 64, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    CHECK_EQUAL(aclrtMalloc(&large, 1 << 20, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    CHECK_EQUAL(aclrtMalloc(&freed, 4 << 20, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    CHECK_EQUAL(aclrtFree(freed), 0);
    void *odd = static_cast<char *>(large) + 2;
    for (void *wrong : {static_cast<void *>(host.data()), static_cast<void *>(nullptr), freed, small, odd, reinterpret_cast<void *>(UINTPTR_MAX - 3)}) {
        Convolution call;
        CHECK_EQUAL(call.phase_one(), 0);
        CHECK_EQUAL(aclSetRawTensorAddr(call.grad_input.tensor, wrong), 0);
        CHECK_EQUAL(call.phase_two(), ACLNN_ERR_RUNTIME_ERROR);
        CHECK(says("grad_input"));
        CHECK_EQUAL(aclSetRawTensorAddr(call.grad_input.tensor, call.grad_input.address), 0);
        CHECK(call.is_untouched());
    }
    CHECK_EQUAL(aclrtFree(small), 0);
    CHECK_EQUAL(aclrtFree(large), 0);
}

TEST(strided_views, "views with strides and offsets are read and written where they say, and nowhere else") {
    Device device;
    Convolution call;
    // grad_input as channel-last inside a larger block: strides (n, c, h, w) = (98, 1, 14, 2), offset 3.
    DeviceTensor room({400}, -7, ACL_FORMAT_ND);
    const int64_t shape[] = {2, 2, 7, 7}, strides[] = {98, 1, 14, 2}, storage[] = {400};
    CHECK_EQUAL(aclInitTensor(call.grad_input.tensor, shape, 4, ACL_FLOAT, strides, 3, ACL_FORMAT_NCHW, storage, 1, room.address), 0);
    // grad_output twice the same row: stride 0 over the batch is legal to read.
    const int64_t repeated[] = {0, 49, 7, 1};
    CHECK_EQUAL(aclInitTensor(call.grad_output.tensor, shape, 4, ACL_FLOAT, repeated, 0, ACL_FORMAT_NCHW, storage, 1, call.grad_output.address), 0);
    CHECK_EQUAL(call.phase_one(), 0);
    CHECK_EQUAL(call.phase_two(), 0);
    const std::vector<float> values = room.read();
    CHECK(all_are(std::vector<float>(values.begin(), values.begin() + 3), -7));
    CHECK(all_are(std::vector<float>(values.begin() + 3, values.begin() + 199), 2));
    CHECK(all_are(std::vector<float>(values.begin() + 199, values.end()), -7));
    CHECK(all_are(call.grad_weight.read(), 98));
    // A negative stride walks backwards from the offset.
    const int64_t backwards[] = {-98, -49, -7, -1};
    CHECK_EQUAL(aclInitTensor(call.grad_input.tensor, shape, 4, ACL_FLOAT, backwards, 195, ACL_FORMAT_NCHW, storage, 1, room.address), 0);
    CHECK_EQUAL(call.phase_one(), 0);
    CHECK_EQUAL(call.phase_two(), 0);
    CHECK_EQUAL(aclInitTensor(call.grad_input.tensor, shape, 4, ACL_FLOAT, backwards, 194, ACL_FORMAT_NCHW, storage, 1, room.address), 0);
    CHECK_EQUAL(call.phase_one(), 0);
    CHECK_EQUAL(call.phase_two(), ACLNN_ERR_RUNTIME_ERROR);
    const int64_t endless[] = {INT64_MAX, INT64_MAX, INT64_MIN, 1};
    CHECK_EQUAL(aclInitTensor(call.grad_input.tensor, shape, 4, ACL_FLOAT, endless, INT64_MAX, ACL_FORMAT_NCHW, storage, 1, room.address), 0);
    CHECK_EQUAL(call.phase_one(), ACLNN_ERR_PARAM_INVALID);
    CHECK(says("reach further than"));
}

TEST(aliases, "outputs that overlap inputs or themselves still get results of the original inputs") {
    Device device;
    Convolution call;
    CHECK_EQUAL(aclSetRawTensorAddr(call.grad_input.tensor, call.grad_output.address), 0);
    CHECK_EQUAL(call.phase_one(), 0);
    CHECK_EQUAL(call.phase_two(), 0);
    CHECK(all_are(call.grad_output.read(), 2) && all_are(call.grad_weight.read(), 98) && all_are(call.grad_bias.read(), 98));
    Convolution folded;
    const int64_t shape[] = {2, 2, 7, 7}, one_cell[] = {0, 0, 0, 0}, storage[] = {196};
    CHECK_EQUAL(aclInitTensor(folded.grad_input.tensor, shape, 4, ACL_FLOAT, one_cell, 0, ACL_FORMAT_NCHW, storage, 1, folded.grad_input.address), 0);
    CHECK_EQUAL(folded.phase_one(), 0);
    CHECK_EQUAL(folded.phase_two(), 0);
    CHECK(folded.grad_input.read()[0] == 2 && folded.grad_input.read()[1] == -7);
}

TEST(time_batch_channel, "TBC gives 2, 5, 5 on ones; an empty input gives zeros and the true bias sum") {
    Device device;
    uint64_t size = 0;
    aclOpExecutor *executor = nullptr;
    {
        DeviceTensor self({5, 1, 2}, 1, ACL_FORMAT_ND), input({5, 1, 2}, 1, ACL_FORMAT_ND), weight({1, 2, 2}, 1, ACL_FORMAT_ND),
            bias({2}, 1, ACL_FORMAT_ND), grad_input({5, 1, 2}, -7, ACL_FORMAT_ND), grad_weight({1, 2, 2}, -7, ACL_FORMAT_ND),
            grad_bias({2}, -7, ACL_FORMAT_ND);
        CHECK_EQUAL(aclnnConvTbcBackwardGetWorkspaceSize(self.tensor, input.tensor, weight.tensor, bias.tensor, 0, 1, grad_input.tensor,
                                                         grad_weight.tensor, grad_bias.tensor, &size, &executor), 0);
        CHECK_EQUAL(aclnnConvTbcBackward(nullptr, 0, executor, nullptr), 0);
        CHECK(all_are(grad_input.read(), 2) && all_are(grad_weight.read(), 5) && all_are(grad_bias.read(), 5));
    }
    {  // T_in = 0, pad 2, K = 1: T_out = 4
        DeviceTensor self({4, 3, 2}, 1, ACL_FORMAT_ND), input({0, 3, 2}, 1, ACL_FORMAT_ND), weight({1, 2, 2}, 1, ACL_FORMAT_ND),
            bias({2}, 1, ACL_FORMAT_ND), grad_input({0, 3, 2}, -7, ACL_FORMAT_ND), grad_weight({1, 2, 2}, -7, ACL_FORMAT_ND),
            grad_bias({2}, -7, ACL_FORMAT_ND);
        CHECK_EQUAL(aclnnConvTbcBackwardGetWorkspaceSize(self.tensor, input.tensor, weight.tensor, bias.tensor, 2, 0, grad_input.tensor,
                                                         grad_weight.tensor, grad_bias.tensor, &size, &executor), 0);
        CHECK_EQUAL(aclnnConvTbcBackward(nullptr, 0, executor, nullptr), 0);
        CHECK(all_are(grad_weight.read(), 0) && all_are(grad_bias.read(), 12));
    }
}

TEST(empty_batch, "an empty call reads nothing and gives zeros, whatever its operands point at") {
    Device device;
    const int64_t shape[] = {0, 2, 7, 7};
    Convolution call;
    for (DeviceTensor *tensor : {&call.grad_output, &call.input, &call.grad_input})
        CHECK_EQUAL(aclInitTensor(tensor->tensor, shape, 4, ACL_FLOAT, nullptr, 0, ACL_FORMAT_NCHW, shape, 4, nullptr), 0);
    CHECK_EQUAL(aclSetRawTensorAddr(call.weight.tensor, nullptr), 0);
    CHECK_EQUAL(call.phase_one(), 0);
    CHECK_EQUAL(call.phase_two(), 0);
    CHECK(all_are(call.grad_weight.read(), 0) && all_are(call.grad_bias.read(), 0) && all_are(call.grad_input.read(), -7));
}

TEST(after_finalize, "what a failing program does at its end is an error code: double finalise, late frees, stale stream") {
    aclrtStream stream = nullptr;
    std::unique_ptr<Convolution> call;
    {
        Device device;
        CHECK_EQUAL(aclrtCreateStream(&stream), 0);
        call.reset(new Convolution);
        CHECK_EQUAL(call->phase_one(), 0);
        CHECK_EQUAL(aclrtDestroyStream(stream), 0);
    }
    CHECK_EQUAL(aclrtDestroyStream(stream), ACL_ERROR_RT_INVALID_HANDLE);
    CHECK_EQUAL(aclrtResetDevice(0), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_EQUAL(aclFinalize(), ACL_ERROR_REPEAT_FINALIZE);
    CHECK_EQUAL(call->phase_two(), 0);
    CHECK(call->is_right());
}

int main(int count, char **arguments) { return run_tests(count, arguments); }
