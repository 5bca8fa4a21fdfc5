#include "cores.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "findings.h"
#include "memory.h"
#include "say.h"
#include "trace.h"

namespace convgrad {
namespace tile {
namespace {

constexpr size_t kMostCores = 4096;
constexpr int kMostArguments = 32;
constexpr int kFlags = 16;
constexpr size_t kNamedCores = 12;     // of those that wait for ever
using Clocks = std::vector<uint16_t>;  // by core: how much of each has been heard of

void join(Clocks& known, const Clocks& more) {
    known.resize(std::max(known.size(), more.size()));
    for (size_t at = 0; at < more.size(); ++at) known[at] = std::max(known[at], more[at]);
}

struct Core {
    int64_t block = 0;
    int sub = 0, thread = 0, role = CGT_CUBE;
    std::thread runs;
    std::condition_variable turn;
    std::function<bool()> ready;  // what it waits for
    std::string waits_in;
    cgt_where waits_at{};
    bool done = false, stopping = false;
    Clocks clocks;
    std::string name() const {
        const auto number = static_cast<long long>(block);
        return role == CGT_VECTOR ? say("vector core %d of block %lld", sub, number) : say("core %lld", number);
    }
    uint64_t meetings[2] = {0, 0};               // arrived at: of all cores, of vector cores
    std::map<int, uint64_t> set, heard, waited;  // cross-core flags: by mode * kFlags + id; by id
    std::map<int, cgt_where> set_at;             // where a flag it hears was last set, by id
    std::map<int, Clocks> flag_clocks;           // what a flag's setters had heard of, by id
};

class Launch {
public:
    Launch(uint32_t blocks, int (*body)(void*), void* context) : blocks_(blocks), body_(body), context_(context) {}

    bool add(int role, int64_t block, int sub) {
        auto made = std::make_unique<Core>();
        Core* core = made.get();
        core->role = role, core->block = block, core->sub = sub, core->thread = static_cast<int>(cores_.size());
        cores_.push_back(std::move(made));
        try {
            core->runs = std::thread([this, core] { live(core); });
        } catch (const std::system_error&) {
            cores_.pop_back();
            return false;
        }
        return true;
    }
    void run(cgt_where where);
    // Lets others run until `ready` holds; false when it never will.
    bool wait(Core* me, std::function<bool()> ready, const std::string& in, cgt_where where) {
        if (ready()) return true;
        std::unique_lock<std::mutex> lock(guard_);
        me->ready = std::move(ready), me->waits_in = in, me->waits_at = where;
        pass_on();
        me->turn.wait(lock, [&] { return current_ == me; });
        return !stuck_;
    }
    void learn(Core* me, const Clocks& of) {
        me->clocks.resize(std::max(me->clocks.size(), static_cast<size_t>(me->thread) + 1));
        join(me->clocks, of);
    }
    void tick(Core* me) {
        learn(me, {});
        uint16_t& own = me->clocks[static_cast<size_t>(me->thread)];
        own = static_cast<uint16_t>(own + (own < UINT16_MAX));
    }
    template <class Which> std::vector<Core*> those(Which which) {
        std::vector<Core*> some;
        for (auto& core : cores_)
            if (which(*core)) some.push_back(core.get());
        return some;
    }
    void report_flags_left();

