// Time-batch-channel: tensors are (T, B, C), the weight is (K, C in, C out); all three gradients come always.
#include "device.h"

int main() {
    Device device;
    // T out = 10 + 2 * 1 - 3 + 1 = 10
    Tensor self({10, 2, 4}, 1), input({10, 2, 3}, 1), weight({3, 3, 4}, 1), bias({4}, 1);
    Tensor grad_input({10, 2, 3}, 0), grad_weight({3, 3, 4}, 0), grad_bias({4}, 0);
    uint64_t size = 0;
    aclOpExecutor *executor = nullptr;
    check(aclnnConvTbcBackwardGetWorkspaceSize(self.handle, input.handle, weight.handle, bias.handle, 1, 0, grad_input.handle,
                                               grad_weight.handle, grad_bias.handle, &size, &executor),
          "phase 1");
    run(aclnnConvTbcBackward, size, executor, device.stream);
    show("gradInput", grad_input);
    show("gradWeight", grad_weight);
    show("gradBias", grad_bias);
}
