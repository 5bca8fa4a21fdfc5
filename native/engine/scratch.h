// Scratch memory: of a task, and shared by the tasks of a call.
//
// A planner books every piece by name (plan->tile = plan->task.book<float>(count)), a task is granted it by the same
// name (scratch.at(plan.tile), see scratch.inl.h): there is no second list of sizes, in the same order, to keep in
// step.
#pragma once

#include "numbers/integers.h"

namespace cg {

// A booked piece: bytes from the beginning of its memory, and how many.
template <class T> struct Piece { size_t at, bytes; };

// Pieces are whole cache lines, with two more behind each: vectors may read, and where nothing follows write, beyond
// the last element. Always inlined: planners are compiled for the baseline.
struct Booking {
    size_t bytes;

    template <class T> inline __attribute__((always_inline)) Piece<T> book(index_t count) {
        const index_t floats = count * index_t(sizeof(T)) / 4;
        const Piece<T> piece{bytes, size_t(round_up(floats, 32) + 32) * 4};
        bytes += piece.bytes;
        return piece;
    }
};

// Memory shared by the tasks of one call: owned by the calling thread, grown when needed, never shrunk below use.
char* shared_scratch(size_t bytes);

// Memory of the calling thread for the nodes of sample_tree.h; null where there is none. Grows with the weight, so a
// thread keeps no more of it than a call's usual memory.
char* tree_scratch(size_t bytes);
void release_tree_scratch();

// Scratch memory under test (cg_check_scratch): NaN before every task, guard words at the end of every granted piece.
enum { SCRATCH_GUARD_BYTES = 64 };
extern bool scratch_checked;
void spoil_scratch(char* scratch, size_t bytes);  // and forgets the pieces of the task before
void guard_piece(char* end);                      // of a piece of the running task
bool pieces_intact();                             // of the running task
void spoil_shared(char* shared, size_t bytes);    // and forgets the shared pieces of the contraction before
void guard_shared(char* end);                     // of a piece of the calling thread's shared memory
bool shared_scratch_intact();

}  // namespace cg
