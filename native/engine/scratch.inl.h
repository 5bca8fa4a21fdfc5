// Scratch memory of a task.
#pragma once

#include "scratch.h"
#include "simd/vector.inl.h"

namespace cg {
namespace {

struct Scratch {  // carves what the plan counted, in the plan's order
    char* at;
    template <class T> INLINE T* take(index_t count) {
        T* p = (T*)at;
        at += ((count + 31) / 32 * 32 + 32) * 4;
        if (scratch_checked) guard_piece(at);
        return p;
    }
};

}  // namespace
}  // namespace cg
