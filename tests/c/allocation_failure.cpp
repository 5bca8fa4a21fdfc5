// Every allocation of a sequence of calls fails in turn: each call answers with a status, and works again afterwards.
//
//     allocation_failure PART STATE MODE
//
// PART  which calls (every_call.h), or `configuration`
// STATE `cold`: the process has called nothing before; `warm`: it made the same calls before; `thread`: the same, but
//       the calls that fail are the first of a new thread
// MODE  `single`: one allocation fails; `persistent`: it and every later one
//
// For n = 1, 2, ... a child made by fork() makes the calls while the n-th fails,
// until there is no n-th. A child that dies, hangs, answers wrongly or leaks is told with its n. The last line counts.
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "every_call.h"
#include "own_allocator.h"

namespace {

// Atomic by builtins: members of std::atomic would be instrumented.
long armed, persistent, until_failure, failed, live;

UNWATCHED long now(const long *number) { return __atomic_load_n(number, __ATOMIC_SEQ_CST); }
UNWATCHED long add(long *number, long step) { return __atomic_add_fetch(number, step, __ATOMIC_SEQ_CST); }
UNWATCHED void set(long *number, long value) { __atomic_store_n(number, value, __ATOMIC_SEQ_CST); }

bool an_allocation_failed() { return now(&failed) > 0; }

// A file that shares messages between threads, and one that is no JSON: named in the environment.
void configuration() {
    const char *path = std::getenv("TEST_CONFIGURATION"), *broken = std::getenv("TEST_BROKEN_CONFIGURATION");
    FAILS(aclInit(broken), ACL_ERROR_PARSE_FILE);
    if (!WORKS(aclInit(path))) return;
    every_call::errors();
    WORKS(aclFinalize());
    // Finalising lists leaks in strict mode, which takes memory; there is nothing to lose in trying again.
    if (aclFinalize() != ACL_ERROR_REPEAT_FINALIZE) HOLDS_UNLESS_EXCUSED(false);
    if (WORKS(aclInit(nullptr))) WORKS(aclFinalize());
}

int calls(const char *part) {
    if (std::strcmp(part, "configuration") != 0) return every_call::make_calls(part);
    const int before = every_call::wrong;
    configuration();
    return every_call::wrong - before;
}

void forget_messages() {
    aclGetRecentErrMsg();
    aclrtGetLastError(ACL_RT_THREAD_LEVEL);
}

// The calls while the n-th allocation fails, then once more with all the memory there is; how many went wrong.
int calls_without_memory(const char *part, long n) {
    set(&until_failure, n);
    set(&armed, 1);
    every_call::excused = an_allocation_failed;
    int wrong = calls(part);
    set(&armed, 0);
    every_call::excused = every_call::nothing_is_excused;
    forget_messages();
    wrong += calls(part);
    forget_messages();
    return wrong;
}

enum { kNothingFailed = 10, kWrong, kLeaked, kNothingWorks };

int child(const char *part, const std::string &state, long n) {
    alarm(30);
    // A worker of the pool makes its memory when it first gets a task, whenever that is: nothing to count leaks beside.
    if (state == "warm") setenv("CONVGRAD_NUM_THREADS", "1", 1);
    if (state != "cold")
        for (int i = 0; i < 2; ++i)
            if (every_call::make_calls("errors") != 0 || calls(part) != 0) return kNothingWorks;
    forget_messages();
    const long live_before = now(&live);
    int wrong = 0;
    if (state == "thread")
        std::thread([&] { wrong = calls_without_memory(part, n); }).join();
    else
        wrong = calls_without_memory(part, n);
    if (wrong != 0) return now(&failed) > 0 ? kWrong : kNothingWorks;
    // The calls themselves leave nothing; a thread that ended took its own with it.
    if (state == "warm" && now(&live) > live_before) return kLeaked;
    return now(&failed) > 0 ? 0 : kNothingFailed;
}

}  // namespace

UNWATCHED bool begin_allocation() {
    if (!now(&armed)) return true;
    const long left = add(&until_failure, -1);
    if (left > 0 || (left < 0 && !now(&persistent))) return true;
    add(&failed, 1);
    return false;
}
UNWATCHED void end_allocation(const void *made, bool is_new) {
    if (made && is_new) add(&live, 1);
}
UNWATCHED void begin_free(const void *memory) {
    if (memory) add(&live, -1);
}
UNWATCHED void end_free() {}

int main(int count, char **arguments) {
    if (count != 4) return 2;
    const char *part = arguments[1];
    const std::string state = arguments[2];
    set(&persistent, std::strcmp(arguments[3], "persistent") == 0);
    long faults = 0, bad = 0;
    for (long n = 1;; ++n) {
        const pid_t process = fork();
        if (process < 0) return 3;
        if (process == 0) _exit(child(part, state, n));
        int status = 0;
        if (waitpid(process, &status, 0) != process) return 3;
        if (WIFEXITED(status) && WEXITSTATUS(status) == kNothingFailed) break;
        if (WIFEXITED(status) && WEXITSTATUS(status) == kNothingWorks) return std::printf("the calls fail by themselves\n"), 3;
        ++faults;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
        ++bad;
        if (WIFSIGNALED(status))
            std::printf("allocation %ld: ended by signal %d\n", n, WTERMSIG(status));
        else
            std::printf("allocation %ld: %s\n", n, WEXITSTATUS(status) == kLeaked ? "leaked" : "answered wrongly");
        std::fflush(stdout);
    }
    std::printf("%ld allocations failed, %ld badly\n", faults, bad);
    return bad ? 1 : 0;
}
