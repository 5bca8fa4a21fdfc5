// Handles that can be wrong without harm.
//
// What a program holds (stream, event, tensor, executor ...) is not an address but a ticket: a number no table ever
// gives out twice. Looking a ticket up answers with the object or with nothing, so a stale, foreign or uninitialised
// handle is an error code and never a crash. The tickets lie outside every canonical address range: dereferencing one
// stops the program at once.
//
//     bit 63..48  0x00C6: no user-space pointer looks like this
//     bit 47..40  the kind of object
//     bit 39..4   serial number, never reused
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <utility>

#include "runtime/locks.h"

namespace convgrad {

static_assert(sizeof(void*) == 8, "handles need 64-bit pointers");

enum class Kind : uint8_t {
    Context = 1,
    Stream,
    Event,
    Tensor,
    Scalar,
    IntArray,
    FloatArray,
    BoolArray,
    TensorList,
    ScalarList,
    Executor
};
static_assert(int(Kind::Executor) < kMostKinds, "every kind needs a lock");

template <class Object> class Registry {
public:
    explicit Registry(Kind kind)
        : base_((uint64_t{0x00C6} << 48) | (uint64_t(kind) << 40)),
          lock_(lock_of(Lock(int(Lock::Tables) + int(kind)))) {}

    void* add(std::shared_ptr<Object> object) {
        Hold hold(lock_);
        const uint64_t handle = base_ | (++serial_ << 4);
        objects_.emplace_hint(objects_.end(), handle, std::move(object));
        return reinterpret_cast<void*>(handle);
    }

    std::shared_ptr<Object> find(const void* handle) const {
        Hold hold(lock_);
        const auto at = objects_.find(reinterpret_cast<uint64_t>(handle));
        return at == objects_.end() ? nullptr : at->second;
    }

    // Takes the object out of the table; a second caller gets nothing.
    std::shared_ptr<Object> remove(const void* handle) {
        Hold hold(lock_);
        const auto at = objects_.find(reinterpret_cast<uint64_t>(handle));
        if (at == objects_.end()) return nullptr;
        std::shared_ptr<Object> object = std::move(at->second);
        objects_.erase(at);
        return object;
    }

    // Takes out every object for which `matches` holds. Entries are moved, not copied: this cannot run out of memory.
    template <class Predicate> void remove_where(Predicate matches) {
        Objects removed;  // destroyed after the lock is released
        Hold hold(lock_);
        for (auto at = objects_.begin(); at != objects_.end();) {
            const auto next = std::next(at);
            if (matches(*at->second)) removed.insert(objects_.extract(at));
            at = next;
        }
    }

    size_t size() const {
        Hold hold(lock_);
        return objects_.size();
    }

private:
    using Objects = std::map<uint64_t, std::shared_ptr<Object>>;

    const uint64_t base_;
    std::mutex& lock_;
    uint64_t serial_ = 0;
    Objects objects_;
};

}  // namespace convgrad
