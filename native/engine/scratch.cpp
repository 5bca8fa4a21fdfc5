// Scratch memory under test: what a kernel reads without having written it is NaN, and writing beyond a piece shows.
#include "scratch.h"

#include <cstddef>
#include <cstring>

namespace cg {

bool scratch_checked = false;

size_t scratch_bytes(index_t count) { return size_t(round_up(count, 32) + 32) * 4; }

namespace {

enum { MAX_PIECES = 32 };
const unsigned char GUARD = 0xa5;

// Trivial types: a thread that ends while another part of the program still computes leaves nothing dangling.
thread_local char* guards[MAX_PIECES];
thread_local int pieces = 0;
thread_local char* shared_guard = nullptr;

bool holds_guard(const char* end) {
    for (size_t i = 1; i <= SCRATCH_GUARD_BYTES; ++i)
        if (static_cast<unsigned char>(end[-ptrdiff_t(i)]) != GUARD) return false;
    return true;
}

}  // namespace

void spoil_scratch(char* scratch, size_t bytes) {
    if (bytes > 0) std::memset(scratch, 0xff, bytes);
    pieces = 0;
}

void guard_piece(char* end) {
    if (pieces == MAX_PIECES) return;
    std::memset(end - SCRATCH_GUARD_BYTES, GUARD, SCRATCH_GUARD_BYTES);
    guards[pieces++] = end;
}

void guard_shared(char* end) {
    std::memset(end - SCRATCH_GUARD_BYTES, GUARD, SCRATCH_GUARD_BYTES);
    shared_guard = end;
}

bool shared_scratch_intact() { return shared_guard == nullptr || holds_guard(shared_guard); }

bool pieces_intact() {
    bool intact = true;
    for (int i = 0; i < pieces; ++i) intact &= holds_guard(guards[i]);
    return intact;
}

}  // namespace cg

extern "C" int32_t cg_check_scratch(int32_t on) {
    const bool before = cg::scratch_checked;
    cg::scratch_checked = on != 0;
    return before ? 1 : 0;
}
