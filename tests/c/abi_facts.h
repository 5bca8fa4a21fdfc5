/* The interface facts, written down a second time: a header that drifts from them does not compile with this file.
 * Valid C11 and C++11. Declaring a function again with another type is an error in both languages. */
#ifndef TESTS_ABI_FACTS_H
#define TESTS_ABI_FACTS_H

#include "acl/acl.h"
#include "aclnn/opdev/op_errno.h"
#include "aclnnop/aclnn_convolution_backward.h"
#include "aclnnop/level2/aclnn_convolution_backward.h"

#ifdef __cplusplus
#define FACT(condition) static_assert(condition, #condition)
#else
#define FACT(condition) _Static_assert(condition, #condition)
#endif
#define IS(name, value) FACT((name) == (value))

/* aclDataType */
IS(ACL_DT_UNDEFINED, -1); IS(ACL_FLOAT, 0); IS(ACL_FLOAT16, 1); IS(ACL_INT8, 2); IS(ACL_INT32, 3); IS(ACL_UINT8, 4);
IS(ACL_INT16, 6); IS(ACL_UINT16, 7); IS(ACL_UINT32, 8); IS(ACL_INT64, 9); IS(ACL_UINT64, 10); IS(ACL_DOUBLE, 11);
IS(ACL_BOOL, 12); IS(ACL_STRING, 13); IS(ACL_COMPLEX64, 16); IS(ACL_COMPLEX128, 17); IS(ACL_BF16, 27);
IS(ACL_INT4, 29); IS(ACL_UINT1, 30); IS(ACL_COMPLEX32, 33); IS(ACL_HIFLOAT8, 34); IS(ACL_FLOAT8_E5M2, 35);
IS(ACL_FLOAT8_E4M3FN, 36); IS(ACL_FLOAT8_E8M0, 37); IS(ACL_FLOAT6_E3M2, 38); IS(ACL_FLOAT6_E2M3, 39);
IS(ACL_FLOAT4_E2M1, 40); IS(ACL_FLOAT4_E1M2, 41);

/* aclFormat */
IS(ACL_FORMAT_UNDEFINED, -1); IS(ACL_FORMAT_NCHW, 0); IS(ACL_FORMAT_NHWC, 1); IS(ACL_FORMAT_ND, 2);
IS(ACL_FORMAT_NC1HWC0, 3); IS(ACL_FORMAT_FRACTAL_Z, 4); IS(ACL_FORMAT_NC1HWC0_C04, 12); IS(ACL_FORMAT_HWCN, 16);
IS(ACL_FORMAT_NDHWC, 27); IS(ACL_FORMAT_FRACTAL_NZ, 29); IS(ACL_FORMAT_NCDHW, 30); IS(ACL_FORMAT_NDC1HWC0, 32);
IS(ACL_FRACTAL_Z_3D, 33); IS(ACL_FORMAT_NC, 35); IS(ACL_FORMAT_NCL, 47); IS(ACL_FORMAT_FRACTAL_NZ_C0_16, 50);
IS(ACL_FORMAT_FRACTAL_NZ_C0_32, 51); IS(ACL_FORMAT_FRACTAL_NZ_C0_2, 52); IS(ACL_FORMAT_FRACTAL_NZ_C0_4, 53);
IS(ACL_FORMAT_FRACTAL_NZ_C0_8, 54);

