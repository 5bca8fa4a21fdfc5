// 3-D: stride 2 leaves voxels no window starts at; only the weight's and the input's gradients are asked for.
#include "device.h"

int main() {
    Device device;
    Tensor grad_output({2, 3, 3, 3, 3}, 1, ACL_FORMAT_NCDHW), input({2, 2, 7, 7, 7}, 1, ACL_FORMAT_NCDHW), weight({3, 2, 3, 3, 3}, 1, ACL_FORMAT_NCDHW);
    Tensor grad_input({2, 2, 7, 7, 7}, 0, ACL_FORMAT_NCDHW), grad_weight({3, 2, 3, 3, 3}, 0, ACL_FORMAT_NCDHW);
    Ints bias_sizes{3}, stride{2, 2, 2}, padding{0, 0, 0}, dilation{1, 1, 1}, output_padding{0, 0, 0};
    Mask no_bias(true, true, false);
    uint64_t size = 0;
    aclOpExecutor *executor = nullptr;
    check(aclnnConvolutionBackwardGetWorkspaceSize(grad_output.handle, input.handle, weight.handle, bias_sizes.handle, stride.handle,
                                                   padding.handle, dilation.handle, false, output_padding.handle, 1, no_bias.handle, 0,
                                                   grad_input.handle, grad_weight.handle, nullptr, &size, &executor),
          "phase 1");
    run(aclnnConvolutionBackward, size, executor, device.stream);
    show("gradInput", grad_input);
    show("gradWeight", grad_weight);
}
