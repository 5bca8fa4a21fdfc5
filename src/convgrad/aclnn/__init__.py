"""The two-phase API of the vendor, in Python: same names, same argument order, the status returned last.

    size, executor, ret = aclnn.aclnnConvolutionBackwardGetWorkspaceSize(gradOutput, input, weight, biasSizes, ...)
    ret = aclnn.aclnnConvolutionBackward(workspace, size, executor, stream)

Tensors are arrays, `convgrad.Tensor`s or what `aclCreateTensor` gives; null is `None`; int and bool arrays are plain
sequences. A refused call returns its status and raises nothing; `aclGetRecentErrMsg()` says why. What has no
format of its own, an array or a `Tensor` made without one, is NCL, NCHW or NCDHW by rank (ND in TBC calls, and for a
bias).

The product comes from `set_product(...)`, else `CONVGRAD_PRODUCT`, else A2; the conformance from
`set_conformance(...)`, else `CONVGRAD_CONFORMANCE`, else `document`.
"""

from convgrad.aclnn.error_text import aclGetRecentErrMsg
from convgrad.aclnn.executors import (
    aclDestroyAclOpExecutor,
    aclOpExecutor,
    aclSetAclOpExecutorRepeatable,
    aclSetInputTensorAddr,
    aclSetOutputTensorAddr,
    aclSetTensorAddr,
)
from convgrad.aclnn.operators import (
    aclnnConvolutionBackward,
    aclnnConvolutionBackwardGetWorkspaceSize,
    aclnnConvTbcBackward,
    aclnnConvTbcBackwardGetWorkspaceSize,
)
from convgrad.aclnn.settings import (
    ACL_OPT_DETERMINISTIC,
    aclrtCtxGetSysParamOpt,
    aclrtCtxSetSysParamOpt,
    aclrtGetSysParamOpt,
    aclrtSetSysParamOpt,
    conformance,
    product,
    set_conformance,
    set_product,
)
from convgrad.aclnn.tensors import aclCreateTensor, aclDestroyTensor, aclTensor
from convgrad.core.status import Status

KEEP_DTYPE, ALLOW_FP32_DOWN_PRECISION, USE_FP16, USE_HF32 = range(4)

__all__ = [
    "ACL_OPT_DETERMINISTIC",
    "ALLOW_FP32_DOWN_PRECISION",
    "KEEP_DTYPE",
    "USE_FP16",
    "USE_HF32",
    "Status",
    "aclCreateTensor",
    "aclDestroyAclOpExecutor",
    "aclDestroyTensor",
    "aclGetRecentErrMsg",
    "aclOpExecutor",
    "aclSetAclOpExecutorRepeatable",
    "aclSetInputTensorAddr",
    "aclSetOutputTensorAddr",
    "aclSetTensorAddr",
    "aclTensor",
    "aclnnConvTbcBackward",
    "aclnnConvTbcBackwardGetWorkspaceSize",
    "aclnnConvolutionBackward",
    "aclnnConvolutionBackwardGetWorkspaceSize",
    "aclrtCtxGetSysParamOpt",
    "aclrtCtxSetSysParamOpt",
    "aclrtGetSysParamOpt",
    "aclrtSetSysParamOpt",
    "conformance",
    "product",
    "set_conformance",
    "set_product",
]
