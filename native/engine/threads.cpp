// The engine's own thread pool. OpenMP's cannot be used: a child made by fork() after a parallel region hangs in it.
//
// One job runs at a time. A caller that finds the pool busy (another Python thread is in a call) does its tasks
// alone: results never depend on who runs a task, so only the time differs. After fork() the child starts with an
// empty pool. Threads are never joined: they sleep between jobs and end with the process.
//
// A host with threads of its own may lend them (cg_borrow_threads): OpenMP's spin for milliseconds after each of the
// host's parallel regions, and would take half of the time of any other thread on their core.
#include "threads.h"

#include "scratch.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>
#include <thread>

namespace cg {
namespace {

inline void pause_briefly() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// Grow-only memory of one thread. Its size is bounded because every plan's scratch is.
class Arena {
public:
    ~Arena() { std::free(base_); }
    char* at_least(size_t bytes) {
        if (bytes <= capacity_) return base_;
        const size_t huge_page = size_t(2) << 20;
        const size_t unit = bytes >= huge_page / 2 ? huge_page : size_t(4096);
        size_t rounded;
        if (__builtin_add_overflow(bytes, unit - 1, &rounded)) return nullptr;
        rounded -= rounded % unit;
        void* fresh = nullptr;
        if (posix_memalign(&fresh, unit, rounded) != 0) return nullptr;
#if defined(MADV_HUGEPAGE)
        if (unit == huge_page) madvise(fresh, rounded, MADV_HUGEPAGE);
#endif
        std::free(base_);
        base_ = static_cast<char*>(fresh);
        capacity_ = rounded;
        return base_;
    }

private:
    char* base_ = nullptr;
    size_t capacity_ = 0;
};

// The memory of one thread. A pthread key holds it, not a thread_local: destructors of the program's static and
// thread_local objects may still run a call, and the key's destructor comes after theirs. A call after even that starts
// with new memory. No key, no memory for one: the call says so.
struct Arenas {
    Arena task, call;
};

pthread_key_t arenas_key;
const bool has_key = pthread_key_create(&arenas_key, [](void* arenas) { delete static_cast<Arenas*>(arenas); }) == 0;

Arenas* arenas() {
    if (!has_key) return nullptr;
    if (void* mine = pthread_getspecific(arenas_key)) return static_cast<Arenas*>(mine);
    Arenas* mine = new (std::nothrow) Arenas;
    if (mine != nullptr && pthread_setspecific(arenas_key, mine) == 0) return mine;
    delete mine;
    return nullptr;
}

// Tasks that follow each other, taken in their order.
struct alignas(64) Share {
    std::atomic<index_t> next;
    index_t end;
};

const int MAX_SHARES = 64;

// Every thread has a share of neighbouring tasks, and helps with the others' when it is done. Tasks that are neighbours
// write neighbouring memory: two threads that reach a new page of 2 MiB together would both zero one, in vain.
struct Job {
    TaskBody body;
    void* context;
    size_t scratch_bytes;
    int shares;
    Share share[MAX_SHARES];  // as many as `shares`; the others are not even written, small jobs would notice
    std::atomic<int> joined{0};
    std::atomic<bool> out_of_memory{false}, overrun{false};
};

void work(Job& job) {
    Arenas* own = job.scratch_bytes != 0 ? arenas() : nullptr;
    char* scratch = own != nullptr ? own->task.at_least(job.scratch_bytes) : nullptr;
    if (scratch == nullptr && job.scratch_bytes != 0) {
        job.out_of_memory = true;
        return;
    }
    const int mine = job.joined.fetch_add(1, std::memory_order_relaxed);
    for (int i = 0; i < job.shares; ++i) {
        Share& share = job.share[(mine + i) % job.shares];
        while (!job.out_of_memory) {
            const index_t task = share.next.fetch_add(1, std::memory_order_relaxed);
            if (task >= share.end) break;
            if (scratch_checked) spoil_scratch(scratch, job.scratch_bytes);
            job.body(job.context, task, scratch);
            if (scratch_checked && !pieces_intact()) job.overrun = true;
        }
    }
}

int outcome(const Job& job) { return job.out_of_memory ? CG_OUT_OF_MEMORY : job.overrun ? CG_SCRATCH_OVERRUN : CG_OK; }

class Pool {
public:
    int run(int threads, Job& job) {
        std::unique_lock<std::mutex> mine(busy_, std::try_to_lock);
        if (!mine.owns_lock()) {
            work(job);
            return outcome(job);
        }
        {
            std::lock_guard<std::mutex> hold(state_);
            while (workers_ < threads - 1 && spawn()) {}
            job_ = &job;
            wanted_ = threads - 1;
            generation_.fetch_add(1, std::memory_order_release);
        }
        wake_.notify_all();
        work(job);
        for (int spin = 0; spin < 4000 && active_.load(std::memory_order_acquire) != 0; ++spin) pause_briefly();
        std::unique_lock<std::mutex> hold(state_);
        job_ = nullptr;  // a worker that wakes late finds nothing to join
        done_.wait(hold, [this] { return active_.load(std::memory_order_relaxed) == 0; });
        return outcome(job);
    }

private:
    bool spawn() {
        try {
            std::thread([this] { serve(); }).detach();
        } catch (...) {
            return false;  // fewer threads than asked for: the caller and the others do the work
        }
        ++workers_;
        return true;
    }

