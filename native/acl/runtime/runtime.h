// Process-wide state behind the acl calls: what is initialised, which context a thread works in, which handles live.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include "runtime/registry.h"
#include "../../generated/system_parameters.inc"

namespace convgrad {

struct Context {
    int32_t device = 0;
};

struct Stream {
    void* context = nullptr;
};

// Work completes inside the call that submits it, so a recorded event is a point in time already reached.
struct Event {  // guarded by Lock::Contents
    bool has_time_line = true;
    bool recorded = false;
    std::chrono::steady_clock::time_point when;
};

constexpr int kSystemParameters = int(sizeof CG_SYSTEM_PARAMETERS / sizeof CG_SYSTEM_PARAMETERS[0]);

struct Runtime {
    Registry<Context> contexts{Kind::Context};
    Registry<Stream> streams{Kind::Stream};
    Registry<Event> events{Kind::Event};

    // These four are guarded by Lock::Runtime.
    uint64_t initialised = 0;
    bool finalised_before = false;
    uint64_t device_users = 0;
    void* default_context = nullptr;

    std::atomic<int64_t> parameter[kSystemParameters] = {};
    std::atomic<bool> parameter_set[kSystemParameters] = {};
};

Runtime& runtime() noexcept;

// The stream a call names: null stands for the default stream. Gives a status; 0 when the stream can be used.
int check_stream(const void* stream);

// Strict mode wants a device to be selected on the calling thread; otherwise the one CPU is always there.
int check_device_selected(const char* function);

}  // namespace convgrad
