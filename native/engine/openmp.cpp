#include "openmp.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

#if defined(__APPLE__)
#include <mach-o/dyld.h>
#else
#include <link.h>
#endif

namespace cg {
namespace {

const int MAX_RUNTIMES = 8;
OpenMP runtimes[MAX_RUNTIMES];  // only grows: readers need no lock
std::atomic<int> runtime_count{0};
std::atomic<const OpenMP*> first_choice{nullptr};
std::atomic<bool> forked{false}, ending{false};

// Held while the loader's lists are read, and by fork(): glibc's fork() gives the child the lock of those lists as it
// is, so that no thread of ours may hold it then. Waiting for it has an end: a library's constructor that forks holds
// the loader's other lock, which the one who looks may be waiting for.
std::mutex looking;
bool fork_holds_it = false;

uint64_t loads_seen = 0;  // of the process, when the lists were read; guarded by `looking`

#if defined(__APPLE__)
uint64_t loads() { return _dyld_image_count(); }
#else
uint64_t loads() {
    uint64_t count = 0;
    dl_iterate_phdr(
        [](dl_phdr_info* object, size_t, void* count) {
            *static_cast<uint64_t*>(count) = object->dlpi_adds;
            return 1;  // every object tells the same
        },
        &count);
    return count;
}
#endif

// Packages of wheels rename what they bundle: libgomp-a34b3233.so.1.
bool is_named_like_openmp(const char* path) {
    const char* slash = std::strrchr(path, '/');
    const char* name = slash != nullptr ? slash + 1 : path;
    for (const char* known : {"libgomp", "libomp", "libiomp"})
        if (std::strncmp(name, known, std::strlen(known)) == 0) return true;
    return false;
}

// The runtime that `scope`, a handle of the loader, leads to. Kept if it is new: what the handle holds stays loaded.
const OpenMP* kept(void* scope) {
    OpenMP found;
    found.parallel = reinterpret_cast<decltype(found.parallel)>(dlsym(scope, "GOMP_parallel"));
    found.in_parallel = reinterpret_cast<int (*)()>(dlsym(scope, "omp_in_parallel"));
    found.max_threads = reinterpret_cast<int (*)()>(dlsym(scope, "omp_get_max_threads"));
    Dl_info about;
    if (found.parallel == nullptr || found.in_parallel == nullptr || found.max_threads == nullptr) return nullptr;
    if (dladdr(reinterpret_cast<void*>(found.parallel), &about) == 0 || about.dli_fname == nullptr) return nullptr;
    const int count = runtime_count.load(std::memory_order_relaxed);
    for (int i = 0; i < count; ++i)
        if (runtimes[i].parallel == found.parallel) return &runtimes[i];
    if (count == MAX_RUNTIMES) return nullptr;
    found.path = about.dli_fname;
    dlopen(found.path, RTLD_NOLOAD | RTLD_LAZY);  // never closed; null for the program itself, which stays anyway
    runtimes[count] = found;
    runtime_count.store(count + 1, std::memory_order_release);
    if (count == 0) std::atexit([] { ending = true; });
    return &runtimes[count];
}

struct Paths {
    int count = 0;
    char path[MAX_RUNTIMES][1024];
    void add(const char* name) {
        if (count == MAX_RUNTIMES || !is_named_like_openmp(name) || std::strlen(name) >= sizeof path[0]) return;
        std::strcpy(path[count++], name);
    }
};

void read_the_lists() {
    static Paths paths;  // nothing is opened inside the loader's own loop
    paths.count = 0;
#if defined(__APPLE__)
    for (uint32_t i = 0; i < _dyld_image_count(); ++i)
        if (const char* name = _dyld_get_image_name(i)) paths.add(name);
#else
    dl_iterate_phdr(
        [](dl_phdr_info* object, size_t, void* paths) {
            if (object->dlpi_name != nullptr) static_cast<Paths*>(paths)->add(object->dlpi_name);
            return 0;
        },
        &paths);
#endif
    const OpenMP* first = kept(RTLD_DEFAULT);
    for (int i = 0; i < paths.count; ++i) {
        void* handle = dlopen(paths.path[i], RTLD_NOLOAD | RTLD_LAZY);
        if (handle == nullptr) continue;
        const OpenMP* found = kept(handle);
        if (first == nullptr) first = found;
        dlclose(handle);
    }
    first_choice.store(first, std::memory_order_release);
}

// Within a second; by hand, for TSan does not know how a timed mutex of libstdc++ is locked.
bool held_soon() {
    for (int tries = 0; tries < 1000; ++tries) {
        if (looking.try_lock()) return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
}

const bool knows_forks = [] {
    pthread_atfork([] { fork_holds_it = held_soon(); },
                   [] {
                       if (fork_holds_it) looking.unlock();
                   },
                   [] {
                       if (fork_holds_it) looking.unlock();
                       forked = true;
                   });
    return true;
}();

}  // namespace

void look_for_openmp() {
    if (forked || ending || !knows_forks) return;
    std::unique_lock<std::mutex> mine(looking, std::try_to_lock);
    if (!mine.owns_lock()) return;  // somebody looks this moment: what was known before will do
    const uint64_t now = loads();
    if (now == loads_seen) return;
    loads_seen = now;
    read_the_lists();
}

const OpenMP* openmp() { return first_choice.load(std::memory_order_acquire); }

bool openmp_may_start() { return !forked && !ending; }

bool in_openmp_region() {
    const int count = runtime_count.load(std::memory_order_acquire);
    for (int i = 0; i < count; ++i)
        if (runtimes[i].in_parallel()) return true;
    return false;
}

}  // namespace cg
