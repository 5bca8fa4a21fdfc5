// Children of fork() while other threads of the parent are inside the library: none of them waits for a lock that a
// thread it does not have was holding.
//
//     forks PARENTS CHILDREN
//
// Each of PARENTS processes, new and without a call before, starts threads that make calls all the time, and forks
// CHILDREN children; a child makes every call, on its own thread and on a new one, and leaves. A child that takes
// longer than half a minute hangs. The last line counts.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>
#include <vector>

#include "every_call.h"

namespace {

enum { kWrong = 11 };

// ThreadSanitizer's runtime starts no thread in the child of a process that had several.
#if defined(__SANITIZE_THREAD__)
const bool new_threads = false;
#else
const bool new_threads = true;
#endif

void child() {
    alarm(30);
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
