// The runtime calls: every status and every side effect a program can observe.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "aclnn/aclnn_base.h"
#include "aclnn/opdev/op_errno.h"
#include "check.h"

namespace {

const uintptr_t kNonsense[] = {1, 8, 0xdeadbeef, 0x00C6FF0000000010ull, UINTPTR_MAX};

void *pointer(uintptr_t value) { return reinterpret_cast<void *>(value); }

struct Device {
    Device() {
        CHECK_EQUAL(aclInit(nullptr), 0);
        CHECK_EQUAL(aclrtSetDevice(0), 0);
    }
    ~Device() {
        CHECK_EQUAL(aclrtResetDevice(0), 0);
        CHECK_EQUAL(aclFinalize(), 0);
    }
};

bool contains(const char *text, const char *words) { return text && std::strstr(text, words); }

}  // namespace

TEST(initialise_counts, "a second aclInit answers 100002 and counts; finalising ends all at once, twice is 100037") {
    CHECK_EQUAL(aclFinalize(), ACL_ERROR_UNINITIALIZE);
    CHECK_EQUAL(aclInit(nullptr), 0);
    CHECK_EQUAL(aclInit(nullptr), ACL_ERROR_REPEAT_INITIALIZE);
    CHECK_EQUAL(aclInit(nullptr), ACL_ERROR_REPEAT_INITIALIZE);
    uint64_t left = 99;
    CHECK_EQUAL(aclFinalizeReference(&left), 0);
    CHECK_EQUAL(left, 2);
    CHECK_EQUAL(aclFinalize(), 0);
    CHECK_EQUAL(aclFinalize(), ACL_ERROR_REPEAT_FINALIZE);
    CHECK_EQUAL(aclInit(nullptr), 0);
    CHECK_EQUAL(aclFinalizeReference(&left), 0);
    CHECK_EQUAL(left, 0);
    CHECK_EQUAL(aclFinalizeReference(&left), ACL_ERROR_REPEAT_FINALIZE);
}

TEST(configuration_file, "a JSON object or an empty file is read; a missing or broken file has its own status") {
    const char *path = std::getenv("TEST_SCRATCH_FILE");
    CHECK(path != nullptr);
    if (!path) return;
    struct Example { const char *text; int status; };
    const Example examples[] = {
        {"{}", 0}, {"", 0}, {" \n", 0}, {"{\"a\": [1, -2.5e3, {\"b\": null}], \"c\": \"x\\\"y\"}", 0},
        {"{", ACL_ERROR_PARSE_FILE}, {"[]", ACL_ERROR_PARSE_FILE}, {"{\"a\":}", ACL_ERROR_PARSE_FILE},
        {"{} x", ACL_ERROR_PARSE_FILE}, {"{\"a\": nul}", ACL_ERROR_PARSE_FILE}, {"{\"a\": 1,}", ACL_ERROR_PARSE_FILE}};
    for (const Example &example : examples) {
        std::FILE *file = std::fopen(path, "w");
        std::fputs(example.text, file);
        std::fclose(file);
        CHECK_EQUAL(aclInit(path), example.status);
        if (example.status == 0) CHECK_EQUAL(aclFinalize(), 0);
    }
    std::string deep(100000, '[');
    std::FILE *file = std::fopen(path, "w");
    std::fprintf(file, "{\"a\": %s}", deep.c_str());
    std::fclose(file);
    CHECK_EQUAL(aclInit(path), ACL_ERROR_PARSE_FILE);
    CHECK_EQUAL(aclInit("/no/such/file.json"), ACL_ERROR_INVALID_FILE);
    CHECK_EQUAL(aclnnInit(nullptr), 0);
    CHECK_EQUAL(aclnnInit("/no/such/file.json"), ACL_ERROR_INVALID_FILE);
    CHECK_EQUAL(aclnnFinalize(), 0);
}

