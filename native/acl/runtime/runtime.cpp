// aclInit ... aclrtEventElapsedTime: initialisation, device, context, stream, event, parameters, error text.
#include "runtime/runtime.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "acl/acl.h"
#include "aclnn/aclnn_base.h"
#include "runtime/config_file.h"
#include "runtime/errors.h"
#include "runtime/immortal.h"
#include "runtime/leaks.h"
#include "runtime/locks.h"
#include "runtime/settings.h"
#include "runtime/strict.h"

namespace convgrad {
namespace {

thread_local void* current_context = nullptr;

std::shared_ptr<Context> find_current_context() { return runtime().contexts.find(current_context); }

void* add_context(int32_t device) {
    auto context = std::make_shared<Context>();
    context->device = device;
    auto stream = std::make_shared<Stream>();
    void* handle = runtime().contexts.add(context);
    stream->context = handle;
    try {
        runtime().streams.add(stream);
    } catch (...) {
        runtime().contexts.remove(handle);
        throw;
    }
    return handle;
}

bool remove_context(const void* handle) {
    if (!runtime().contexts.remove(handle)) return false;
    runtime().streams.remove_where([handle](const Stream& stream) { return stream.context == handle; });
    return true;
}

int check_device_id(int32_t device) {
    if (device == 0) return 0;
    return fail(ACL_ERROR_RT_INVALID_DEVICEID, "device %d does not exist; there is one device, 0", device);
}

int reset_device(int32_t device, bool force) {
    if (const int status = check_device_id(device)) return status;
    Runtime& state = runtime();
    Hold hold(lock_of(Lock::Runtime));
    if (state.device_users == 0) return fail(ACL_ERROR_RT_CONTEXT_NULL, "device 0 is reset without having been set");
    state.device_users = force ? 0 : state.device_users - 1;
    if (state.device_users == 0) {
        remove_context(state.default_context);
        state.default_context = nullptr;
    }
    return ACL_SUCCESS;
}

void drop_everything(Runtime& state) {  // the caller holds Lock::Runtime
    if (strict::enabled()) list_leaks();
    state.initialised = 0;
    state.finalised_before = true;
    state.device_users = 0;
    state.default_context = nullptr;
    state.contexts.remove_where([](const Context&) { return true; });
    state.streams.remove_where([](const Stream&) { return true; });
    state.events.remove_where([](const Event&) { return true; });
}

int count_repeated_init_locked(Runtime& state) {
    if (state.initialised == 0) return ACL_SUCCESS;
    ++state.initialised;
    return fail(ACL_ERROR_REPEAT_INITIALIZE, "aclInit was already called");
}

int count_repeated_init() {
    Hold hold(lock_of(Lock::Runtime));
    return count_repeated_init_locked(runtime());
}

int not_initialised(const Runtime& state) {
    return state.finalised_before ? fail(ACL_ERROR_REPEAT_FINALIZE, "aclFinalize was already called")
                                  : fail(ACL_ERROR_UNINITIALIZE, "aclFinalize is called before aclInit");
}

int check_timeout(int32_t timeout) {
    if (timeout >= -1) return ACL_SUCCESS;
    return fail(ACL_ERROR_RT_PARAM_INVALID, "timeout must be -1 or at least 0, got %d", timeout);
}

int create_event(aclrtEvent* event, bool has_time_line) {
    if (!event) return fail(ACL_ERROR_INVALID_PARAM, "event must not be null");
    if (const int status = check_device_selected("aclrtCreateEvent")) return status;
    return guarded(ACL_ERROR_RT_MEMORY_ALLOCATION, [&] {
        auto made = std::make_shared<Event>();
        made->has_time_line = has_time_line;
        *event = runtime().events.add(made);
        return ACL_SUCCESS;
    });
}

int create_event_with_flag(aclrtEvent* event, uint32_t flag) {
    constexpr uint32_t known = ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE |
                               ACL_EVENT_DEVICE_USE_ONLY | ACL_EVENT_EXTERNAL | ACL_EVENT_IPC;
    if (flag == 0 || (flag & ~known))
        return fail(ACL_ERROR_RT_PARAM_INVALID, "flag must be made of ACL_EVENT_ bits, got 0x%x", flag);
    return create_event(event, flag & ACL_EVENT_TIME_LINE);
}

std::shared_ptr<Event> find_event(const void* event) {
    std::shared_ptr<Event> found = runtime().events.find(event);
    if (!found) fail(ACL_ERROR_RT_INVALID_HANDLE, "event %p is not a live event", event);
    return found;
}

int check_parameter(int opt) {
    if (opt >= 0 && opt < kSystemParameters) return 0;
    return fail(ACL_ERROR_INVALID_PARAM, "system parameter %d does not exist", opt);
}

int set_parameter(int opt, int64_t value) {
    if (const int status = check_parameter(opt)) return status;
    const cg_system_parameter& row = CG_SYSTEM_PARAMETERS[opt];
    if (value < 0 || value > row.largest)
        return fail(ACL_ERROR_INVALID_PARAM, "the value of %s must be in [0, %lld], got %lld", row.name,
                    static_cast<long long>(row.largest), static_cast<long long>(value));
    runtime().parameter[opt] = value;
    runtime().parameter_set[opt] = true;
    return ACL_SUCCESS;
}

int get_parameter(int opt, int64_t* value, bool unset_is_zero) {
    if (!value) return fail(ACL_ERROR_INVALID_PARAM, "value must not be null");
    if (const int status = check_parameter(opt)) return status;
    if (!unset_is_zero && !runtime().parameter_set[opt])
        return fail(ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, "system parameter %d was never set", opt);
    *value = runtime().parameter[opt];
    return ACL_SUCCESS;
}

Immortal<Runtime> process;

}  // namespace

Runtime& runtime() noexcept { return *process; }

int check_stream(const void* stream) {
    if (!stream || runtime().streams.find(stream)) return ACL_SUCCESS;
    return fail(ACL_ERROR_RT_INVALID_HANDLE, "stream %p is not a live stream", stream);
}

int check_device_selected(const char* function) {
    if (!strict::enabled() || find_current_context()) return ACL_SUCCESS;
    strict::report("%s on a thread without a device; call aclrtSetDevice first", function);
    return fail(ACL_ERROR_RT_CONTEXT_NULL, "%s: no device is set on this thread", function);
}

}  // namespace convgrad

