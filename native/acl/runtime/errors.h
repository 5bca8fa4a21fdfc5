// What a failed call leaves behind: its status (per thread) and a queue of messages.
#pragma once

#include <cstdarg>
#include <new>
#include <string>

#include "acl/acl_base.h"

namespace convgrad {

// Queues a message for the calling thread, remembers `status` as its last error, and gives `status` back.
int fail(int status, const char* format, ...) noexcept __attribute__((format(printf, 2, 3)));
// The same for a message that is finished text.
int fail_with_text(int status, const std::string& text) noexcept;

// The queued messages, newest first; the pointer lives until the thread's next call. Null when there is none.
const char* take_messages() noexcept;
// One queue for the whole process instead of one per thread.
void share_messages_between_threads(bool shared) noexcept;

int last_error(bool clear) noexcept;

// Runs the body of an exported function: no exception leaves the library, running out of memory is a status.
template <class Body> int guarded(int status_without_memory, Body body) noexcept {
    try {
        return body();
    } catch (const std::bad_alloc&) {
        return fail(status_without_memory, "out of memory");
    } catch (...) {
        return fail(status_without_memory, "unexpected failure inside the library");
    }
}

}  // namespace convgrad
