// Children of fork() while other threads of the parent are inside the library: none of them waits for a lock that a
// thread it does not have was holding.
//
//     forks PARENTS CHILDREN
//
// Each of PARENTS processes, new and without a call before, starts threads that make calls all the time, and forks
// CHILDREN children; a child makes every call, on its own thread and on a new one, and leaves. A child hangs that had no
// use for a processor in half a minute, or used one for so long. The last line counts.
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <ctime>
#include <thread>
#include <vector>

#include "every_call.h"

#if defined(__SANITIZE_ADDRESS__)
// AddressSanitizer's allocator has locks of its own that fork() does not know: a child of a thread that forks while
// another allocates waits for ever, in the sanitizer. One lock around every allocation, taken by fork() after those
// of the library: handlers that were registered first, here before any library was initialised, come last.
#include <pthread.h>
#include <sched.h>

#include "own_allocator.h"

// Made of an atomic exchange: the sanitizer's own pthread_mutex_lock is not there before the sanitizer is.
static int allocating;

UNWATCHED static void lock_allocations() {
    while (__atomic_exchange_n(&allocating, 1, __ATOMIC_ACQUIRE)) sched_yield();
}
UNWATCHED static void unlock_allocations() { __atomic_store_n(&allocating, 0, __ATOMIC_RELEASE); }

UNWATCHED bool begin_allocation() { return lock_allocations(), true; }
UNWATCHED void end_allocation(const void *, bool) { unlock_allocations(); }
UNWATCHED void begin_free(const void *) { lock_allocations(); }
UNWATCHED void end_free() { unlock_allocations(); }

UNWATCHED static void know_forks(int, char **, char **) {
    pthread_atfork(lock_allocations, unlock_allocations, unlock_allocations);
}
__attribute__((section(".preinit_array"), used)) static void (*const first)(int, char **, char **) = know_forks;
#endif

namespace {

enum { kWrong = 11 };

// ThreadSanitizer's runtime starts no thread in the child of a process that had several.
#if defined(__SANITIZE_THREAD__)
const bool new_threads = false;
#else
const bool new_threads = true;
#endif

enum { kPatience = 30 };

// Every second. The clock alone would end a child that waits for a processor, or that was stopped with all others.
void look_at_the_clock(int) {
    static int idle_seconds = 0;
    static long used_before = 0;
    timespec used = {};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    const long microseconds = used.tv_sec * 1000000 + used.tv_nsec / 1000;
    idle_seconds = microseconds - used_before < 100 ? idle_seconds + 1 : 0;
    used_before = microseconds;
    if (idle_seconds < kPatience && used.tv_sec < kPatience) return;
    std::signal(SIGALRM, SIG_DFL);
    raise(SIGALRM);
}

void child() {
    struct sigaction action = {};
    action.sa_handler = look_at_the_clock;
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, nullptr);
    const itimerval every_second = {{1, 0}, {1, 0}};
    setitimer(ITIMER_REAL, &every_second, nullptr);
    if (!new_threads) setenv("CONVGRAD_NUM_THREADS", "1", 1);
    if (every_call::make_calls("all") != 0) _exit(kWrong);
    if (!new_threads) _exit(0);
    int wrong = 0;
    std::thread([&] { wrong = every_call::make_calls("all"); }).join();
    _exit(wrong ? kWrong : 0);
}

struct Count {
    int children, hung, died, wrong;
};

void add(Count *count, int status) {
    ++count->children;
    if (WIFSIGNALED(status)) ++(WTERMSIG(status) == SIGALRM ? count->hung : count->died);
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0) ++count->wrong;
}

Count parent(int children) {
    std::atomic<bool> over{false};
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    // Two that do what is mostly locks, one for every kind of call.
    for (const char *part : {"objects", "errors", "memory", "all"})
        threads.emplace_back([&, part] {
            while (!over) wrong += every_call::make_calls(part);
        });
    Count count = {};
    for (int i = 0; i < children; ++i) {
        const pid_t process = fork();
        if (process == 0) child();
        int status = 0;
        if (process > 0 && waitpid(process, &status, 0) == process) add(&count, status);
    }
    over = true;
    for (std::thread &thread : threads) thread.join();
    count.wrong += wrong;
    return count;
}

}  // namespace

int main(int count, char **arguments) {
    if (count != 3) return 2;
    Count all = {};
    for (int i = 0; i < std::atoi(arguments[1]); ++i) {
        int ends[2];
        if (pipe(ends) != 0) return 3;
        const pid_t process = fork();
        if (process == 0) {
            const Count mine = parent(std::atoi(arguments[2]));
            _exit(write(ends[1], &mine, sizeof mine) == ssize_t(sizeof mine) ? 0 : 3);
        }
        close(ends[1]);
        Count mine = {};
        if (read(ends[0], &mine, sizeof mine) != ssize_t(sizeof mine)) return 3;
        close(ends[0]);
        int status = 0;
        if (waitpid(process, &status, 0) != process || status != 0) return 3;
        all.children += mine.children, all.hung += mine.hung, all.died += mine.died, all.wrong += mine.wrong;
    }
    std::printf("%d children, %d hung, %d died, %d wrong\n", all.children, all.hung, all.died, all.wrong);
    return all.hung || all.died || all.wrong ? 1 : 0;
}