using namespace convgrad;

extern "C" {

aclError aclInit(const char* configPath) {
    return guarded(ACL_ERROR_BAD_ALLOC, [&] {
        if (const int status = count_repeated_init()) return status;
        Config config;  // read without a lock: a file may take as long as it likes
        if (const int status = read_config(configPath, &config)) return status;
        Runtime& state = runtime();
        Hold hold(lock_of(Lock::Runtime));
        if (const int status = count_repeated_init_locked(state)) return status;  // another thread was faster
        if (const int status = read_settings()) return status;
        share_messages_between_threads(config.share_messages);
        state.initialised = 1;
        return ACL_SUCCESS;
    });
}

aclError aclFinalize(void) {
    return guarded(ACL_ERROR_BAD_ALLOC, [&] {
        Runtime& state = runtime();
        Hold hold(lock_of(Lock::Runtime));
        if (state.initialised == 0) return not_initialised(state);
        drop_everything(state);
        return ACL_SUCCESS;
    });
}

aclError aclFinalizeReference(uint64_t* refCount) {
    return guarded(ACL_ERROR_BAD_ALLOC, [&] {
        Runtime& state = runtime();
        Hold hold(lock_of(Lock::Runtime));
        if (state.initialised == 0) return not_initialised(state);
        if (state.initialised == 1) drop_everything(state);
        else --state.initialised;
        if (refCount) *refCount = state.initialised;
        return ACL_SUCCESS;
    });
}

aclnnStatus aclnnInit(const char* configPath) {
    return guarded(ACL_ERROR_BAD_ALLOC, [&] {
        Config config;
        if (const int status = read_config(configPath, &config)) return status;
        return read_settings();
    });
}

aclnnStatus aclnnFinalize(void) { return 0; }

const char* aclGetRecentErrMsg(void) { return take_messages(); }

aclError aclrtPeekAtLastError(aclrtLastErrLevel level) {
    return level == ACL_RT_THREAD_LEVEL ? last_error(false) : fail(ACL_ERROR_RT_PARAM_INVALID, "level must be 0");
}

aclError aclrtGetLastError(aclrtLastErrLevel level) {
    return level == ACL_RT_THREAD_LEVEL ? last_error(true) : fail(ACL_ERROR_RT_PARAM_INVALID, "level must be 0");
}

aclError aclrtGetVersion(int32_t* majorVersion, int32_t* minorVersion, int32_t* patchVersion) {
    if (!majorVersion || !minorVersion || !patchVersion)
        return fail(ACL_ERROR_INVALID_PARAM, "the three version pointers must not be null");
    *majorVersion = ACL_MAJOR_VERSION;
    *minorVersion = ACL_MINOR_VERSION;
    *patchVersion = ACL_PATCH_VERSION;
    return ACL_SUCCESS;
}

const char* aclrtGetSocName(void) { return soc_name(); }

aclError aclrtSetDevice(int32_t deviceId) {
    if (const int status = check_device_id(deviceId)) return status;
    return guarded(ACL_ERROR_RT_MEMORY_ALLOCATION, [&] {
        Runtime& state = runtime();
        Hold hold(lock_of(Lock::Runtime));
        if (!state.default_context) state.default_context = add_context(deviceId);
        ++state.device_users;
        current_context = state.default_context;
        return ACL_SUCCESS;
    });
}

aclError aclrtResetDevice(int32_t deviceId) {
    return guarded(ACL_ERROR_RT_MEMORY_ALLOCATION, [&] { return reset_device(deviceId, false); });
}

aclError aclrtResetDeviceForce(int32_t deviceId) {
    return guarded(ACL_ERROR_RT_MEMORY_ALLOCATION, [&] { return reset_device(deviceId, true); });
}

aclError aclrtGetDevice(int32_t* deviceId) {
    if (!deviceId) return fail(ACL_ERROR_INVALID_PARAM, "deviceId must not be null");
    const auto context = find_current_context();
    if (!context) return fail(ACL_ERROR_RT_CONTEXT_NULL, "no device is set on this thread");
    *deviceId = context->device;
    return ACL_SUCCESS;
}

aclError aclrtGetDeviceCount(uint32_t* count) {
    if (!count) return fail(ACL_ERROR_INVALID_PARAM, "count must not be null");
    *count = 1;
    return ACL_SUCCESS;
}

aclError aclrtGetRunMode(aclrtRunMode* runMode) {
    if (!runMode) return fail(ACL_ERROR_INVALID_PARAM, "runMode must not be null");
    *runMode = ACL_HOST;
    return ACL_SUCCESS;
}

aclError aclrtSynchronizeDevice(void) { return check_device_selected("aclrtSynchronizeDevice"); }

aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout) {
    const int status = check_timeout(timeout);
    return status ? status : check_device_selected("aclrtSynchronizeDeviceWithTimeout");
}

