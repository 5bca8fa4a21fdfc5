// Scratch memory: of a task, and shared by the tasks of a call.
#pragma once

#include "numbers/integers.h"

namespace cg {

size_t scratch_bytes(index_t count);  // of a piece of so many floats, see Scratch

// Memory shared by the tasks of one call: owned by the calling thread, grown when needed, never shrunk below use.
char* shared_scratch(size_t bytes);

// Scratch memory under test (cg_check_scratch): NaN before every task, guard words behind every piece.
enum { SCRATCH_GUARD_BYTES = 64 };
extern bool scratch_checked;
void spoil_scratch(char* scratch, size_t bytes);  // and forgets the pieces of the task before
void guard_piece(char* end);                      // of a piece of the running task
bool pieces_intact();                             // of the running task
void guard_shared(char* end);                     // of the calling thread's shared memory
bool shared_scratch_intact();

}  // namespace cg
