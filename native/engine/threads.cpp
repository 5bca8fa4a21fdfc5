// Who runs the tasks: the threads of an OpenMP runtime that is in the process already (openmp.h), else the engine's
// own.
//
// OpenMP's threads spin for milliseconds after each region, and would take half of the time of any other thread on
// their core: two pools cost up to half of the speed. The engine's own pool serves processes without OpenMP, children
// of fork(), which have none of their parent's threads, and processes and threads that end. Its threads are never
// joined: they sleep between jobs and end with the process.
//
// One job runs at a time. A caller that finds another one running (another Python thread is in a call), or that is
// itself a member of an OpenMP team, does its tasks alone: results never depend on who runs a task, so only the time
// differs.
#include "threads.h"

#include "openmp.h"
#include "scratch.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
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
    void keep_at_most(size_t bytes) {
        if (capacity_ <= bytes) return;
        std::free(base_);
        base_ = nullptr;
        capacity_ = 0;
    }

private:
    char* base_ = nullptr;
    size_t capacity_ = 0;
};

std::atomic<int> leaders{0};

// GCC's runtime keeps a team for every thread that ever led one: as many leaders as this at once, or a server with a
// hundred threads would have a hundred teams. Threads beyond it use the engine's own pool.
const int MAX_LEADERS = 4;

// What belongs to one thread. A pthread key holds it, not a thread_local: destructors of the program's static and
// thread_local objects may still run a call, and the key's destructor comes after theirs. A call after even that starts
// with new memory. No key, no memory for one: the call says so.
struct Arenas {
    Arena task, call, tree;
    bool leads = false;
    ~Arenas() {
        if (leads) --leaders;
    }
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
    int members;  // that may work; a larger team's other members leave at once
    int shares;
    Share share[MAX_SHARES];  // as many as `shares`; the others are not even written, small jobs would notice
    std::atomic<int> joined{0};
    std::atomic<bool> out_of_memory{false}, overrun{false};
};

