#include "runtime/locks.h"

#include <pthread.h>

#include <type_traits>

namespace convgrad {
namespace {

constexpr int kLocks = int(Lock::Count);

// Neither constructed nor destroyed at run time: they work before the first constructor and after the last destructor.
std::mutex locks[kLocks];
static_assert(std::is_trivially_destructible<std::mutex>::value, "locks outlive the program's destructors");

void take_all() {
    for (std::mutex& lock : locks) lock.lock();
}

void give_all() {
    for (int i = kLocks; i-- > 0;) locks[i].unlock();
}

// When the library is loaded. It cannot fail there: the C library has room for the first 48 handlers of a process.
const int handled = pthread_atfork(take_all, give_all, give_all);

}  // namespace

std::mutex& lock_of(Lock lock) noexcept { return locks[int(lock)]; }

}  // namespace convgrad