aclError aclrtCreateContext(aclrtContext* context, int32_t deviceId) {
    if (!context) return fail(ACL_ERROR_INVALID_PARAM, "context must not be null");
    if (const int status = check_device_id(deviceId)) return status;
    return guarded(ACL_ERROR_RT_MEMORY_ALLOCATION, [&] {
        *context = current_context = add_context(deviceId);
        return ACL_SUCCESS;
    });
}

aclError aclrtDestroyContext(aclrtContext context) {
    if (!context) return fail(ACL_ERROR_INVALID_PARAM, "context must not be null");
    return guarded(ACL_ERROR_RT_MEMORY_ALLOCATION, [&] {
        Runtime& state = runtime();
        Hold hold(lock_of(Lock::Runtime));
        if (context == state.default_context)
            return fail(ACL_ERROR_RT_PARAM_INVALID, "the default context ends with aclrtResetDevice");
        if (!remove_context(context))
            return fail(ACL_ERROR_RT_INVALID_HANDLE, "context %p is not a live context", context);
        return ACL_SUCCESS;
    });
}

aclError aclrtSetCurrentContext(aclrtContext context) {
    if (!context) return fail(ACL_ERROR_INVALID_PARAM, "context must not be null");
    if (!runtime().contexts.find(context))
        return fail(ACL_ERROR_RT_INVALID_HANDLE, "context %p is not a live context", context);
    current_context = context;
    return ACL_SUCCESS;
}