void work(Job& job) {
    const int mine = job.joined.fetch_add(1, std::memory_order_relaxed);
    if (mine >= job.members) return;
    Arenas* own = job.scratch_bytes != 0 ? arenas() : nullptr;
    char* scratch = own != nullptr ? own->task.at_least(job.scratch_bytes) : nullptr;
    if (scratch == nullptr && job.scratch_bytes != 0) {
        job.out_of_memory = true;
        return;
    }
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
    void run(int threads, Job& job) {
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

    std::mutex state_;
    std::condition_variable wake_, done_;
    std::atomic<uint64_t> generation_{0};
    std::atomic<int> active_{0};
    Job* job_ = nullptr;
    int wanted_ = 0, workers_ = 0;
};

alignas(Pool) char pool_storage[sizeof(Pool)];
Pool* pool = nullptr;

std::atomic<bool> busy{false};  // a job is running
std::atomic<cg_team> lent{nullptr};

void start_empty() {
    pool = new (pool_storage) Pool;
    busy = false;
    lent = nullptr;  // fork() does not copy the host's threads either
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

enum class Choice { AUTOMATIC, OWN, SHARED };
std::atomic<Choice> choice{Choice::AUTOMATIC};

Choice asked_for() {
    const char* asked = std::getenv("CONVGRAD_THREADPOOL");
    if (asked == nullptr || *asked == '\0') return Choice::AUTOMATIC;
    if (std::strcmp(asked, "own") == 0) return Choice::OWN;
    if (std::strcmp(asked, "shared") == 0) return Choice::SHARED;
    static std::atomic<bool> warned{false};
    if (!warned.exchange(true))
        std::fprintf(stderr, "convgrad: warning: CONVGRAD_THREADPOOL=%.40s is neither own nor shared; not heeded\n",
                     asked);
    return Choice::AUTOMATIC;
}

thread_local bool leaves = false;

// Whether this thread is past its thread_local objects: destructors of pthread keys still run a call then, but LLVM's
// runtime, which has given its own data of the thread back in one of them, may not be called any more.
bool thread_leaves() {
    struct Leaver {
        ~Leaver() { leaves = true; }
    };
    thread_local Leaver leaver;
    (void)leaver;
    return leaves;
}

// The runtime whose threads this thread may compute on; null for the engine's own.
const OpenMP* shared_runtime() {
    const OpenMP* runtime = choice != Choice::OWN && openmp_may_start() ? openmp() : nullptr;
    return runtime != nullptr && !thread_leaves() ? runtime : nullptr;
}

// Whether this thread leads a team of the runtime, or may from now on.
bool may_lead() {
    Arenas* mine = arenas();
    if (mine == nullptr) return false;
    if (mine->leads || choice == Choice::SHARED) return true;
    if (leaders.fetch_add(1) < MAX_LEADERS) return mine->leads = true;
    --leaders;
    return false;
}

void work_as_member(void* job) { work(*static_cast<Job*>(job)); }

void run_together(int threads, Job& job) {
    const OpenMP* runtime = shared_runtime();
    if (runtime != nullptr && in_openmp_region()) return work(job);
    if (busy.exchange(true, std::memory_order_acquire)) return work(job);
    if (const cg_team team = lent) {
        team(work_as_member, &job, uint32_t(threads), 0);
    } else if (runtime != nullptr && may_lead()) {
        // A whole team, whatever the number of tasks and of threads asked for: GCC's runtime ends the threads that a
        // smaller one leaves out, and whoever opens the next region starts them anew.
        runtime->parallel(work_as_member, &job, uint32_t(max(threads, runtime->max_threads())), 0);
    } else {
        pool->run(job.members, job);
    }
    busy.store(false, std::memory_order_release);
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
    job.members = int(min(max(1, threads), tasks));
    if (threads > 1 && tasks > 1 && started) run_together(threads, job);
    else work(job);
    return outcome(job);
}

void choose_threads() {
    choice = asked_for();
    if (choice != Choice::OWN) look_for_openmp();
}

const char* threadpool() {
    choose_threads();
    const OpenMP* runtime = shared_runtime();
    return lent != nullptr ? "lent" : runtime != nullptr ? runtime->path : "own";
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

char* tree_scratch(size_t bytes) {
    Arenas* mine = arenas();
    char* nodes = mine == nullptr ? nullptr : mine->tree.at_least(bytes);
    if (nodes != nullptr && scratch_checked) std::memset(nodes, 0xff, bytes);
    return nodes;
}

void release_tree_scratch() {
    const size_t kept = size_t(32) << 20;  // beyond it the system's zeroed pages are a small part of the call
    if (Arenas* mine = arenas()) mine->tree.keep_at_most(kept);
}

int default_threads() {
    const char* ours = std::getenv("CONVGRAD_NUM_THREADS");
    if (const int asked = positive_number(ours)) return asked;
    static std::atomic<bool> warned{false};
    if (ours != nullptr && *ours != '\0' && !warned.exchange(true))
        std::fprintf(stderr, "convgrad: warning: CONVGRAD_NUM_THREADS=%.40s is no number from 1 to 4096; not heeded\n",
                     ours);
    // What its owner told the runtime, as torch.set_num_threads does, holds for us too; also in a child of fork().
    const OpenMP* runtime = choice != Choice::OWN ? openmp() : nullptr;
    if (runtime != nullptr && !thread_leaves()) return int(min(max(1, runtime->max_threads()), 4096));
    if (const int asked = positive_number(std::getenv("OMP_NUM_THREADS"))) return asked;
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof cores, &cores) == 0) {
        const int count = CPU_COUNT(&cores);
        if (count > 0) return count;
    }
    return 1;
}

}  // namespace cg

extern "C" void cg_borrow_threads(cg_team team) { cg::lent = team; }