TEST(device, "set and reset are counted, threads share the default context, other devices do not exist") {
    CHECK_EQUAL(aclInit(nullptr), 0);
    int32_t device = -1;
    uint32_t count = 0;
    aclrtRunMode mode = ACL_DEVICE;
    aclrtContext context = nullptr;
    CHECK_EQUAL(aclrtGetDevice(&device), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_EQUAL(aclrtGetCurrentContext(&context), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_EQUAL(aclrtResetDevice(0), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_EQUAL(aclrtSetDevice(1), ACL_ERROR_RT_INVALID_DEVICEID);
    CHECK_EQUAL(aclrtSetDevice(-1), ACL_ERROR_RT_INVALID_DEVICEID);
    CHECK_EQUAL(aclrtSetDevice(0), 0);
    CHECK_EQUAL(aclrtSetDevice(0), 0);
    CHECK_EQUAL(aclrtGetDevice(&device), 0);
    CHECK_EQUAL(device, 0);
    CHECK_EQUAL(aclrtGetDeviceCount(&count), 0);
    CHECK_EQUAL(count, 1);
    CHECK_EQUAL(aclrtGetRunMode(&mode), 0);
    CHECK_EQUAL(mode, ACL_HOST);
    CHECK_EQUAL(aclrtSynchronizeDevice(), 0);
    CHECK_EQUAL(aclrtSynchronizeDeviceWithTimeout(-2), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQUAL(aclrtGetCurrentContext(&context), 0);
    std::thread([context] {
        aclrtContext mine = nullptr;
        CHECK_EQUAL(aclrtGetCurrentContext(&mine), ACL_ERROR_RT_CONTEXT_NULL);
        CHECK_EQUAL(aclrtSetDevice(0), 0);
        CHECK_EQUAL(aclrtGetCurrentContext(&mine), 0);
        CHECK(mine == context);
        CHECK_EQUAL(aclrtResetDevice(0), 0);
    }).join();
    CHECK_EQUAL(aclrtResetDevice(0), 0);
    CHECK_EQUAL(aclrtGetDevice(&device), 0);
    CHECK_EQUAL(aclrtResetDeviceForce(0), 0);
    CHECK_EQUAL(aclrtGetDevice(&device), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_EQUAL(aclrtResetDevice(0), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_EQUAL(aclrtGetDevice(nullptr), ACL_ERROR_INVALID_PARAM);
    CHECK_EQUAL(aclrtGetDeviceCount(nullptr), ACL_ERROR_INVALID_PARAM);
    CHECK_EQUAL(aclrtGetRunMode(nullptr), ACL_ERROR_INVALID_PARAM);
    CHECK_EQUAL(aclFinalize(), 0);
}

TEST(context, "a created context is current, destroying it ends its streams, stale contexts are 107017") {
    Device device;
    aclrtContext first = nullptr, second = nullptr, now = nullptr, standard = nullptr;
    CHECK_EQUAL(aclrtGetCurrentContext(&standard), 0);
    CHECK_EQUAL(aclrtCreateContext(&first, 0), 0);
    CHECK_EQUAL(aclrtCreateContext(&second, 0), 0);
    CHECK_EQUAL(aclrtGetCurrentContext(&now), 0);
    CHECK(now == second);
    CHECK_EQUAL(aclrtSetCurrentContext(first), 0);
    aclrtStream stream = nullptr;
    CHECK_EQUAL(aclrtCreateStream(&stream), 0);
    CHECK_EQUAL(aclrtDestroyContext(first), 0);
    CHECK_EQUAL(aclrtDestroyStream(stream), ACL_ERROR_RT_INVALID_HANDLE);
    CHECK_EQUAL(aclrtDestroyContext(first), ACL_ERROR_RT_INVALID_HANDLE);
    CHECK_EQUAL(aclrtSetCurrentContext(first), ACL_ERROR_RT_INVALID_HANDLE);
    CHECK_EQUAL(aclrtDestroyContext(standard), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQUAL(aclrtCreateContext(&first, 3), ACL_ERROR_RT_INVALID_DEVICEID);
    CHECK_EQUAL(aclrtCreateContext(nullptr, 0), ACL_ERROR_INVALID_PARAM);
    CHECK_EQUAL(aclrtDestroyContext(nullptr), ACL_ERROR_INVALID_PARAM);
    CHECK_EQUAL(aclrtDestroyContext(second), 0);
    for (uintptr_t value : kNonsense) CHECK_EQUAL(aclrtSetCurrentContext(pointer(value)), ACL_ERROR_RT_INVALID_HANDLE);
}

TEST(stream, "streams live until destroyed or their device is reset; a wrong handle is 107017, null is the default") {
    aclrtStream stream = nullptr, other = nullptr;
    aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;
    {
        Device device;
        CHECK_EQUAL(aclrtCreateStream(&stream), 0);
        CHECK_EQUAL(aclrtCreateStreamWithConfig(&other, 7, ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC), 0);
        CHECK(stream != other);
        CHECK_EQUAL(aclrtSynchronizeStream(stream), 0);
        CHECK_EQUAL(aclrtSynchronizeStream(nullptr), 0);
        CHECK_EQUAL(aclrtSynchronizeStreamWithTimeout(stream, 10), 0);
        CHECK_EQUAL(aclrtSynchronizeStreamWithTimeout(stream, -5), ACL_ERROR_RT_PARAM_INVALID);
        CHECK_EQUAL(aclrtStreamQuery(stream, &status), 0);
        CHECK_EQUAL(status, ACL_STREAM_STATUS_COMPLETE);
        CHECK_EQUAL(aclrtDestroyStreamForce(other), 0);
        CHECK_EQUAL(aclrtDestroyStream(other), ACL_ERROR_RT_INVALID_HANDLE);
        CHECK_EQUAL(aclrtCreateStream(nullptr), ACL_ERROR_INVALID_PARAM);
        CHECK_EQUAL(aclrtCreateStreamWithConfig(&other, 8, 0), ACL_ERROR_RT_PARAM_INVALID);
        CHECK_EQUAL(aclrtCreateStreamWithConfig(&other, 0, 0x40), ACL_ERROR_RT_PARAM_INVALID);
        CHECK_EQUAL(aclrtStreamQuery(stream, nullptr), ACL_ERROR_INVALID_PARAM);
    }
    CHECK_EQUAL(aclrtSynchronizeStream(stream), ACL_ERROR_RT_INVALID_HANDLE);
    CHECK_EQUAL(aclrtDestroyStream(stream), ACL_ERROR_RT_INVALID_HANDLE);
    CHECK_EQUAL(aclrtDestroyStream(nullptr), ACL_ERROR_INVALID_PARAM);
    for (uintptr_t value : kNonsense) {
        CHECK_EQUAL(aclrtDestroyStream(pointer(value)), ACL_ERROR_RT_INVALID_HANDLE);
        CHECK_EQUAL(aclrtSynchronizeStream(pointer(value)), ACL_ERROR_RT_INVALID_HANDLE);
    }
}

TEST(event, "events tell whether and when they were recorded, in both of the enum's senses") {
    Device device;
    aclrtEvent start = nullptr, end = nullptr, plain = nullptr;
    aclrtEventRecordedStatus recorded = ACL_EVENT_RECORDED_STATUS_COMPLETE;
    aclrtEventStatus status = ACL_EVENT_STATUS_RESERVED;
    float milliseconds = -1;
    CHECK_EQUAL(aclrtCreateEvent(&start), 0);
    CHECK_EQUAL(aclrtCreateEventWithFlag(&end, ACL_EVENT_TIME_LINE | ACL_EVENT_SYNC), 0);
    CHECK_EQUAL(aclrtCreateEventExWithFlag(&plain, ACL_EVENT_SYNC), 0);
    CHECK_EQUAL(aclrtCreateEventWithFlag(&plain, 0x100), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQUAL(aclrtQueryEventStatus(start, &recorded), 0);
    CHECK_EQUAL(recorded, ACL_EVENT_RECORDED_STATUS_NOT_READY);
    CHECK_EQUAL(aclrtQueryEvent(start, &status), 0);
    CHECK_EQUAL(status, ACL_EVENT_STATUS_NOT_READY);
    CHECK_EQUAL(aclrtSynchronizeEvent(start), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQUAL(aclrtEventElapsedTime(&milliseconds, start, end), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID);
    CHECK_EQUAL(aclrtRecordEvent(start, nullptr), 0);
    CHECK_EQUAL(aclrtStreamWaitEvent(nullptr, start), 0);
    CHECK_EQUAL(aclrtRecordEvent(end, nullptr), 0);
    CHECK_EQUAL(aclrtRecordEvent(plain, nullptr), 0);
    CHECK_EQUAL(aclrtSynchronizeEvent(end), 0);
    CHECK_EQUAL(aclrtQueryEventStatus(end, &recorded), 0);
    CHECK_EQUAL(recorded, ACL_EVENT_RECORDED_STATUS_COMPLETE);
    CHECK_EQUAL(aclrtQueryEvent(end, &status), 0);
    CHECK_EQUAL(status, ACL_EVENT_STATUS_COMPLETE);
    CHECK_EQUAL(aclrtEventElapsedTime(&milliseconds, start, end), 0);
    CHECK(milliseconds >= 0);
    CHECK_EQUAL(aclrtEventElapsedTime(&milliseconds, start, plain), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID);
    CHECK_EQUAL(aclrtResetEvent(start, nullptr), 0);
    CHECK_EQUAL(aclrtRecordEvent(start, nullptr), 0);
    // Recorded again after `end`; on a coarse clock both may carry the same time.
    const int reversed = aclrtEventElapsedTime(&milliseconds, start, end);
    CHECK(reversed == ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL || (reversed == 0 && milliseconds == 0));
    CHECK_EQUAL(aclrtDestroyEvent(start), 0);
    CHECK_EQUAL(aclrtDestroyEvent(start), ACL_ERROR_RT_INVALID_HANDLE);
    CHECK_EQUAL(aclrtRecordEvent(start, nullptr), ACL_ERROR_RT_INVALID_HANDLE);
    CHECK_EQUAL(aclrtDestroyEvent(nullptr), ACL_ERROR_INVALID_PARAM);
    for (uintptr_t value : kNonsense) {
        CHECK_EQUAL(aclrtRecordEvent(pointer(value), nullptr), ACL_ERROR_RT_INVALID_HANDLE);
        CHECK_EQUAL(aclrtRecordEvent(end, pointer(value)), ACL_ERROR_RT_INVALID_HANDLE);
    }
    CHECK_EQUAL(aclrtDestroyEvent(end), 0);
    CHECK_EQUAL(aclrtDestroyEvent(plain), 0);
}

TEST(memory, "blocks are aligned, copies and fills obey their bounds, wrong frees are an error") {
    void *block = nullptr, *pinned = nullptr;
    {
        Device device;
        CHECK_EQUAL(aclrtMalloc(&block, 0, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_INVALID_PARAM);
        CHECK_EQUAL(aclrtMalloc(nullptr, 8, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_INVALID_PARAM);
        CHECK_EQUAL(aclrtMalloc(&block, 8, aclrtMemMallocPolicy(8)), ACL_ERROR_INVALID_PARAM);
        CHECK_EQUAL(aclrtMalloc(&block, SIZE_MAX, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_MEMORY_ALLOCATION);
        CHECK_EQUAL(aclrtMalloc(&block, SIZE_MAX / 2, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_MEMORY_ALLOCATION);
        CHECK(block == nullptr);
        for (size_t size : {1, 31, 32, 33, 1000}) {
            CHECK_EQUAL(aclrtMallocAlign32(&block, size, aclrtMemMallocPolicy(ACL_MEM_MALLOC_HUGE_ONLY | ACL_MEM_TYPE_HIGH_BAND_WIDTH)), 0);
            CHECK_EQUAL(reinterpret_cast<uintptr_t>(block) % 64, 0);
            CHECK_EQUAL(aclrtFree(block), 0);
        }
        CHECK_EQUAL(aclrtMallocCached(&block, 100, ACL_MEM_MALLOC_NORMAL_ONLY), 0);
        CHECK_EQUAL(aclrtMallocHost(&pinned, 100), 0);
        char out[400] = {}, in[400];
        std::memset(in, 'x', sizeof in);
        CHECK_EQUAL(aclrtMemcpy(block, 100, in, 100, ACL_MEMCPY_HOST_TO_DEVICE), 0);
        CHECK_EQUAL(aclrtMemset(block, 100, 'y', 50), 0);
        CHECK_EQUAL(aclrtMemcpyAsync(pinned, 100, block, 100, ACL_MEMCPY_DEVICE_TO_HOST, nullptr), 0);
        CHECK_EQUAL(aclrtMemcpy(out, 100, pinned, 100, ACL_MEMCPY_HOST_TO_HOST), 0);
        CHECK(out[0] == 'y' && out[49] == 'y' && out[50] == 'x' && out[99] == 'x' && out[100] == 0);
        CHECK_EQUAL(aclrtMemsetAsync(block, 100, 'z', 100, nullptr), 0);
        char *inside = static_cast<char *>(block) + 40;
        CHECK_EQUAL(aclrtMemcpy(out, 4, inside, 4, ACL_MEMCPY_DEVICE_TO_HOST), 0);
        CHECK(out[0] == 'z');
        CHECK_EQUAL(aclrtMemcpy(nullptr, 0, nullptr, 0, aclrtMemcpyKind(99)), 0);
        CHECK_EQUAL(aclrtMemset(nullptr, 0, 1, 0), 0);
        CHECK_EQUAL(aclrtMemcpy(block, 10, in, 11, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_RT_PARAM_INVALID);
        CHECK_EQUAL(aclrtMemset(block, 10, 0, 11), ACL_ERROR_RT_PARAM_INVALID);
        CHECK_EQUAL(aclrtMemcpy(nullptr, 10, in, 10, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_INVALID_PARAM);
        CHECK_EQUAL(aclrtMemcpy(block, 10, nullptr, 10, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_INVALID_PARAM);
        CHECK_EQUAL(aclrtMemset(nullptr, 10, 0, 10), ACL_ERROR_INVALID_PARAM);
        CHECK_EQUAL(aclrtMemcpy(block, 10, in, 10, aclrtMemcpyKind(6)), ACL_ERROR_INVALID_PARAM);
        CHECK_EQUAL(aclrtMemcpy(block, 10, in, 10, aclrtMemcpyKind(-1)), ACL_ERROR_INVALID_PARAM);
        CHECK_EQUAL(aclrtMemcpyAsync(out, 4, in, 4, ACL_MEMCPY_HOST_TO_HOST, nullptr), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
        CHECK_EQUAL(aclrtMemcpyAsync(block, 4, in, 4, ACL_MEMCPY_HOST_TO_DEVICE, pointer(8)), ACL_ERROR_RT_INVALID_HANDLE);
        CHECK_EQUAL(aclrtMemcpy(block, 400, in, 400, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_RT_PARAM_INVALID);
        CHECK(contains(aclGetRecentErrMsg(), "run past the end of device block"));
        CHECK_EQUAL(aclrtMemcpy(out, 400, inside, 200, ACL_MEMCPY_DEVICE_TO_HOST), ACL_ERROR_RT_PARAM_INVALID);
        CHECK_EQUAL(aclrtMemset(block, SIZE_MAX, 0, SIZE_MAX), ACL_ERROR_RT_PARAM_INVALID);
        CHECK_EQUAL(aclrtFree(inside), ACL_ERROR_RT_PARAM_INVALID);
        CHECK_EQUAL(aclrtFree(pinned), ACL_ERROR_RT_PARAM_INVALID);
        CHECK_EQUAL(aclrtFreeHost(block), ACL_ERROR_RT_PARAM_INVALID);
        size_t available = 0, total = 0;
        CHECK_EQUAL(aclrtGetMemInfo(ACL_HBM_MEM, &available, &total), 0);
        CHECK(total > 0 && available <= total);
        CHECK_EQUAL(aclrtGetMemInfo(aclrtMemAttr(12), &available, &total), ACL_ERROR_INVALID_PARAM);
        CHECK_EQUAL(aclrtGetMemInfo(ACL_HBM_MEM, nullptr, &total), ACL_ERROR_INVALID_PARAM);
    }
    // Memory outlives the device and the library's initialisation; frees stay possible, once.
    CHECK_EQUAL(aclrtFree(block), 0);
    CHECK_EQUAL(aclrtFree(block), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQUAL(aclrtFreeHost(pinned), 0);
    CHECK_EQUAL(aclrtFreeHost(pinned), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQUAL(aclrtFree(nullptr), ACL_ERROR_INVALID_PARAM);
    CHECK_EQUAL(aclrtFreeHost(nullptr), ACL_ERROR_INVALID_PARAM);
}

TEST(system_parameters, "one slot for both pairs of calls; an unset one is 0 or 107021") {
    int64_t value = -1;
    CHECK_EQUAL(aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value), 0);
    CHECK_EQUAL(value, 0);
    CHECK_EQUAL(aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value), ACL_ERROR_RT_SYSPARAMOPT_NOT_SET);
    for (int64_t allowed : {0, 1, 2, 3}) CHECK_EQUAL(aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, allowed), 0);
    CHECK_EQUAL(aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value), 0);
    CHECK_EQUAL(value, 3);
    CHECK_EQUAL(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 4), ACL_ERROR_INVALID_PARAM);
    CHECK_EQUAL(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, -1), ACL_ERROR_INVALID_PARAM);
    CHECK_EQUAL(aclrtSetSysParamOpt(ACL_OPT_ENABLE_DEBUG_KERNEL, 1), 0);
    CHECK_EQUAL(aclrtSetSysParamOpt(aclSysParamOpt(4), 0), ACL_ERROR_INVALID_PARAM);
    CHECK_EQUAL(aclrtGetSysParamOpt(aclSysParamOpt(-1), &value), ACL_ERROR_INVALID_PARAM);
    CHECK_EQUAL(aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, nullptr), ACL_ERROR_INVALID_PARAM);
}

TEST(error_text, "messages belong to the thread, come newest first, and are taken once") {
    CHECK(aclGetRecentErrMsg() == nullptr);
    CHECK_EQUAL(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), 0);
    aclrtSetDevice(7);
    aclrtFree(nullptr);
    std::thread([] {
        CHECK(aclGetRecentErrMsg() == nullptr);
        CHECK_EQUAL(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), 0);
    }).join();
    CHECK_EQUAL(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_INVALID_PARAM);
    CHECK_EQUAL(aclrtGetLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_INVALID_PARAM);
    CHECK_EQUAL(aclrtGetLastError(ACL_RT_THREAD_LEVEL), 0);
    CHECK_EQUAL(aclrtGetLastError(aclrtLastErrLevel(1)), ACL_ERROR_RT_PARAM_INVALID);
    aclGetRecentErrMsg();
    aclrtSetDevice(7);
    aclrtFree(nullptr);
    const char *text = aclGetRecentErrMsg();
    CHECK(contains(text, "[PID:") && contains(text, "device 7 does not exist") && contains(text, "aclrtFree"));
    CHECK(text && std::strstr(text, "aclrtFree") < std::strstr(text, "device 7"));
    CHECK(aclGetRecentErrMsg() == nullptr);
    for (int i = 0; i < 100000; ++i) aclrtFree(nullptr);
    text = aclGetRecentErrMsg();
    CHECK(text && std::strlen(text) < 100000);
}

TEST(error_text_shared, "err_msg_mode 1 makes one queue for the whole process") {
    const char *path = std::getenv("TEST_SCRATCH_FILE");
    CHECK(path != nullptr);
    if (!path) return;
    std::FILE *file = std::fopen(path, "w");
    std::fputs("{\"err_msg_mode\": \"1\"}", file);
    std::fclose(file);
    CHECK_EQUAL(aclInit(path), 0);
    std::thread([] { aclrtSetDevice(7); }).join();
    CHECK(contains(aclGetRecentErrMsg(), "device 7"));
    CHECK_EQUAL(aclFinalize(), 0);
    CHECK_EQUAL(aclInit(nullptr), 0);
    CHECK_EQUAL(aclFinalize(), 0);
}

TEST(version_and_names, "the version is the headers' and the SoC name is the product's") {
    int32_t major = 0, minor = 0, patch = -1;
    CHECK_EQUAL(aclrtGetVersion(&major, &minor, &patch), 0);
    CHECK(major == ACL_MAJOR_VERSION && minor == ACL_MINOR_VERSION && patch == ACL_PATCH_VERSION);
    CHECK_EQUAL(aclrtGetVersion(nullptr, &minor, &patch), ACL_ERROR_INVALID_PARAM);
    const char *wanted = std::getenv("TEST_SOC_NAME");
    CHECK(std::strcmp(aclrtGetSocName(), wanted ? wanted : "Ascend910B3") == 0);
    ACL_APP_LOG(ACL_ERROR, "%s %d", "logged", 1);
}

TEST(data_type_size, "bytes per element of every data type; 0 where there is none") {
    struct { aclDataType type; size_t size; } rows[] = {
        {ACL_DT_UNDEFINED, 0}, {ACL_FLOAT, 4}, {ACL_FLOAT16, 2}, {ACL_INT8, 1}, {ACL_INT32, 4}, {ACL_UINT8, 1},
        {ACL_INT16, 2}, {ACL_UINT16, 2}, {ACL_UINT32, 4}, {ACL_INT64, 8}, {ACL_UINT64, 8}, {ACL_DOUBLE, 8},
        {ACL_BOOL, 1}, {ACL_STRING, 0}, {ACL_COMPLEX64, 8}, {ACL_COMPLEX128, 16}, {ACL_BF16, 2}, {ACL_INT4, 1},
        {ACL_UINT1, 1}, {ACL_COMPLEX32, 4}, {ACL_HIFLOAT8, 1}, {ACL_FLOAT8_E5M2, 1}, {ACL_FLOAT8_E4M3FN, 1},
        {ACL_FLOAT8_E8M0, 1}};
    for (const auto &row : rows) CHECK_EQUAL(aclDataTypeSize(row.type), row.size);
    CHECK_EQUAL(aclDataTypeSize(aclDataType(1000)), 0);
}

TEST(half_precision, "the helpers saturate, round to nearest even, and give every finite half back") {
    const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    CHECK_EQUAL(aclFloatToFloat16(infinity), 0x7BFF);
    CHECK_EQUAL(aclFloatToFloat16(-infinity), 0xFBFF);
    CHECK_EQUAL(aclFloatToFloat16(nan), 0x7BFF);
    CHECK_EQUAL(aclFloatToFloat16(1e9f), 0x7BFF);
    CHECK_EQUAL(aclFloatToFloat16(65519.996f), 0x7BFF);
    CHECK_EQUAL(aclFloatToFloat16(65520.0f), 0x7BFF);
    CHECK_EQUAL(aclFloatToFloat16(-0.0f), 0x8000);
    CHECK(aclFloat16ToFloat(0x7C00) == 65536.0f && aclFloat16ToFloat(0xFC00) == -65536.0f);
    CHECK(aclFloat16ToFloat(0x7E00) == 98304.0f);
    for (uint32_t code = 0; code < 0x7C00; ++code) {
        const float value = aclFloat16ToFloat(aclFloat16(code));
        CHECK_EQUAL(aclFloatToFloat16(value), code);
        CHECK_EQUAL(aclFloatToFloat16(-value), code | 0x8000);
        if (code + 1 < 0x7C00) {  // a tie goes to the even code; a hair above or below goes to the nearer one
            const float tie = (value + aclFloat16ToFloat(aclFloat16(code + 1))) / 2;
            CHECK_EQUAL(aclFloatToFloat16(tie), code + (code & 1));
            CHECK_EQUAL(aclFloatToFloat16(std::nextafter(tie, 0.0f)), code);
            CHECK_EQUAL(aclFloatToFloat16(std::nextafter(tie, 1e6f)), code + 1);
        }
    }
}

TEST(tensors, "a tensor is a copy of its description; getters give new[] arrays; stale handles are 561000") {
    int64_t dims[] = {2, 3, 4}, strides[] = {100, 10, 1}, storage[] = {400};
    float data[4] = {};
    aclTensor *plain = aclCreateTensor(dims, 3, ACL_FLOAT, nullptr, 0, ACL_FORMAT_NCL, dims, 3, data);
    aclTensor *view = aclCreateTensor(dims, 3, ACL_FLOAT16, strides, 5, ACL_FORMAT_ND, storage, 1, data);
    aclTensor *scalar = aclCreateTensor(nullptr, 0, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, nullptr, 0, data);
    CHECK(plain && view && scalar);
    CHECK(aclCreateTensor(nullptr, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, nullptr, 0, data) == nullptr);
    CHECK(aclCreateTensor(dims, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, nullptr, 1, data) == nullptr);
    CHECK(aclCreateTensor(dims, UINT64_MAX, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 3, data) == nullptr);
    dims[0] = strides[0] = storage[0] = 77;
    int64_t *values = nullptr;
    uint64_t count = 0;
    CHECK_EQUAL(aclGetViewShape(plain, &values, &count), 0);
    CHECK(count == 3 && values[0] == 2 && values[1] == 3 && values[2] == 4);
    delete[] values;
    CHECK_EQUAL(aclGetViewStrides(plain, &values, &count), 0);
    CHECK(count == 3 && values[0] == 12 && values[1] == 4 && values[2] == 1);
    delete[] values;
    CHECK_EQUAL(aclGetViewStrides(view, &values, &count), 0);
    CHECK(count == 3 && values[0] == 100);
    delete[] values;
    CHECK_EQUAL(aclGetStorageShape(view, &values, &count), 0);
    CHECK(count == 1 && values[0] == 400);
    delete[] values;
    CHECK_EQUAL(aclGetViewShape(scalar, &values, &count), 0);
    CHECK_EQUAL(count, 0);
    delete[] values;
    int64_t offset = 0;
    aclFormat format = ACL_FORMAT_UNDEFINED;
    aclDataType type = ACL_DT_UNDEFINED;
    void *address = nullptr;
    CHECK_EQUAL(aclGetViewOffset(view, &offset), 0);
    CHECK_EQUAL(offset, 5);
    CHECK_EQUAL(aclGetFormat(view, &format), 0);
    CHECK_EQUAL(format, ACL_FORMAT_ND);
    CHECK_EQUAL(aclGetDataType(view, &type), 0);
    CHECK_EQUAL(type, ACL_FLOAT16);
    CHECK_EQUAL(aclSetRawTensorAddr(view, data + 1), 0);
    CHECK_EQUAL(aclGetRawTensorAddr(view, &address), 0);
    CHECK(address == data + 1);
    int64_t other[] = {9};
    CHECK_EQUAL(aclInitTensor(view, other, 1, ACL_INT8, nullptr, 0, ACL_FORMAT_NCHW, other, 1, data), 0);
    CHECK_EQUAL(aclGetDataType(view, &type), 0);
    CHECK_EQUAL(type, ACL_INT8);
    CHECK_EQUAL(aclGetViewShape(nullptr, &values, &count), ACLNN_ERR_PARAM_NULLPTR);
    CHECK_EQUAL(aclGetViewShape(plain, nullptr, &count), ACLNN_ERR_PARAM_NULLPTR);
    CHECK_EQUAL(aclGetViewShape(plain, &values, nullptr), ACLNN_ERR_PARAM_NULLPTR);
    CHECK_EQUAL(aclInitTensor(nullptr, other, 1, ACL_INT8, nullptr, 0, ACL_FORMAT_ND, other, 1, data), ACLNN_ERR_PARAM_NULLPTR);
    CHECK_EQUAL(aclDestroyTensor(plain), 0);
    CHECK_EQUAL(aclDestroyTensor(plain), ACLNN_ERR_INNER);
    CHECK_EQUAL(aclGetDataType(plain, &type), ACLNN_ERR_INNER);
    CHECK_EQUAL(aclSetRawTensorAddr(plain, data), ACLNN_ERR_INNER);
    CHECK_EQUAL(aclDestroyTensor(nullptr), 0);
    CHECK_EQUAL(aclDestroyTensor(view), 0);
    CHECK_EQUAL(aclDestroyTensor(scalar), 0);
    for (uintptr_t value : kNonsense) CHECK_EQUAL(aclDestroyTensor(static_cast<aclTensor *>(pointer(value))), ACLNN_ERR_INNER);
    int64_t huge[] = {INT64_MAX, INT64_MAX, INT64_MAX};
    CHECK(aclCreateTensor(huge, 3, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, huge, 3, data) == nullptr);
}

TEST(arrays_and_lists, "arrays copy, lists own their members, null destroys nothing") {
    const int64_t ints[] = {1, 2};
    const float floats[] = {1.5f};
    const bool bools[] = {true, false, true};
    uint64_t size = 99;
    aclIntArray *int_array = aclCreateIntArray(ints, 2);
    aclFloatArray *float_array = aclCreateFloatArray(floats, 1);
    aclBoolArray *bool_array = aclCreateBoolArray(bools, 3);
    aclIntArray *empty = aclCreateIntArray(nullptr, 0);
    CHECK_EQUAL(aclGetIntArraySize(int_array, &size), 0);
    CHECK_EQUAL(size, 2);
    CHECK_EQUAL(aclGetFloatArraySize(float_array, &size), 0);
    CHECK_EQUAL(size, 1);
    CHECK_EQUAL(aclGetBoolArraySize(bool_array, &size), 0);
    CHECK_EQUAL(size, 3);
    CHECK_EQUAL(aclGetIntArraySize(empty, &size), 0);
    CHECK_EQUAL(size, 0);
    CHECK_EQUAL(aclGetIntArraySize(nullptr, &size), ACLNN_ERR_PARAM_NULLPTR);
    CHECK_EQUAL(aclGetIntArraySize(int_array, nullptr), ACLNN_ERR_PARAM_NULLPTR);
    CHECK_EQUAL(aclDestroyIntArray(int_array), 0);
    CHECK_EQUAL(aclDestroyIntArray(int_array), ACLNN_ERR_INNER);
    CHECK_EQUAL(aclGetIntArraySize(int_array, &size), ACLNN_ERR_INNER);
    CHECK_EQUAL(aclDestroyIntArray(empty), 0);
    CHECK_EQUAL(aclDestroyFloatArray(float_array), 0);
    CHECK_EQUAL(aclDestroyBoolArray(bool_array), 0);
    CHECK_EQUAL(aclDestroyIntArray(nullptr) | aclDestroyFloatArray(nullptr) | aclDestroyBoolArray(nullptr), 0);
    CHECK_EQUAL(aclDestroyScalar(nullptr) | aclDestroyTensorList(nullptr) | aclDestroyScalarList(nullptr), 0);
    const int64_t dims[] = {1};
    const aclTensor *tensors[] = {aclCreateTensor(dims, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 1, nullptr),
                                  aclCreateTensor(dims, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 1, nullptr)};
    aclTensorList *list = aclCreateTensorList(tensors, 2);
    CHECK_EQUAL(aclGetTensorListSize(list, &size), 0);
    CHECK_EQUAL(size, 2);
    CHECK_EQUAL(aclDestroyTensorList(list), 0);
    CHECK_EQUAL(aclDestroyTensorList(list), ACLNN_ERR_INNER);
    CHECK_EQUAL(aclDestroyTensor(tensors[0]), ACLNN_ERR_INNER);
    float one = 1;
    const aclScalar *scalars[] = {aclCreateScalar(&one, ACL_FLOAT)};
    CHECK(scalars[0] != nullptr && aclCreateScalar(nullptr, ACL_FLOAT) == nullptr);
    CHECK(aclCreateScalar(&one, ACL_STRING) == nullptr);
    aclScalarList *scalar_list = aclCreateScalarList(scalars, 1);
    CHECK_EQUAL(aclGetScalarListSize(scalar_list, &size), 0);
    CHECK_EQUAL(size, 1);
    CHECK_EQUAL(aclDestroyScalarList(scalar_list), 0);
    CHECK_EQUAL(aclDestroyScalar(scalars[0]), ACLNN_ERR_INNER);
}

TEST(executors, "executor calls refuse null, stale and foreign handles with their own statuses") {
    const int64_t dims[] = {1};
    aclTensor *tensor = aclCreateTensor(dims, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 1, nullptr);
    const aclTensor *members[] = {tensor};
    aclTensorList *list = aclCreateTensorList(members, 1);
    CHECK_EQUAL(aclSetAclOpExecutorRepeatable(nullptr), ACLNN_ERR_INNER_NULLPTR);
    CHECK_EQUAL(aclDestroyAclOpExecutor(nullptr), ACLNN_ERR_INNER_NULLPTR);
    CHECK_EQUAL(aclSetInputTensorAddr(nullptr, 0, tensor, nullptr), ACLNN_ERR_INNER_NULLPTR);
    for (uintptr_t value : kNonsense) {
        auto *executor = static_cast<aclOpExecutor *>(pointer(value));
        CHECK_EQUAL(aclSetAclOpExecutorRepeatable(executor), ACLNN_ERR_INNER);
        CHECK_EQUAL(aclDestroyAclOpExecutor(executor), ACLNN_ERR_INNER);
        CHECK_EQUAL(aclSetTensorAddr(executor, 0, tensor, nullptr), ACLNN_ERR_INNER);
        CHECK_EQUAL(AclSetOutputTensorAddr(executor, 0, nullptr, nullptr), ACLNN_ERR_INNER_NULLPTR);
        CHECK_EQUAL(aclSetDynamicInputTensorAddr(executor, 0, 1, list, nullptr), ACLNN_ERR_PARAM_INVALID);
        CHECK_EQUAL(AclSetDynamicTensorAddr(executor, 0, 0, nullptr, nullptr), ACLNN_ERR_INNER_NULLPTR);
    }
    CHECK_EQUAL(aclDestroyTensorList(list), 0);
}

TEST(threads, "sixteen threads may create, use and destroy everything at once") {
    Device device;
    std::vector<std::thread> threads;
    for (int i = 0; i < 16; ++i)
        threads.emplace_back([] {
            for (int round = 0; round < 50; ++round) {
                CHECK_EQUAL(aclrtSetDevice(0), 0);
                aclrtStream stream = nullptr;
                aclrtEvent event = nullptr;
                void *block = nullptr;
                float value = 1, back = 0;
                const int64_t dims[] = {1};
                CHECK_EQUAL(aclrtCreateStream(&stream), 0);
                CHECK_EQUAL(aclrtCreateEvent(&event), 0);
                CHECK_EQUAL(aclrtMalloc(&block, sizeof value, ACL_MEM_MALLOC_HUGE_FIRST), 0);
                aclTensor *tensor = aclCreateTensor(dims, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 1, block);
                CHECK_EQUAL(aclrtMemcpy(block, 4, &value, 4, ACL_MEMCPY_HOST_TO_DEVICE), 0);
                CHECK_EQUAL(aclrtMemcpy(&back, 4, block, 4, ACL_MEMCPY_DEVICE_TO_HOST), 0);
                CHECK(back == 1);
                CHECK_EQUAL(aclrtRecordEvent(event, stream), 0);
                CHECK_EQUAL(aclDestroyTensor(tensor), 0);
                CHECK_EQUAL(aclrtFree(block), 0);
                CHECK_EQUAL(aclrtFree(block), ACL_ERROR_RT_PARAM_INVALID);
                CHECK_EQUAL(aclrtDestroyEvent(event), 0);
                CHECK_EQUAL(aclrtDestroyStream(stream), 0);
                CHECK_EQUAL(aclrtResetDevice(0), 0);
            }
        });
    for (std::thread &thread : threads) thread.join();
}

int main(int count, char **arguments) { return run_tests(count, arguments); }
