// Calls made while the program or a thread ends.
//
//     exit_order PART PLACE ORDER THREAD END
//
// PART   which calls (every_call.h)
// PLACE  what makes them: `static` (a global's destructor), `local_static` (that of a static in a function),
//        `thread_local`, `atexit`, `key` (the destructor of a pthread key)
// ORDER  when it comes to be: `before` the first call of the program, `after` it, or `only`: there is no other call
// THREAD `main` or `second`: which thread uses the library, and has the object where it belongs to a thread
// END    `return` from main, `exit`, or `pthread_exit` of the main thread
//
// Prints "PLACE: N wrong" when the calls were made.
#include <pthread.h>

#include <string>
#include <thread>

#include "every_call.h"

namespace {

const char *part, *place, *order;

void calls_at_the_end() {
    const int wrong = every_call::make_calls(part);
    char text[100];
    const int length = std::snprintf(text, sizeof text, "%s: %d wrong\n", place, wrong);
    const ssize_t written = write(STDOUT_FILENO, text, size_t(length));
    if (wrong != 0 || written != length) _exit(3);
}

// Makes the calls in its destructor, once it was asked to.
struct AtEnd {
    bool asked = false;
    void ask() { asked = true; }
    ~AtEnd() {
        if (asked) calls_at_the_end();
    }
};

AtEnd global;
AtEnd &local_static() {
    static AtEnd object;
    return object;
}
AtEnd &of_thread() {
    static thread_local AtEnd object;
    return object;
}

void put_in_place() {
    const std::string where = place;
    if (where == "static") global.ask();
    if (where == "local_static") local_static().ask();
    if (where == "thread_local") of_thread().ask();
    if (where == "atexit") std::atexit(calls_at_the_end);
    if (where == "key") {
        pthread_key_t key;
        if (pthread_key_create(&key, [](void *) { calls_at_the_end(); }) != 0) _exit(4);
        pthread_setspecific(key, &global);
    }
}

void use() {
    const std::string when = order;
    if (when == "before") put_in_place();
    if (when != "only" && every_call::make_calls("all") != 0) _exit(5);
    if (when != "before") put_in_place();
}

}  // namespace

int main(int count, char **arguments) {
    if (count != 6) return 2;
    part = arguments[1], place = arguments[2], order = arguments[3];
    const std::string thread = arguments[4], end = arguments[5];
    if (end == "pthread_exit") {
        // The second thread ends after this one: the program's static objects are destroyed on it.
        const pthread_t main_thread = pthread_self();
        std::thread([=] {
            if (thread == "second") use();
            pthread_join(main_thread, nullptr);
        }).detach();
        if (thread == "main") use();
        pthread_exit(nullptr);
    }
    if (thread == "second")
        std::thread(use).join();
    else
        use();
    if (end == "exit") std::exit(0);
    return 0;
}
