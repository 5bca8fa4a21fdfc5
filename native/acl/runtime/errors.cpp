#include "runtime/errors.h"

#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <list>
#include <memory>

#include "runtime/immortal.h"
#include "runtime/locks.h"

namespace convgrad {
namespace {

constexpr size_t kLongestQueue = 64;  // older messages fall out

using Queue = std::list<std::string>;  // newest first

// What one thread was told. A pthread key holds it, not a thread_local: destructors of thread_local and static objects
// may still fail calls, and the key's destructor comes after theirs. A call after even that starts a new queue.
struct ThreadMessages {
    Queue queue;
    std::string taken;  // what aclGetRecentErrMsg gave out last
};

class ThreadKey {
public:
    ThreadKey() noexcept { made_ = pthread_key_create(&key_, destroy) == 0; }

    // Throws std::bad_alloc where there is no memory for one.
    ThreadMessages& mine() const {
        if (!made_) throw std::bad_alloc();
        if (void* known = pthread_getspecific(key_)) return *static_cast<ThreadMessages*>(known);
        auto made = std::make_unique<ThreadMessages>();
        if (pthread_setspecific(key_, made.get()) != 0) throw std::bad_alloc();
        return *made.release();
    }

private:
    static void destroy(void* messages) { delete static_cast<ThreadMessages*>(messages); }
    pthread_key_t key_{};
    bool made_ = false;
};

// Guarded by Lock::Messages, but for a thread's own.
Immortal<ThreadKey> thread_key;
Immortal<Queue> shared_queue;
bool shared_mode = false;

thread_local int thread_last_error = 0;

Queue& current_queue() { return shared_mode ? *shared_queue : thread_key->mine().queue; }

// The caller holds Lock::Messages: the C library's own lock around the time zone is not free in the child of a fork
// that happened inside.
std::string timestamp() {
    const auto now = std::chrono::system_clock::now();
    const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
    const auto micro = std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count() % 1000000;
    std::tm calendar{};
    localtime_r(&seconds, &calendar);
    char day[32];
    std::strftime(day, sizeof day, "%Y-%m-%d-%H:%M:%S", &calendar);
    char text[64];
    std::snprintf(text, sizeof text, "%s.%03d.%03d", day, int(micro / 1000), int(micro % 1000));
    return text;
}

// The class of an error follows from the first digit of its status; aclnn statuses are x61xxx.
const char* error_class(int status) {
    const bool operator_status = (status / 1000) % 100 == 61;
    switch (status / 100000) {
    case 1: return operator_status ? "AclNN_Parameter_Error(EZ1001)" : "Invalid_Argument(EE1001)";
    case 3: return operator_status ? "AclNN_Runtime_Error(EZ9903)" : "Runtime_Error(EE9903)";
    case 5: return operator_status ? "AclNN_Inner_Error(EZ9999)" : "Inner_Error(EE9999)";
    default: return "Resource_Error(EE1002)";
    }
}

}  // namespace

int fail_with_text(int status, const std::string& text) noexcept {
    thread_last_error = status;
    try {
        Hold hold(lock_of(Lock::Messages));
        Queue message{"[PID:" + std::to_string(getpid()) + "] " + timestamp() + " " + error_class(status) + ": " +
                      text};
        Queue& queue = current_queue();
        queue.splice(queue.begin(), message);
        if (queue.size() > kLongestQueue) queue.pop_back();
    } catch (...) {
        // Without memory for the words the status still goes out.
    }
    return status;
}

int fail(int status, const char* format, ...) noexcept {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    try {
        return fail_with_text(status, text);
    } catch (...) {
        thread_last_error = status;
        return status;
    }
}

const char* take_messages() noexcept {
    try {
        Hold hold(lock_of(Lock::Messages));
        Queue& queue = current_queue();
        if (queue.empty()) return nullptr;
        std::string& taken = thread_key->mine().taken;
        std::string joined;
        for (const std::string& message : queue) joined.append(message) += '\n';
        taken.swap(joined);
        queue.clear();
        return taken.c_str();
    } catch (...) {
        return nullptr;  // nothing was taken: the messages are there when there is memory again
    }
}

void share_messages_between_threads(bool shared) noexcept {
    Hold hold(lock_of(Lock::Messages));
    shared_mode = shared;
}

int last_error(bool clear) noexcept {
    const int error = thread_last_error;
    if (clear) thread_last_error = 0;
    return error;
}

}  // namespace convgrad