    std::vector<std::unique_ptr<Core>> cores_;
    int64_t blocks_;
    int vectors_ = 0;                                     // per block
    std::map<std::pair<int, uint64_t>, Clocks> brought_;  // what the cores of a meeting had heard of when they came
    bool mode_is_given_ = false;
    Scratch scratch_;

private:
    void live(Core* core);
    // The baton goes to the next core, in their order, that can go on. Under `guard_`.
    void pass_on();
    int (*body_)(void*);
    void* context_;
    std::mutex guard_;
    std::condition_variable back_;
    Core* current_ = nullptr;
    size_t next_ = 0;
    bool some_ = false;  // had the baton since the first core was last asked
    bool stuck_ = false, over_ = false;
    cgt_where where_{};
#if defined(__linux__)
    const int processor_ = sched_getcpu();  // of the launching thread, which sleeps meanwhile
#else
    const int processor_ = -1;
#endif
};

thread_local Core* mine = nullptr;
Launch* running = nullptr;  // read by cores while they have the baton, and by the launching thread
int kernel_mode = CGT_MODE_OF_KERNEL;

// Only one core runs, so all may stay on one processor: waking another takes longer than many a tile.
void stay_on(int processor) {
#if defined(__linux__)
    cpu_set_t one;
    CPU_ZERO(&one);
    if (processor >= 0 && processor < CPU_SETSIZE) CPU_SET(static_cast<size_t>(processor), &one);
    pthread_setaffinity_np(pthread_self(), sizeof one, &one);  // where that is not allowed, it is slower
#endif
}

void Launch::live(Core* core) {
    stay_on(processor_);
    {
        std::unique_lock<std::mutex> lock(guard_);
        core->turn.wait(lock, [&] { return current_ == core; });
    }
    mine = core;
    if (!stuck_ && body_(context_) == CGT_STOP) core->stopping = true;
    std::unique_lock<std::mutex> lock(guard_);
    core->done = true;
    pass_on();
}

void Launch::pass_on() {
    for (;; next_ = 0, some_ = false) {
        while (next_ < cores_.size()) {  // cores may be added while one runs
            Core* core = cores_[next_++].get();
            if (core->done || (core->ready && !stuck_ && !core->ready())) continue;
            core->ready = nullptr;
            current_ = core, some_ = true;
            core->turn.notify_one();
            return;
        }
        const auto waiting = those([](const Core& core) { return !core.done; });
        if (waiting.empty()) {
            current_ = nullptr, over_ = true;
            back_.notify_one();
            return;
        }
        if (some_) continue;
        std::string who;
        const size_t named = std::min(waiting.size(), kNamedCores);
        for (size_t at = 0; at < named; ++at)
            who += (at ? ", " : "") + waiting[at]->name() + " in " + waiting[at]->waits_in;
        if (named < waiting.size()) who += say(", and %zu more", waiting.size() - named);
        found_on_core("sync.stuck",
                      say("%zu of %zu cores wait for ever (%s), the others have ended", waiting.size(), cores_.size(),
                          who.c_str()),
                      kNoCore, waiting[0]->waits_at.file ? waiting[0]->waits_at : where_);
        stuck_ = true;
    }
}

void Launch::run(cgt_where where) {
    std::unique_lock<std::mutex> lock(guard_);
    where_ = where;
    pass_on();
    back_.wait(lock, [&] { return over_; });
    lock.unlock();
    for (auto& core : cores_) core->runs.join();
}

void Launch::report_flags_left() {
    for (auto& core : cores_)
        for (const auto& heard : core->heard)
            if (heard.second > core->waited[heard.first] && !core->stopping)
                found_on_core("sync.flag_left",
                              say("CrossCoreSetFlag: flag %d was set %llu times and waited for %llu times", heard.first,
                                  static_cast<unsigned long long>(heard.second),
                                  static_cast<unsigned long long>(core->waited[heard.first])),
                              core->block, core->set_at[heard.first]);
}

bool add_vectors(Launch& launch, int per_block) {
    launch.vectors_ = per_block;
    for (int64_t block = 0; block < launch.blocks_; ++block)
        for (int sub = 0; sub < per_block; ++sub)
            if (!launch.add(CGT_VECTOR, block, sub)) return false;
    return true;
}

int refuse_launch(const std::string& text, cgt_where where) {
    found("launch.arguments", text, where);
    return CGT_REFUSED;
}

int launch(const char* name, uint32_t blocks, const char* texts, const void* const* arguments, int count,
           int (*body)(void*), void* context, cgt_where where) {
    static std::mutex one_at_a_time;
    if (mine) return refuse_launch(say("%s: a kernel cannot launch another", name), where);
    std::lock_guard<std::mutex> hold(one_at_a_time);
    begin_findings();
    int answer = CGT_REFUSED;
    std::string head;
    if (blocks == 0) {
        refuse_launch(say("%s: 0 blocks: nothing runs", name), where);
    } else if (count > kMostArguments) {
        refuse_launch(say("%s: at most %d arguments, got %d", name, kMostArguments, count), where);
    } else if (blocks > kMostCores) {
        refuse_launch(say("%s: at most %zu blocks, got %u", name, kMostCores, blocks), where);
    } else {
        Launch one(blocks, body, context);
        trace_launch(name, blocks);
        open_regions(texts, arguments, count);
        running = &one;
        one.mode_is_given_ = kernel_mode != CGT_MODE_OF_KERNEL;
        const bool cubes = kernel_mode != CGT_MODE_AIV;
        bool all = true;
        for (int64_t block = 0; block < one.blocks_ && all; ++block)
            all = one.add(cubes ? CGT_CUBE : CGT_VECTOR, block, 0);
        if (!cubes) one.vectors_ = 1;
        if (kernel_mode == CGT_MODE_MIX) all = all && add_vectors(one, 2);
        if (!all) refuse_launch(say("%s: no threads for %u blocks", name, blocks), where);
        one.run(where);
        one.report_flags_left();
        if (all) head = judge_regions(where), answer = CGT_OK;
        running = nullptr;
        close_regions();
    }
    end_findings(head);
    return answer;
}

// Every core of the meeting has come so often, or was stopped by a refusal.
bool all_came(const std::vector<Core*>& cores, int kind, uint64_t times) {
    return std::all_of(cores.begin(), cores.end(),
                       [&](const Core* core) { return core->stopping || core->meetings[kind] >= times; });
}

std::vector<Core*> meeting(bool vectors_only) {
    return running->those([&](const Core& core) { return !vectors_only || core.role == CGT_VECTOR; });
}

int sync_all(bool vectors_only, cgt_where where) {
    if (!mine) return CGT_OK;
    trace_call(0, "SyncAll", vectors_only ? "true" : "false", where);
    int answer = CGT_OK;
    if (vectors_only && mine->role == CGT_CUBE) {
        found("role.sync", "SyncAll: meets vector cores only; a cube core needs SyncAll<false>()", where);
        vectors_only = false;
        answer = CGT_REFUSED;
    }
    Core* me = mine;
    const int kind = vectors_only ? 1 : 0;
    const uint64_t times = ++me->meetings[kind];
    running->tick(me);
    Clocks& brought = running->brought_[{kind, times}];
    join(brought, me->clocks);
    const bool met = running->wait(
        me, [=] { return all_came(meeting(vectors_only), kind, times); }, "SyncAll", where);
    if (!met) return mark_core_stopping(), CGT_STOP;
    running->learn(me, running->brought_[{kind, times}]);
    running->tick(me);
    trace_heard(me->clocks);
    return answer;
}

// A flag is heard by those it is for when all of its setters have set it once more: mode 0 all cores of a role, mode 1
// the vector cores of a block, mode 2 the cube core of a block and its vector cores.
int cross_core_set(int mode, int flag, cgt_where where) {
    if (!mine) return CGT_OK;
    if (flag < 0 || flag >= kFlags || mode < 0 || mode > 2) {
        found("sync.flag",
              say("CrossCoreSetFlag: mode 0, 1 or 2 and a flag in 0...15, got mode %d, flag %d", mode, flag), where);
        return CGT_REFUSED;
    }
    Core* me = mine;
    running->tick(me);
    trace_call(0, "CrossCoreSetFlag", say("%d, %d", mode, flag), where);
    trace_heard(me->clocks);
    ++me->set[mode * kFlags + flag];
    const auto setters = running->those(
        [&](const Core& core) { return core.role == me->role && (mode == 0 || core.block == me->block); });
    const auto hearers = running->those([&](const Core& core) {
        return mode == 2 ? core.role != me->role && core.block == me->block
                         : core.role == me->role && (mode == 0 || core.block == me->block);
    });
    uint64_t least = UINT64_MAX;
    for (Core* core : setters)
        if (!core->stopping) least = std::min(least, core->set[mode * kFlags + flag]);
    for (Core* core : hearers) {
        join(core->flag_clocks[flag], me->clocks);
        core->heard[flag] = std::max(core->heard[flag], least);
        core->set_at[flag] = where;
    }
    return CGT_OK;
}

int cross_core_wait(int flag, cgt_where where) {
    if (!mine) return CGT_OK;
    Core* me = mine;
    trace_call(0, "CrossCoreWaitFlag", say("%d", flag), where);
    const uint64_t times = ++me->waited[flag];
    if (!running->wait(
            me, [=] { return me->heard[flag] >= times; }, say("CrossCoreWaitFlag(%d)", flag), where))
        return mark_core_stopping(), CGT_STOP;
    running->learn(me, me->flag_clocks[flag]);
    running->tick(me);
    trace_heard(me->clocks);
    return CGT_OK;
}

}  // namespace

int64_t core_number() { return mine ? mine->block : 0; }
int thread_number() { return mine ? mine->thread : 0; }
bool on_vector_core() { return mine && mine->role == CGT_VECTOR; }
bool core_is_stopping() { return mine && mine->stopping; }
void mark_core_stopping() {
    if (mine) mine->stopping = true;
}
int64_t block_of_thread(int thread) {
    return running && thread >= 0 && static_cast<size_t>(thread) < running->cores_.size()
               ? running->cores_[static_cast<size_t>(thread)]->block
               : thread;
}
uint16_t core_clock() {
    return mine && static_cast<size_t>(mine->thread) < mine->clocks.size()
               ? mine->clocks[static_cast<size_t>(mine->thread)]
               : 0;
}
Scratch& scratch() {
    static thread_local Scratch own;  // outside of a launch
    return mine ? running->scratch_ : own;
}
bool happened_before(int thread, uint16_t clock) {
    if (!mine || thread == mine->thread || clock == UINT16_MAX) return true;
    return static_cast<size_t>(thread) < mine->clocks.size() && clock < mine->clocks[static_cast<size_t>(thread)];
}

}  // namespace tile
}  // namespace convgrad

