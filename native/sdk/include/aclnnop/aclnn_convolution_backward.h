/* Gradients of a convolution: 1-D, 2-D, 3-D, plain or transposed, and of the time-batch-channel convolution.
 *
 * Both operators have two phases. The first checks the call, writes the workspace size and an executor, and on a
 * refusal writes neither; aclGetRecentErrMsg() then tells the broken rule. The second runs the executor. */
#ifndef CONVGRAD_SDK_ACLNN_CONVOLUTION_BACKWARD_H
#define CONVGRAD_SDK_ACLNN_CONVOLUTION_BACKWARD_H

#include "aclnn/aclnn_base.h"
#include "aclnnop/aclnn_util.h"

#ifdef __cplusplus
extern "C" {
#endif

ACLNN_API aclnnStatus aclnnConvolutionBackwardGetWorkspaceSize(
    const aclTensor *gradOutput, const aclTensor *input, const aclTensor *weight, const aclIntArray *biasSizes,
    const aclIntArray *stride, const aclIntArray *padding, const aclIntArray *dilation, bool transposed,
    const aclIntArray *outputPadding, int groups, const aclBoolArray *outputMask, int8_t cubeMathType,
    aclTensor *gradInput, aclTensor *gradWeight, aclTensor *gradBias, uint64_t *workspaceSize,
    aclOpExecutor **executor);

ACLNN_API aclnnStatus aclnnConvolutionBackward(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                                               const aclrtStream stream);

/* self is the gradient of the forward output. */
ACLNN_API aclnnStatus aclnnConvTbcBackwardGetWorkspaceSize(
    const aclTensor *self, const aclTensor *input, const aclTensor *weight, const aclTensor *bias, int64_t pad,
    int8_t cubeMathType, aclTensor *gradInput, aclTensor *gradWeight, aclTensor *gradBias, uint64_t *workspaceSize,
    aclOpExecutor **executor);

ACLNN_API aclnnStatus aclnnConvTbcBackward(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                                           const aclrtStream stream);

#ifdef __cplusplus
}
#endif
#endif