/* aclrtMemcpyKind, aclrtMemMallocPolicy, aclrtMemAttr */
IS(ACL_MEMCPY_HOST_TO_HOST, 0); IS(ACL_MEMCPY_HOST_TO_DEVICE, 1); IS(ACL_MEMCPY_DEVICE_TO_HOST, 2);
IS(ACL_MEMCPY_DEVICE_TO_DEVICE, 3); IS(ACL_MEMCPY_DEFAULT, 4); IS(ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, 5);
IS(ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, 6); IS(ACL_MEMCPY_INTER_DEVICE_TO_DEVICE, 7);
IS(ACL_MEM_MALLOC_HUGE_FIRST, 0); IS(ACL_MEM_MALLOC_HUGE_ONLY, 1); IS(ACL_MEM_MALLOC_NORMAL_ONLY, 2);
IS(ACL_MEM_MALLOC_HUGE_FIRST_P2P, 3); IS(ACL_MEM_MALLOC_HUGE_ONLY_P2P, 4); IS(ACL_MEM_MALLOC_NORMAL_ONLY_P2P, 5);
IS(ACL_MEM_MALLOC_HUGE1G_ONLY, 6); IS(ACL_MEM_MALLOC_HUGE1G_ONLY_P2P, 7); IS(ACL_MEM_TYPE_LOW_BAND_WIDTH, 0x100);
IS(ACL_MEM_TYPE_HIGH_BAND_WIDTH, 0x1000); IS(ACL_MEM_ACCESS_USER_SPACE_READONLY, 0x100000);
IS(ACL_DDR_MEM, 0); IS(ACL_HBM_MEM, 1); IS(ACL_DDR_MEM_HUGE, 2); IS(ACL_DDR_MEM_NORMAL, 3); IS(ACL_HBM_MEM_HUGE, 4);
IS(ACL_HBM_MEM_NORMAL, 5); IS(ACL_DDR_MEM_P2P_HUGE, 6); IS(ACL_DDR_MEM_P2P_NORMAL, 7); IS(ACL_HBM_MEM_P2P_HUGE, 8);
IS(ACL_HBM_MEM_P2P_NORMAL, 9); IS(ACL_HBM_MEM_HUGE1G, 10); IS(ACL_HBM_MEM_P2P_HUGE1G, 11);

/* Other enumerations and flags */
IS(ACL_OPT_DETERMINISTIC, 0); IS(ACL_OPT_ENABLE_DEBUG_KERNEL, 1); IS(ACL_OPT_STRONG_CONSISTENCY, 2);
IS(ACL_OPT_ENABLE_KERNEL_EARLY_START, 3); IS(ACL_DEVICE, 0); IS(ACL_HOST, 1); IS(ACL_STREAM_STATUS_COMPLETE, 0);
IS(ACL_STREAM_STATUS_NOT_READY, 1); IS(ACL_STREAM_STATUS_RESERVED, 0xFFFF); IS(ACL_EVENT_STATUS_COMPLETE, 0);
IS(ACL_EVENT_STATUS_NOT_READY, 1); IS(ACL_EVENT_STATUS_RESERVED, 2); IS(ACL_EVENT_RECORDED_STATUS_NOT_READY, 0);
IS(ACL_EVENT_RECORDED_STATUS_COMPLETE, 1); IS(ACL_EVENT_WAIT_STATUS_COMPLETE, 0); IS(ACL_EVENT_WAIT_STATUS_NOT_READY, 1);
IS(ACL_EVENT_WAIT_STATUS_RESERVED, 0xFFFF); IS(ACL_RT_THREAD_LEVEL, 0); IS(ACL_DEBUG, 0); IS(ACL_INFO, 1);
IS(ACL_WARNING, 2); IS(ACL_ERROR, 3); IS(ACL_MEMTYPE_DEVICE, 0); IS(ACL_MEMTYPE_HOST, 1);
IS(ACL_MEMTYPE_HOST_COMPILE_INDEPENDENT, 2); IS(ACL_EVENT_SYNC, 1); IS(ACL_EVENT_CAPTURE_STREAM_PROGRESS, 2);
IS(ACL_EVENT_TIME_LINE, 8); IS(ACL_EVENT_DEVICE_USE_ONLY, 0x10); IS(ACL_EVENT_EXTERNAL, 0x20); IS(ACL_EVENT_IPC, 0x40);
IS(ACL_STREAM_FAST_LAUNCH, 1); IS(ACL_STREAM_FAST_SYNC, 2); IS(ACL_STREAM_PERSISTENT, 4); IS(ACL_STREAM_HUGE, 8);
IS(ACL_STREAM_CPU_SCHEDULE, 0x10); IS(ACL_STREAM_DEVICE_USE_ONLY, 0x20); IS(ACL_CONTINUE_ON_FAILURE, 0);
IS(ACL_STOP_ON_FAILURE, 1);

