// Every lock of the library, in one place: what fork() must not tear.
//
// The child of a fork has the memory of all threads but only the thread that forked. A lock that another thread held
// would stay locked for ever, what it guards half changed. So the forking thread takes every lock before the fork, in
// the order below, and gives them back in both processes.
#pragma once

#include <mutex>

namespace convgrad {

constexpr int kMostKinds = 16;  // of objects with handles; each has a table and a lock

// In the order in which a thread may hold several: a later one inside an earlier one, never the other way round.
enum class Lock : int {
    Runtime,
    Settings,
    Tables,                          // the first of `kMostKinds`
    Contents = Tables + kMostKinds,  // of objects that change after they were made
    Blocks,
    Reservations,
    Messages,
    Count
};

std::mutex& lock_of(Lock lock) noexcept;

using Hold = std::lock_guard<std::mutex>;

}  // namespace convgrad
