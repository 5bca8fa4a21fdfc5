// Two threads, each with its stream; an event of the first is waited for by the second.
#include <thread>

#include "device.h"

static void compute(aclrtStream stream, float value, Tensor *grad_bias) {
    check(aclrtSetDevice(0), "aclrtSetDevice");  // a device is selected per thread
    {
        Tensor self({5, 1, 2}, value), input({5, 1, 2}, 1), weight({1, 2, 2}, 1), bias({2}, 1), grad_input({5, 1, 2}, 0), grad_weight({1, 2, 2}, 0);
        uint64_t size = 0;
        aclOpExecutor *executor = nullptr;
        check(aclnnConvTbcBackwardGetWorkspaceSize(self.handle, input.handle, weight.handle, bias.handle, 0, 0, grad_input.handle,
                                                   grad_weight.handle, grad_bias->handle, &size, &executor),
              "phase 1");
        run(aclnnConvTbcBackward, size, executor, stream);
    }
    check(aclrtResetDevice(0), "aclrtResetDevice");
}

int main() {
    Device device;
    aclrtStream other = nullptr;
    aclrtEvent first_is_done = nullptr;
    check(aclrtCreateStream(&other), "aclrtCreateStream");
    check(aclrtCreateEvent(&first_is_done), "aclrtCreateEvent");
    {
        Tensor one({2}, 0), two({2}, 0);
        std::thread first(compute, device.stream, 1.0f, &one), second(compute, other, 2.0f, &two);
        first.join();
        second.join();
        check(aclrtRecordEvent(first_is_done, device.stream), "aclrtRecordEvent");
        check(aclrtStreamWaitEvent(other, first_is_done), "aclrtStreamWaitEvent");
        check(aclrtSynchronizeStream(other), "aclrtSynchronizeStream");
        show("first", one);
        show("second", two);
    }
    aclrtDestroyEvent(first_is_done);
    aclrtDestroyStream(other);
}
