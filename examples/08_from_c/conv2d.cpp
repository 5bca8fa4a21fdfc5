// 2-D: 3 x 3 window, padding 1. Inside the image nine windows touch a pixel, at an edge six, in a corner four.
#include "device.h"

int main() {
    Device device;
    Tensor grad_output({1, 4, 8, 8}, 1, ACL_FORMAT_NCHW), input({1, 2, 8, 8}, 1, ACL_FORMAT_NCHW), weight({4, 2, 3, 3}, 1, ACL_FORMAT_NCHW);
    Tensor grad_input({1, 2, 8, 8}, 0, ACL_FORMAT_NCHW), grad_weight({4, 2, 3, 3}, 0, ACL_FORMAT_NCHW), grad_bias({4}, 0);
    Ints bias_sizes{4}, stride{1, 1}, padding{1, 1}, dilation{1, 1}, output_padding{0, 0};
    Mask all(true, true, true);
    uint64_t size = 0;
    aclOpExecutor *executor = nullptr;
    check(aclnnConvolutionBackwardGetWorkspaceSize(grad_output.handle, input.handle, weight.handle, bias_sizes.handle, stride.handle,
                                                   padding.handle, dilation.handle, false, output_padding.handle, 1, all.handle, 0,
                                                   grad_input.handle, grad_weight.handle, grad_bias.handle, &size, &executor),
          "phase 1");
    run(aclnnConvolutionBackward, size, executor, device.stream);
    show("gradInput", grad_input);
    show("gradWeight", grad_weight);
    show("gradBias", grad_bias);
}
