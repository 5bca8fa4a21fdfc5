#include "runtime/strict.h"

#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "runtime/locks.h"

namespace convgrad {
namespace strict {
namespace {

constexpr size_t kPage = 4096;  // guards need a page at most this small; larger pages are rounded by the kernel
constexpr size_t kSlots = 1 << 15;
constexpr unsigned char kSlackByte = 0xC6;

enum State : int { kFree = 0, kDevice, kFreedDevice, kPinned };

// Read by the fault handler, which may take no lock and allocate nothing: plain atomics, `state` published last.
struct Slot {
    std::atomic<uintptr_t> address{0};
    std::atomic<size_t> bytes{0};
    std::atomic<size_t> mapped{0};
    std::atomic<uint64_t> number{0};
    std::atomic<int> state{kFree};
};

Slot slots[kSlots];
// Guarded by Lock::Reservations, down to the actions.
size_t slots_used = 0;
// Slots whose block is gone, oldest first: a ring in which each slot stands at most once.
Slot* retired[kSlots];
size_t retired_first = 0, retired_count = 0;
bool handler_installed = false;
struct sigaction previous_segv, previous_bus;

size_t page_size() { return size_t(sysconf(_SC_PAGESIZE)); }

bool round_to_pages(size_t bytes, size_t* rounded) {
    const size_t page = page_size();
    return !__builtin_add_overflow(bytes, page - 1, rounded) && (*rounded -= *rounded % page, true);
}

// Builds a line without the C library, so that it may be used inside a signal handler.
struct Line {
    char text[400];
    size_t length = 0;
    void add(const char* words) {
        while (*words && length < sizeof text) text[length++] = *words++;
    }
    void add(uint64_t value, unsigned base = 10) {
        char digits[24];
        size_t count = 0;
        do digits[count++] = "0123456789abcdef"[value % base];
        while (value /= base);
        while (count && length < sizeof text) text[length++] = digits[--count];
    }
};

const char* access_word(const void* context) {
#if defined(__x86_64__)
    const auto* machine = static_cast<const ucontext_t*>(context);
    return (machine->uc_mcontext.gregs[REG_ERR] & 2) ? "wrote" : "read";
#else
    (void)context;
    return "touched";
#endif
}

void describe(const Slot& slot, uintptr_t fault, const void* context) {
    const uintptr_t address = slot.address.load();
    const size_t bytes = slot.bytes.load();
    const int state = slot.state.load();
    Line line;
    line.add("convgrad strict: host code ");
    line.add(access_word(context));
    line.add(" ");
    if (fault < address) {
        line.add(address - fault);
        line.add(" bytes before the start of ");
    } else if (fault >= address + bytes) {
        line.add(fault - address - bytes);
        line.add(" bytes past the end of ");
    } else {
        line.add("byte ");
        line.add(fault - address);
        line.add(" of ");
    }
    line.add(state == kPinned ? "pinned host block #" : state == kDevice ? "device block #" : "freed device block #");
    line.add(slot.number.load());
    line.add(" (");
    line.add(bytes);
    line.add(" bytes at 0x");
    line.add(address, 16);
    line.add(state == kPinned ? ")\n" : "); device memory is reached with aclrtMemcpy only\n");
    const ssize_t written = write(STDERR_FILENO, line.text, line.length);
    (void)written;
}

void on_fault(int signal_number, siginfo_t* info, void* context) {
    const uintptr_t fault = reinterpret_cast<uintptr_t>(info->si_addr);
    for (const Slot& slot : slots) {
        if (slot.state.load(std::memory_order_acquire) == kFree) continue;
        const uintptr_t first = slot.address.load() & ~uintptr_t(kPage - 1);
        if (fault + kPage >= first && fault < first + slot.mapped.load()) {
            describe(slot, fault, context);
            break;
        }
    }
    // Hand over: the instruction faults again and whoever was responsible before (or the default) takes it.
    sigaction(signal_number, signal_number == SIGBUS ? &previous_bus : &previous_segv, nullptr);
}

void install_handler() {
    if (handler_installed) return;
    handler_installed = true;
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &previous_segv);
    sigaction(SIGBUS, &action, &previous_bus);
}

void retire(Slot* slot, int state) {
    slot->state.store(state);
    retired[(retired_first + retired_count++) % kSlots] = slot;
}

// A slot to write to; when all were used once, the block that was freed longest ago gives up its reservation.
Slot* take_slot() {
    if (slots_used < kSlots) return &slots[slots_used++];
    if (retired_count == 0) return nullptr;
    Slot* slot = retired[retired_first];
    retired_first = (retired_first + 1) % kSlots;
    --retired_count;
    if (slot->state.exchange(kFree) == kFreedDevice)
        munmap(reinterpret_cast<void*>(slot->address.load() - page_size()), slot->mapped.load());
    return slot;
}

Slot* slot_at(const void* address, int state) {
    const uintptr_t wanted = reinterpret_cast<uintptr_t>(address);
    for (size_t i = 0; i < slots_used; ++i)
        if (slots[i].state.load() == state && slots[i].address.load() == wanted) return &slots[i];
    return nullptr;
}

void publish(Slot* slot, char* address, size_t bytes, size_t mapped, uint64_t number, int state) {
    slot->address.store(reinterpret_cast<uintptr_t>(address));
    slot->bytes.store(bytes);
    slot->mapped.store(mapped);
    slot->number.store(number);
    slot->state.store(state, std::memory_order_release);
}

}  // namespace

bool enabled() noexcept {
    // Read once, by whoever comes first or by several at once: a guarded static could be torn by fork().
    static std::atomic<int> known{-1};
    int value = known.load(std::memory_order_relaxed);
    if (value < 0) {
        const char* setting = std::getenv("CONVGRAD_STRICT");
        value = setting && *setting && std::strcmp(setting, "0") != 0;
        known.store(value, std::memory_order_relaxed);
    }
    return value != 0;
}

void report(const char* format, ...) noexcept {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    std::fprintf(stderr, "convgrad strict: %s\n", text);
}

char* reserve_device(size_t bytes, uint64_t number) noexcept {
    const size_t page = page_size();
    size_t body, mapped;
    if (!round_to_pages(bytes, &body) || __builtin_add_overflow(body, 2 * page, &mapped)) return nullptr;
    Hold hold(lock_of(Lock::Reservations));
    install_handler();
    Slot* slot = take_slot();
    if (!slot) return nullptr;
    void* base = mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return retire(slot, kFree), nullptr;
    char* address = static_cast<char*>(base) + page;
    publish(slot, address, bytes, mapped, number, kDevice);
    return address;
}

void retire_device(const char* address) noexcept {
    Hold hold(lock_of(Lock::Reservations));
    if (Slot* slot = slot_at(address, kDevice)) retire(slot, kFreedDevice);
}

uint64_t freed_block_at(const void* address) noexcept {
    const uintptr_t wanted = reinterpret_cast<uintptr_t>(address);
    Hold hold(lock_of(Lock::Reservations));
    for (size_t i = 0; i < slots_used; ++i) {
        const uintptr_t start = slots[i].address.load();
        const int state = slots[i].state.load();
        // A block that was freed while another thread looks at it keeps its place until that thread is done.
        if ((state == kFreedDevice || state == kDevice) && wanted >= start && wanted - start < slots[i].bytes.load())
            return slots[i].number.load();
    }
    return 0;
}

//     | body, rounded up to pages                     | guard page |
//     | slack before | user's bytes | slack (< 64)    |
char* map_pinned(size_t bytes, uint64_t number) noexcept {
    const size_t page = page_size();
    size_t padded, body, mapped;
    if (__builtin_add_overflow(bytes, size_t{63}, &padded)) return nullptr;
    padded -= padded % 64;
    if (!round_to_pages(padded, &body) || __builtin_add_overflow(body, page, &mapped)) return nullptr;
    Hold hold(lock_of(Lock::Reservations));
    install_handler();
    Slot* slot = take_slot();
    if (!slot) return nullptr;
    void* base = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return retire(slot, kFree), nullptr;
    char* guard = static_cast<char*>(base) + body;
    if (mprotect(guard, page, PROT_NONE) != 0) {
        munmap(base, mapped);
        return retire(slot, kFree), nullptr;
    }
    char* address = guard - padded;
    std::memset(address + bytes, kSlackByte, padded - bytes);
    publish(slot, address, bytes, mapped, number, kPinned);
    return address;
}

bool unmap_pinned(char* address, size_t bytes) noexcept {
    const size_t padded = (bytes + 63) / 64 * 64;
    bool intact = true;
    for (size_t i = bytes; i < padded; ++i) intact &= static_cast<unsigned char>(address[i]) == kSlackByte;
    Hold hold(lock_of(Lock::Reservations));
    Slot* slot = slot_at(address, kPinned);
    if (!slot) return intact;
    const size_t mapped = slot->mapped.load();
    retire(slot, kFree);
    munmap(address + padded + page_size() - mapped, mapped);
    return intact;
}

}  // namespace strict
}  // namespace convgrad