/* Statuses: the macros */
IS(ACL_ERROR_RT_PARAM_INVALID, 107000); IS(ACL_ERROR_RT_INVALID_DEVICEID, 107001); IS(ACL_ERROR_RT_CONTEXT_NULL, 107002);
IS(ACL_ERROR_RT_STREAM_CONTEXT, 107003); IS(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, 107006);
IS(ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL, 107007); IS(ACL_ERROR_RT_ADDR_UNALIGNED, 107008);
IS(ACL_ERROR_RT_INVALID_MEMORY_TYPE, 107016); IS(ACL_ERROR_RT_INVALID_HANDLE, 107017);
IS(ACL_ERROR_RT_INVALID_MALLOC_TYPE, 107018); IS(ACL_ERROR_RT_WAIT_TIMEOUT, 107019);
IS(ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, 107021); IS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, 207000);
IS(ACL_ERROR_RT_MEMORY_ALLOCATION, 207001); IS(ACL_ERROR_RT_MEMORY_FREE, 207002); IS(ACL_ERROR_RT_NO_DEVICE, 207004);
IS(ACL_ERROR_RT_DEVICE_OOM, 207018); IS(ACL_ERROR_RT_INTERNAL_ERROR, 507000); IS(ACL_ERROR_RT_STREAM_NOT_COMPLETE, 507004);
IS(ACL_ERROR_RT_EVENT_NOT_COMPLETE, 507006); IS(ACL_ERROR_RT_AICORE_EXCEPTION, 507015);
IS(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, 507046); IS(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, 507047);
IS(ACLNN_SUCCESS, 0); IS(ACLNN_ERR_PARAM_NULLPTR, 161001); IS(ACLNN_ERR_PARAM_INVALID, 161002);
IS(ACLNN_ERR_RUNTIME_ERROR, 361001); IS(ACLNN_ERR_INNER, 561000); IS(ACLNN_ERR_INNER_INFERSHAPE_ERROR, 561001);
IS(ACLNN_ERR_INNER_TILING_ERROR, 561002); IS(ACLNN_ERR_INNER_FIND_KERNEL_ERROR, 561003);
IS(ACLNN_ERR_INNER_CREATE_EXECUTOR, 561101); IS(ACLNN_ERR_INNER_NOT_TRANS_EXECUTOR, 561102);
IS(ACLNN_ERR_INNER_NULLPTR, 561103); IS(ACLNN_ERR_INNER_WRONG_ATTR_INFO_SIZE, 561104);
IS(ACLNN_ERR_INNER_KEY_CONFLICT, 561105); IS(ACLNN_ERR_INNER_KEY_CONFILICT, 561105);
IS(ACLNN_ERR_INNER_INVALID_IMPL_MODE, 561106); IS(ACLNN_ERR_INNER_OPP_PATH_NOT_FOUND, 561107);
IS(ACLNN_ERR_INNER_LOAD_JSON_FAILED, 561108); IS(ACLNN_ERR_INNER_JSON_VALUE_NOT_FOUND, 561109);
IS(ACLNN_ERR_INNER_JSON_FORMAT_INVALID, 561110); IS(ACLNN_ERR_INNER_JSON_DTYPE_INVALID, 561111);
IS(ACLNN_ERR_INNER_OPP_KERNEL_PKG_NOT_FOUND, 561112); IS(ACLNN_ERR_INNER_OP_FILE_INVALID, 561113);
IS(ACLNN_ERR_INNER_ATTR_NUM_OUT_OF_BOUND, 561114); IS(ACLNN_ERR_INNER_ATTR_LEN_NOT_ENOUGH, 561115);
IS(ACLNN_ERR_INNER_INPUT_NUM_IN_JSON_TOO_LARGE, 561116); IS(ACLNN_ERR_INNER_INPUT_JSON_IS_NULL, 561117);
IS(ACLNN_ERR_INNER_STATIC_WORKSPACE_INVALID, 561118); IS(ACLNN_ERR_INNER_STATIC_BLOCK_DIM_INVALID, 561119);

