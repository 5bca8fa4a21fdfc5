"""The vendor's two-phase call in Python: statuses instead of exceptions, an executor, outputs written in place."""

import numpy as np

from convgrad import aclnn

grad_output = np.ones((2, 2, 7, 7), np.float32)
x = np.ones((2, 2, 7, 7), np.float32)
weight = np.ones((2, 2, 1, 1), np.float32)
grad_input, grad_weight, grad_bias = np.empty_like(x), np.empty_like(weight), np.empty(2, np.float32)

aclnn.set_product("Ascend910B3")
size, executor, ret = aclnn.aclnnConvolutionBackwardGetWorkspaceSize(
    grad_output, x, weight, [2], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, True, True],
    aclnn.ALLOW_FP32_DOWN_PRECISION, grad_input, grad_weight, grad_bias,
)  # fmt: skip
workspace = np.empty(size, np.uint8)
ret = aclnn.aclnnConvolutionBackward(workspace, size, executor, None)
print("first run  ", int(ret), grad_input[0, 0, 0, 0], grad_weight[0, 0, 0, 0], grad_bias[0])

# An executor runs once ...
print("second run ", int(aclnn.aclnnConvolutionBackward(workspace, size, executor, None)))
print(aclnn.aclGetRecentErrMsg().partition(" AclNN")[2].strip())

# ... unless it is made repeatable; then each run reads the data, and the addresses, of its own moment.
tbc = [np.ones(shape, np.float32) for shape in ((5, 1, 2), (5, 1, 2), (1, 2, 2), (2,))]
gradients = [np.empty_like(t) for t in tbc[1:]]
size, executor, ret = aclnn.aclnnConvTbcBackwardGetWorkspaceSize(*tbc, 0, aclnn.KEEP_DTYPE, *gradients)
aclnn.aclSetAclOpExecutorRepeatable(executor)
for scale in (1, 2):
    tbc[0][...] = scale
    ret = aclnn.aclnnConvTbcBackward(None, 0, executor, None)
    print("tbc        ", int(ret), *(float(g.flat[0]) for g in gradients))
aclnn.aclDestroyAclOpExecutor(executor)

# A refused call raises nothing and writes nothing; the message names the rule and a line that reproduces it.
size, executor, ret = aclnn.aclnnConvTbcBackwardGetWorkspaceSize(*tbc, 300, aclnn.KEEP_DTYPE, *gradients)
print("refused    ", int(ret), executor)
print(aclnn.aclGetRecentErrMsg().partition(" AclNN")[2].strip())
