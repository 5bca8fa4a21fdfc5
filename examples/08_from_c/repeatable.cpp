// One check, many runs: a repeatable executor, pointed at other data before its second run.
#include "device.h"

int main() {
    Device device;
    Tensor self({5, 1, 2}, 1), input({5, 1, 2}, 1), weight({1, 2, 2}, 1), bias({2}, 1), tenfold({5, 1, 2}, 10);
    Tensor grad_input({5, 1, 2}, 0), grad_weight({1, 2, 2}, 0), grad_bias({2}, 0);
    uint64_t size = 0;
    aclOpExecutor *executor = nullptr;
    check(aclnnConvTbcBackwardGetWorkspaceSize(self.handle, input.handle, weight.handle, bias.handle, 0, 0, grad_input.handle,
                                               grad_weight.handle, grad_bias.handle, &size, &executor),
          "phase 1");
    check(aclSetAclOpExecutorRepeatable(executor), "aclSetAclOpExecutorRepeatable");
    run(aclnnConvTbcBackward, size, executor, device.stream);
    show("gradBias", grad_bias);
    check(aclSetInputTensorAddr(executor, 0, self.handle, tenfold.address()), "aclSetInputTensorAddr");
    run(aclnnConvTbcBackward, size, executor, device.stream);
    show("gradBias", grad_bias);
    check(aclDestroyAclOpExecutor(executor), "aclDestroyAclOpExecutor");
}