/* Statuses of acl_base are constants, which only C++ may use at compile time. */
#ifdef __cplusplus
IS(ACL_SUCCESS, 0); IS(ACL_ERROR_NONE, 0); IS(ACL_ERROR_INVALID_PARAM, 100000); IS(ACL_ERROR_UNINITIALIZE, 100001);
IS(ACL_ERROR_REPEAT_INITIALIZE, 100002); IS(ACL_ERROR_INVALID_FILE, 100003); IS(ACL_ERROR_WRITE_FILE, 100004);
IS(ACL_ERROR_INVALID_FILE_SIZE, 100005); IS(ACL_ERROR_PARSE_FILE, 100006); IS(ACL_ERROR_UNSUPPORTED_DATA_TYPE, 100026);
IS(ACL_ERROR_FORMAT_NOT_MATCH, 100027); IS(ACL_ERROR_REPEAT_FINALIZE, 100037); IS(ACL_ERROR_COMPILING_STUB_MODE, 100039);
IS(ACL_ERROR_DUMP_NOT_RUN, 100045); IS(ACL_ERROR_BAD_ALLOC, 200000); IS(ACL_ERROR_API_NOT_SUPPORT, 200001);
IS(ACL_ERROR_INVALID_DEVICE, 200002); IS(ACL_ERROR_MEMORY_ADDRESS_UNALIGNED, 200003);
IS(ACL_ERROR_RESOURCE_NOT_MATCH, 200004); IS(ACL_ERROR_INVALID_RESOURCE_HANDLE, 200005);
IS(ACL_ERROR_FEATURE_UNSUPPORTED, 200006); IS(ACL_ERROR_STORAGE_OVER_LIMIT, 300000); IS(ACL_ERROR_INTERNAL_ERROR, 500000);
IS(ACL_ERROR_FAILURE, 500001); IS(ACL_ERROR_GE_FAILURE, 500002); IS(ACL_ERROR_RT_FAILURE, 500003);
IS(ACL_ERROR_DRV_FAILURE, 500004); IS(ACL_ERROR_PROFILING_FAILURE, 500005); IS(OK, 0);
IS(aclDataType::ACL_FLOAT, 0); IS(aclFormat::ACL_FORMAT_NCHW, 0);
extern "C" {
#endif

FACT(sizeof(aclError) == 4 && sizeof(aclnnStatus) == 4 && sizeof(aclFloat16) == 2 && sizeof(aclrtStream) == sizeof(void *));

/* Operators */
aclnnStatus aclnnConvolutionBackwardGetWorkspaceSize(
    const aclTensor *, const aclTensor *, const aclTensor *, const aclIntArray *, const aclIntArray *, const aclIntArray *,
    const aclIntArray *, bool, const aclIntArray *, int, const aclBoolArray *, int8_t, aclTensor *, aclTensor *,
    aclTensor *, uint64_t *, aclOpExecutor **);
aclnnStatus aclnnConvolutionBackward(void *, uint64_t, aclOpExecutor *, const aclrtStream);
aclnnStatus aclnnConvTbcBackwardGetWorkspaceSize(
    const aclTensor *, const aclTensor *, const aclTensor *, const aclTensor *, int64_t, int8_t, aclTensor *, aclTensor *,
    aclTensor *, uint64_t *, aclOpExecutor **);
aclnnStatus aclnnConvTbcBackward(void *, uint64_t, aclOpExecutor *, const aclrtStream);

/* aclnn objects */
aclTensor *aclCreateTensor(const int64_t *, uint64_t, aclDataType, const int64_t *, int64_t, aclFormat, const int64_t *, uint64_t, void *);
aclnnStatus aclInitTensor(aclTensor *, const int64_t *, uint64_t, aclDataType, const int64_t *, int64_t, aclFormat, const int64_t *, uint64_t, void *);
aclScalar *aclCreateScalar(void *, aclDataType);
aclIntArray *aclCreateIntArray(const int64_t *, uint64_t);
aclFloatArray *aclCreateFloatArray(const float *, uint64_t);
aclBoolArray *aclCreateBoolArray(const bool *, uint64_t);
aclTensorList *aclCreateTensorList(const aclTensor *const *, uint64_t);
aclScalarList *aclCreateScalarList(const aclScalar *const *, uint64_t);
aclnnStatus aclDestroyTensor(const aclTensor *);
aclnnStatus aclDestroyScalar(const aclScalar *);
aclnnStatus aclDestroyIntArray(const aclIntArray *);
aclnnStatus aclDestroyFloatArray(const aclFloatArray *);
aclnnStatus aclDestroyBoolArray(const aclBoolArray *);
aclnnStatus aclDestroyTensorList(const aclTensorList *);
aclnnStatus aclDestroyScalarList(const aclScalarList *);
aclnnStatus aclGetViewShape(const aclTensor *, int64_t **, uint64_t *);
aclnnStatus aclGetStorageShape(const aclTensor *, int64_t **, uint64_t *);
aclnnStatus aclGetViewStrides(const aclTensor *, int64_t **, uint64_t *);
aclnnStatus aclGetViewOffset(const aclTensor *, int64_t *);
aclnnStatus aclGetFormat(const aclTensor *, aclFormat *);
aclnnStatus aclGetDataType(const aclTensor *, aclDataType *);
aclnnStatus aclGetIntArraySize(const aclIntArray *, uint64_t *);
aclnnStatus aclGetFloatArraySize(const aclFloatArray *, uint64_t *);
aclnnStatus aclGetBoolArraySize(const aclBoolArray *, uint64_t *);
aclnnStatus aclGetTensorListSize(const aclTensorList *, uint64_t *);
aclnnStatus aclGetScalarListSize(const aclScalarList *, uint64_t *);
aclnnStatus aclSetRawTensorAddr(aclTensor *, void *);
aclnnStatus aclGetRawTensorAddr(const aclTensor *, void **);
aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor *);
aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor *);
aclnnStatus aclSetInputTensorAddr(aclOpExecutor *, const size_t, aclTensor *, void *);
aclnnStatus aclSetOutputTensorAddr(aclOpExecutor *, const size_t, aclTensor *, void *);
aclnnStatus aclSetTensorAddr(aclOpExecutor *, const size_t, aclTensor *, void *);
aclnnStatus aclSetDynamicInputTensorAddr(aclOpExecutor *, size_t, const size_t, aclTensorList *, void *);
aclnnStatus aclSetDynamicOutputTensorAddr(aclOpExecutor *, size_t, const size_t, aclTensorList *, void *);
aclnnStatus aclSetDynamicTensorAddr(aclOpExecutor *, size_t, const size_t, aclTensorList *, void *);
aclnnStatus AclSetInputTensorAddr(aclOpExecutor *, const size_t, aclTensor *, void *);
aclnnStatus AclSetOutputTensorAddr(aclOpExecutor *, const size_t, aclTensor *, void *);
aclnnStatus AclSetTensorAddr(aclOpExecutor *, const size_t, aclTensor *, void *);
aclnnStatus AclSetDynamicInputTensorAddr(aclOpExecutor *, size_t, const size_t, aclTensorList *, void *);
aclnnStatus AclSetDynamicOutputTensorAddr(aclOpExecutor *, size_t, const size_t, aclTensorList *, void *);
aclnnStatus AclSetDynamicTensorAddr(aclOpExecutor *, size_t, const size_t, aclTensorList *, void *);
aclnnStatus aclnnInit(const char *);
aclnnStatus aclnnFinalize(void);