    void serve() {
        uint64_t seen = 0;
        for (;;) {
            // Phases of one call follow each other within microseconds: look a little before sleeping.
            for (int spin = 0; spin < 2000 && generation_.load(std::memory_order_acquire) == seen; ++spin)
                pause_briefly();
            Job* job = nullptr;
            {
                std::unique_lock<std::mutex> hold(state_);
                wake_.wait(hold, [&] { return generation_.load(std::memory_order_relaxed) != seen; });
                seen = generation_.load(std::memory_order_relaxed);
                if (job_ != nullptr && wanted_ > 0) {
                    job = job_;
                    --wanted_;
                    active_.fetch_add(1, std::memory_order_relaxed);
                }
            }
            if (job == nullptr) continue;
            work(*job);
            std::lock_guard<std::mutex> hold(state_);
            if (active_.fetch_sub(1, std::memory_order_release) == 1) done_.notify_all();
        }
    }

    std::mutex busy_, state_;
    std::condition_variable wake_, done_;
    std::atomic<uint64_t> generation_{0};
    std::atomic<int> active_{0};
    Job* job_ = nullptr;
    int wanted_ = 0, workers_ = 0;
};

alignas(Pool) char pool_storage[sizeof(Pool)];
Pool* pool = nullptr;

std::atomic<cg_team> borrowed{nullptr};

void start_empty() {
    pool = new (pool_storage) Pool;
    borrowed = nullptr;  // fork() does not copy the host's threads either
}

const bool started = [] {
    start_empty();
    pthread_atfork(nullptr, nullptr, start_empty);
    return true;
}();

int positive_number(const char* text) {
    if (text == nullptr) return 0;
    char* end = nullptr;
    const long value = std::strtol(text, &end, 10);
    return end != text && (*end == '\0' || *end == ',') && value > 0 && value <= 4096 ? int(value) : 0;
}

}  // namespace

int run_tasks(int threads, index_t tasks, size_t scratch_bytes, TaskBody body, void* context) {
    if (tasks <= 0) return CG_OK;
    Job job;
    job.body = body;
    job.context = context;
    job.scratch_bytes = scratch_bytes;
    job.shares = int(min(min(max(1, threads), tasks), MAX_SHARES));
    for (int i = 0; i < job.shares; ++i) {
        job.share[i].next = tasks / job.shares * i + min(i, tasks % job.shares);
        job.share[i].end = tasks / job.shares * (i + 1) + min(i + 1, tasks % job.shares);
    }
    const cg_team team = borrowed;
    if (threads > 1 && tasks > 1 && team != nullptr) {
        // All members are asked for, whatever the number of tasks: OpenMP ends threads that a smaller team leaves out.
        team([](void* shared) { work(*static_cast<Job*>(shared)); }, &job, uint32_t(threads), 0);
        return outcome(job);
    }
    if (threads > tasks) threads = int(tasks);
    if (threads > 1 && started) return pool->run(threads, job);
    work(job);
    return outcome(job);
}

char* shared_scratch(size_t bytes) {
    Arenas* mine = arenas();
    if (mine == nullptr) return nullptr;
    if (!scratch_checked) return mine->call.at_least(bytes);
    char* shared = mine->call.at_least(bytes + SCRATCH_GUARD_BYTES);
    if (shared == nullptr) return nullptr;
    spoil_shared(shared, bytes);
    guard_shared(shared + bytes + SCRATCH_GUARD_BYTES);
    return shared;
}

int default_threads() {
    const char* ours = std::getenv("CONVGRAD_NUM_THREADS");
    if (const int asked = positive_number(ours)) return asked;
    static std::atomic<bool> warned{false};
    if (ours != nullptr && *ours != '\0' && !warned.exchange(true))
        std::fprintf(stderr, "convgrad: warning: CONVGRAD_NUM_THREADS=%.40s is no number from 1 to 4096; not heeded\n",
                     ours);
    if (const int asked = positive_number(std::getenv("OMP_NUM_THREADS"))) return asked;
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof cores, &cores) == 0) {
        const int count = CPU_COUNT(&cores);
        if (count > 0) return count;
    }
    return 1;
}

}  // namespace cg

extern "C" void cg_borrow_threads(cg_team team) { cg::borrowed = team; }
