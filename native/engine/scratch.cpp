// Scratch memory under test: what a kernel reads without having written it is NaN, and writing beyond a piece shows.
#include "scratch.h"

#include <cstddef>
#include <cstring>

namespace cg {

bool scratch_checked = false;

namespace {

enum { MAX_PIECES = 32 };
const unsigned char GUARD = 0xa5;

// Trivial types: a thread that ends while another part of the program still computes leaves nothing dangling.
struct Guards {
    char* end[MAX_PIECES];
    int count;
};
thread_local Guards of_task, of_shared;

bool holds_guard(const char* end) {
    for (size_t i = 1; i <= SCRATCH_GUARD_BYTES; ++i)
        if (static_cast<unsigned char>(end[-ptrdiff_t(i)]) != GUARD) return false;
    return true;
}

void guard(Guards* guards, char* end) {
    if (guards->count == MAX_PIECES) return;
    std::memset(end - SCRATCH_GUARD_BYTES, GUARD, SCRATCH_GUARD_BYTES);
    guards->end[guards->count++] = end;
}

bool intact(const Guards& guards) {
    bool all = true;
    for (int i = 0; i < guards.count; ++i) all &= holds_guard(guards.end[i]);
    return all;
}

void spoil(Guards* guards, char* memory, size_t bytes) {
    if (bytes > 0) std::memset(memory, 0xff, bytes);
    guards->count = 0;
}

}  // namespace

void spoil_scratch(char* scratch, size_t bytes) { spoil(&of_task, scratch, bytes); }
void guard_piece(char* end) { guard(&of_task, end); }
bool pieces_intact() { return intact(of_task); }

void spoil_shared(char* shared, size_t bytes) { spoil(&of_shared, shared, bytes); }
void guard_shared(char* end) { guard(&of_shared, end); }
bool shared_scratch_intact() { return intact(of_shared); }

}  // namespace cg

extern "C" int32_t cg_check_scratch(int32_t on) {
    const bool before = cg::scratch_checked;
    cg::scratch_checked = on != 0;
    return before ? 1 : 0;
}