/* Runtime */
aclError aclInit(const char *);
aclError aclFinalize(void);
aclError aclFinalizeReference(uint64_t *);
const char *aclGetRecentErrMsg(void);
aclError aclrtGetVersion(int32_t *, int32_t *, int32_t *);
const char *aclrtGetSocName(void);
aclError aclrtSetDevice(int32_t);
aclError aclrtResetDevice(int32_t);
aclError aclrtResetDeviceForce(int32_t);
aclError aclrtGetDevice(int32_t *);
aclError aclrtGetDeviceCount(uint32_t *);
aclError aclrtGetRunMode(aclrtRunMode *);
aclError aclrtSynchronizeDevice(void);
aclError aclrtSynchronizeDeviceWithTimeout(int32_t);
aclError aclrtCreateContext(aclrtContext *, int32_t);
aclError aclrtDestroyContext(aclrtContext);
aclError aclrtSetCurrentContext(aclrtContext);
aclError aclrtGetCurrentContext(aclrtContext *);
aclError aclrtSetSysParamOpt(aclSysParamOpt, int64_t);
aclError aclrtGetSysParamOpt(aclSysParamOpt, int64_t *);
aclError aclrtCtxSetSysParamOpt(aclSysParamOpt, int64_t);
aclError aclrtCtxGetSysParamOpt(aclSysParamOpt, int64_t *);
aclError aclrtCreateStream(aclrtStream *);
aclError aclrtCreateStreamWithConfig(aclrtStream *, uint32_t, uint32_t);
aclError aclrtDestroyStream(aclrtStream);
aclError aclrtDestroyStreamForce(aclrtStream);
aclError aclrtSynchronizeStream(aclrtStream);
aclError aclrtSynchronizeStreamWithTimeout(aclrtStream, int32_t);
aclError aclrtStreamQuery(aclrtStream, aclrtStreamStatus *);
aclError aclrtStreamWaitEvent(aclrtStream, aclrtEvent);
aclError aclrtCreateEvent(aclrtEvent *);
aclError aclrtCreateEventWithFlag(aclrtEvent *, uint32_t);
aclError aclrtCreateEventExWithFlag(aclrtEvent *, uint32_t);
aclError aclrtDestroyEvent(aclrtEvent);
aclError aclrtRecordEvent(aclrtEvent, aclrtStream);
aclError aclrtResetEvent(aclrtEvent, aclrtStream);
aclError aclrtQueryEventStatus(aclrtEvent, aclrtEventRecordedStatus *);
aclError aclrtQueryEvent(aclrtEvent, aclrtEventStatus *);
aclError aclrtSynchronizeEvent(aclrtEvent);
aclError aclrtEventElapsedTime(float *, aclrtEvent, aclrtEvent);
aclError aclrtMalloc(void **, size_t, aclrtMemMallocPolicy);
aclError aclrtMallocAlign32(void **, size_t, aclrtMemMallocPolicy);
aclError aclrtMallocCached(void **, size_t, aclrtMemMallocPolicy);
aclError aclrtFree(void *);
aclError aclrtMallocHost(void **, size_t);
aclError aclrtFreeHost(void *);
aclError aclrtMemcpy(void *, size_t, const void *, size_t, aclrtMemcpyKind);
aclError aclrtMemcpyAsync(void *, size_t, const void *, size_t, aclrtMemcpyKind, aclrtStream);
aclError aclrtMemset(void *, size_t, int32_t, size_t);
aclError aclrtMemsetAsync(void *, size_t, int32_t, size_t, aclrtStream);
aclError aclrtGetMemInfo(aclrtMemAttr, size_t *, size_t *);
aclError aclrtPeekAtLastError(aclrtLastErrLevel);
aclError aclrtGetLastError(aclrtLastErrLevel);
size_t aclDataTypeSize(aclDataType);
float aclFloat16ToFloat(aclFloat16);
aclFloat16 aclFloatToFloat16(float);
void aclAppLog(aclLogLevel, const char *, const char *, uint32_t, const char *, ...);

#ifdef __cplusplus
}
#endif
#endif
