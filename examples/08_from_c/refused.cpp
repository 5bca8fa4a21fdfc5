// A call the contract refuses: the status says which kind of mistake, the message which rule and which value.
#include <cstring>

#include "device.h"

int main() {
    Device device;
    Tensor grad_output({1, 4, 8, 8}, 1, ACL_FORMAT_NCHW), input({1, 2, 8, 8}, 1, ACL_FORMAT_NCHW), weight({4, 2, 3, 3}, 1, ACL_FORMAT_NCHW);
    Tensor grad_input({1, 2, 8, 8}, 0, ACL_FORMAT_NCHW), grad_weight({4, 2, 3, 3}, 0, ACL_FORMAT_NCHW), grad_bias({4}, 0);
    Ints bias_sizes{4}, stride{1, 1}, padding{0, 0}, dilation{1, 1}, output_padding{0, 0};  // padding should be 1, 1
    Mask all(true, true, true);
    uint64_t size = 0;
    aclOpExecutor *executor = nullptr;
    const int status = aclnnConvolutionBackwardGetWorkspaceSize(
        grad_output.handle, input.handle, weight.handle, bias_sizes.handle, stride.handle, padding.handle, dilation.handle, false,
        output_padding.handle, 1, all.handle, 0, grad_input.handle, grad_weight.handle, grad_bias.handle, &size, &executor);
    std::printf("status %d\n", status);
    const char *message = aclGetRecentErrMsg();
    const char *words = message ? std::strstr(message, "): ") : nullptr;  // behind process, time and class
    if (words) std::printf("%s", words + 3);
    return status == 161002 ? 0 : 1;
}
