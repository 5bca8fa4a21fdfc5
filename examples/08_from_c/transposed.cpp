// Transposed: the weight is (input channels, output channels per group, window); output padding explains the larger side.
#include "device.h"

int main() {
    Device device;
    // output size (5 - 1) * 2 - 2 * 1 + 3 + 1 = 10
    Tensor grad_output({1, 3, 10, 10}, 1, ACL_FORMAT_NCHW), input({1, 2, 5, 5}, 1, ACL_FORMAT_NCHW), weight({2, 3, 3, 3}, 1, ACL_FORMAT_NCHW);
    Tensor grad_input({1, 2, 5, 5}, 0, ACL_FORMAT_NCHW), grad_weight({2, 3, 3, 3}, 0, ACL_FORMAT_NCHW), grad_bias({3}, 0);
    Ints bias_sizes{3}, stride{2, 2}, padding{1, 1}, dilation{1, 1}, output_padding{1, 1};
    Mask all(true, true, true);
    uint64_t size = 0;
    aclOpExecutor *executor = nullptr;
    check(aclnnConvolutionBackwardGetWorkspaceSize(grad_output.handle, input.handle, weight.handle, bias_sizes.handle, stride.handle,
                                                   padding.handle, dilation.handle, true, output_padding.handle, 1, all.handle, 0,
                                                   grad_input.handle, grad_weight.handle, grad_bias.handle, &size, &executor),
          "phase 1");
    run(aclnnConvolutionBackward, size, executor, device.stream);
    show("gradInput", grad_input);
    show("gradWeight", grad_weight);
    show("gradBias", grad_bias);
}
