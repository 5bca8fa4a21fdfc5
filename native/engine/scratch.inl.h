// Scratch memory at work: pieces are granted by the names they were booked by.
#pragma once

#include "scratch.h"
#include "simd/vector.inl.h"

namespace cg {
namespace {

struct Scratch {  // of a task
    char* memory;
    template <class T> INLINE T* at(const Piece<T>& piece) const {
        if (scratch_checked) guard_piece(memory + piece.at + piece.bytes);
        return (T*)(memory + piece.at);
    }
};

struct SharedScratch {  // of all tasks of a contraction; null where there is no memory
    char* memory;
    explicit SharedScratch(const Booking& booking) : memory(shared_scratch(booking.bytes)) {}
    template <class T> INLINE T* at(const Piece<T>& piece) const {
        if (scratch_checked) guard_shared(memory + piece.at + piece.bytes);
        return (T*)(memory + piece.at);
    }
};

}  // namespace
}  // namespace cg