aclError aclrtGetCurrentContext(aclrtContext* context) {
    if (!context) return fail(ACL_ERROR_INVALID_PARAM, "context must not be null");
    if (!find_current_context()) return fail(ACL_ERROR_RT_CONTEXT_NULL, "no context is current on this thread");
    *context = current_context;
    return ACL_SUCCESS;
}

aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value) { return set_parameter(opt, value); }
aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value) { return set_parameter(opt, value); }
aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t* value) { return get_parameter(opt, value, true); }
aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t* value) { return get_parameter(opt, value, false); }

aclError aclrtCreateStream(aclrtStream* stream) { return aclrtCreateStreamWithConfig(stream, 0, 0); }

aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t priority, uint32_t flag) {
    constexpr uint32_t lowest_priority = 7;
    constexpr uint32_t known = ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC | ACL_STREAM_PERSISTENT | ACL_STREAM_HUGE |
                               ACL_STREAM_CPU_SCHEDULE | ACL_STREAM_DEVICE_USE_ONLY;
    if (!stream) return fail(ACL_ERROR_INVALID_PARAM, "stream must not be null");
    if (priority > lowest_priority)
        return fail(ACL_ERROR_RT_PARAM_INVALID, "priority must be in [0, %u], got %u", lowest_priority, priority);
    if (flag & ~known) return fail(ACL_ERROR_RT_PARAM_INVALID, "flag must be made of ACL_STREAM_ bits, got 0x%x", flag);
    if (const int status = check_device_selected("aclrtCreateStream")) return status;
    return guarded(ACL_ERROR_RT_MEMORY_ALLOCATION, [&] {
        auto made = std::make_shared<Stream>();
        made->context = current_context;
        *stream = runtime().streams.add(made);
        return ACL_SUCCESS;
    });
}

aclError aclrtDestroyStream(aclrtStream stream) {
    if (!stream) return fail(ACL_ERROR_INVALID_PARAM, "stream must not be null");
    return runtime().streams.remove(stream)
               ? ACL_SUCCESS
               : fail(ACL_ERROR_RT_INVALID_HANDLE, "stream %p is not a live stream", stream);
}

aclError aclrtDestroyStreamForce(aclrtStream stream) { return aclrtDestroyStream(stream); }

aclError aclrtSynchronizeStream(aclrtStream stream) { return check_stream(stream); }

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout) {
    const int status = check_timeout(timeout);
    return status ? status : check_stream(stream);
}

aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status) {
    if (!status) return fail(ACL_ERROR_INVALID_PARAM, "status must not be null");
    if (const int error = check_stream(stream)) return error;
    *status = ACL_STREAM_STATUS_COMPLETE;
    return ACL_SUCCESS;
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
    if (!event) return fail(ACL_ERROR_INVALID_PARAM, "event must not be null");
    if (const int status = check_stream(stream)) return status;
    return find_event(event) ? ACL_SUCCESS : ACL_ERROR_RT_INVALID_HANDLE;
}

aclError aclrtCreateEvent(aclrtEvent* event) { return create_event(event, true); }
aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t flag) { return create_event_with_flag(event, flag); }
aclError aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t flag) { return create_event_with_flag(event, flag); }

aclError aclrtDestroyEvent(aclrtEvent event) {
    if (!event) return fail(ACL_ERROR_INVALID_PARAM, "event must not be null");
    return runtime().events.remove(event) ? ACL_SUCCESS
                                          : fail(ACL_ERROR_RT_INVALID_HANDLE, "event %p is not a live event", event);
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
    if (!event) return fail(ACL_ERROR_INVALID_PARAM, "event must not be null");
    if (const int status = check_stream(stream)) return status;
    const auto found = find_event(event);
    if (!found) return ACL_ERROR_RT_INVALID_HANDLE;
    Hold hold(lock_of(Lock::Contents));
    found->recorded = true;
    found->when = std::chrono::steady_clock::now();
    return ACL_SUCCESS;
}

aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream) {
    if (!event) return fail(ACL_ERROR_INVALID_PARAM, "event must not be null");
    if (const int status = check_stream(stream)) return status;
    const auto found = find_event(event);
    if (!found) return ACL_ERROR_RT_INVALID_HANDLE;
    Hold hold(lock_of(Lock::Contents));
    found->recorded = false;
    return ACL_SUCCESS;
}

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status) {
    if (!event || !status) return fail(ACL_ERROR_INVALID_PARAM, "event and status must not be null");
    const auto found = find_event(event);
    if (!found) return ACL_ERROR_RT_INVALID_HANDLE;
    Hold hold(lock_of(Lock::Contents));
    *status = found->recorded ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
    return ACL_SUCCESS;
}

aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus* status) {
    aclrtEventRecordedStatus recorded;
    if (!event || !status) return fail(ACL_ERROR_INVALID_PARAM, "event and status must not be null");
    if (const int error = aclrtQueryEventStatus(event, &recorded)) return error;
    *status = recorded == ACL_EVENT_RECORDED_STATUS_COMPLETE ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_NOT_READY;
    return ACL_SUCCESS;
}

aclError aclrtSynchronizeEvent(aclrtEvent event) {
    if (!event) return fail(ACL_ERROR_INVALID_PARAM, "event must not be null");
    const auto found = find_event(event);
    if (!found) return ACL_ERROR_RT_INVALID_HANDLE;
    Hold hold(lock_of(Lock::Contents));
    return found->recorded
               ? ACL_SUCCESS
               : fail(ACL_ERROR_RT_PARAM_INVALID, "event %p was never recorded; waiting would not end", event);
}

aclError aclrtEventElapsedTime(float* ms, aclrtEvent startEvent, aclrtEvent endEvent) {
    if (!ms || !startEvent || !endEvent) return fail(ACL_ERROR_INVALID_PARAM, "ms and both events must not be null");
    std::chrono::steady_clock::time_point when[2];
    const aclrtEvent events[2] = {startEvent, endEvent};
    for (int i = 0; i < 2; ++i) {
        const auto found = find_event(events[i]);
        if (!found) return ACL_ERROR_RT_INVALID_HANDLE;
        Hold hold(lock_of(Lock::Contents));
        if (!found->recorded || !found->has_time_line)
            return fail(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "event %p %s", events[i],
                        found->recorded ? "was created without ACL_EVENT_TIME_LINE" : "was never recorded");
        when[i] = found->when;
    }
    if (when[1] < when[0])
        return fail(ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL, "the end event was recorded before the start event");
    *ms = std::chrono::duration<float, std::milli>(when[1] - when[0]).count();
    return ACL_SUCCESS;
}

void aclAppLog(aclLogLevel logLevel, const char* func, const char* file, uint32_t line, const char* fmt, ...) {
    static const char* const names[] = {"DEBUG", "INFO", "WARNING", "ERROR"};
    const char* to_stdout = std::getenv("ASCEND_SLOG_PRINT_TO_STDOUT");
    const char* threshold = std::getenv("ASCEND_GLOBAL_LOG_LEVEL");
    if (!fmt || !to_stdout || std::strcmp(to_stdout, "1") != 0) return;
    if (logLevel < ACL_DEBUG || logLevel > ACL_ERROR || logLevel < (threshold ? std::atoi(threshold) : ACL_ERROR))
        return;
    char text[1024];
    va_list arguments;
    va_start(arguments, fmt);
    std::vsnprintf(text, sizeof text, fmt, arguments);
    va_end(arguments);
    std::printf("[%s] APP(%s:%u %s): %s\n", names[logLevel], file ? file : "?", line, func ? func : "?", text);
}

}  // extern "C"
