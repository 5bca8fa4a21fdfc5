#include "errors.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <deque>
#include <mutex>

namespace convgrad {
namespace {

constexpr size_t kLongestQueue = 64;  // older messages fall out

struct Queue {
    std::deque<std::string> messages;  // newest first
};

std::mutex shared_lock;
bool shared_mode = false;

Queue &shared_queue() {
    static Queue *queue = new Queue;  // never destroyed: destructors of the program may still fail calls
    return *queue;
}

thread_local Queue thread_queue;
thread_local std::string taken;
thread_local int thread_last_error = 0;

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
const char *error_class(int status) {
    const bool operator_status = (status / 1000) % 100 == 61;
    switch (status / 100000) {
        case 1: return operator_status ? "AclNN_Parameter_Error(EZ1001)" : "Invalid_Argument(EE1001)";
        case 3: return operator_status ? "AclNN_Runtime_Error(EZ9903)" : "Runtime_Error(EE9903)";
        case 5: return operator_status ? "AclNN_Inner_Error(EZ9999)" : "Inner_Error(EE9999)";
        default: return "Resource_Error(EE1002)";
    }
}

}  // namespace

int fail_with_text(int status, const std::string &text) noexcept {
    thread_last_error = status;
    try {
        std::string message = "[PID:" + std::to_string(getpid()) + "] " + timestamp() + " " + error_class(status) + ": " + text;
        std::lock_guard<std::mutex> hold(shared_lock);
        std::deque<std::string> &queue = (shared_mode ? shared_queue() : thread_queue).messages;
        queue.push_front(std::move(message));
        if (queue.size() > kLongestQueue) queue.pop_back();
    } catch (...) {
        // Without memory for the words the status still goes out.
    }
    return status;
}

int fail(int status, const char *format, ...) noexcept {
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

const char *take_messages() noexcept {
    try {
        std::lock_guard<std::mutex> hold(shared_lock);
        std::deque<std::string> &queue = (shared_mode ? shared_queue() : thread_queue).messages;
        if (queue.empty()) return nullptr;
        std::string joined;
        for (const std::string &message : queue) joined += message + "\n";
        taken.swap(joined);
        queue.clear();
        return taken.c_str();
    } catch (...) {
        return nullptr;
    }
}

void share_messages_between_threads(bool shared) noexcept {
    std::lock_guard<std::mutex> hold(shared_lock);
    shared_mode = shared;
}

int last_error(bool clear) noexcept {
    const int error = thread_last_error;
    if (clear) thread_last_error = 0;
    return error;
}

}  // namespace convgrad