using namespace convgrad::tile;

extern "C" {

int64_t cgt_block_idx(void) { return core_number(); }
int64_t cgt_block_num(void) { return running ? running->blocks_ : 1; }
int64_t cgt_sub_block_idx(void) { return mine ? mine->sub : 0; }
int64_t cgt_vectors_per_block(void) { return running ? running->vectors_ : 0; }
int cgt_role(void) { return on_vector_core() ? CGT_VECTOR : CGT_CUBE; }
int cgt_sync_all(int vectors_only, cgt_where where) { return sync_all(vectors_only != 0, where); }
int cgt_cross_core_set(int mode, int flag, cgt_where where) { return cross_core_set(mode, flag, where); }
int cgt_cross_core_wait(int flag, cgt_where where) { return cross_core_wait(flag, where); }

void cgt_task_type(int vectors_per_block, int cube) {
    if (!mine || running->mode_is_given_ || mine->role == CGT_VECTOR) return;
    if (!cube) {
        for (auto& core : running->cores_) core->role = CGT_VECTOR;
        running->vectors_ = 1;
    } else if (running->vectors_ == 0 && vectors_per_block > 0) {
        add_vectors(*running, vectors_per_block);
    }
}

void cgt_kernel_mode(int mode) { kernel_mode = mode; }

int cgt_launch(const char* name, uint32_t blocks, const char* texts, const void* const* arguments, int count,
               int (*body)(void*), void* context, cgt_where where) {
    return launch(name, blocks, texts, arguments, count, body, context, where);
}

}  // extern "C"
