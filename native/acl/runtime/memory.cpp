#include "runtime/memory.h"

#include <cstdlib>
#include <cstring>
#include <map>

#include "runtime/immortal.h"
#include "runtime/locks.h"
#include "runtime/strict.h"

namespace convgrad {
namespace {

constexpr size_t kAlignment = 64;

struct Blocks {
    std::map<uintptr_t, std::shared_ptr<Block>> by_address;
    uint64_t allocated = 0;
};
Immortal<Blocks> blocks;

constexpr int kUnwritten = 0xFF;                      // NaN in every float dtype that has one
constexpr size_t kLargest = size_t(PTRDIFF_MAX) / 2;  // beyond it no memory exists; below it no sum here overflows

// glibc maps what is larger: fresh pages, zero and not there before they are used.
constexpr size_t kHeap = size_t(32) << 20;

// Device sizes are rounded up to 32 and given 32 more.
size_t usable_size(size_t asked) { return (asked + 31) / 32 * 32 + 32; }

char* aligned_bytes(size_t size) {
    return static_cast<char*>(std::aligned_alloc(kAlignment, (size + kAlignment - 1) / kAlignment * kAlignment));
}

bool give_memory(Block* block) {
    if (block->asked > kLargest) return false;
    block->usable = usable_size(block->asked);
    if (!strict::enabled()) {
        block->address = block->bytes = aligned_bytes(block->usable);
        if (block->bytes && block->asked <= kHeap) std::memset(block->bytes, kUnwritten, block->asked);
        return block->bytes != nullptr;
    }
    block->usable = block->asked;
    if (block->side == Side::PinnedHost) {
        block->address = block->bytes = strict::map_pinned(block->asked, block->number);
        return block->bytes != nullptr;
    }
    block->bytes = aligned_bytes(block->asked);
    if (!block->bytes) return false;
    std::memset(block->bytes, kUnwritten, block->asked);
    block->address = strict::reserve_device(block->asked, block->number);
    return block->address != nullptr;
}

}  // namespace

Block::~Block() {
    if (strict::enabled() && side == Side::PinnedHost) {
        if (address && !strict::unmap_pinned(address, asked))
            strict::report("host code wrote past the end of pinned host block #%llu (%zu bytes)",
                           static_cast<unsigned long long>(number), asked);
        return;
    }
    if (strict::enabled() && address) strict::retire_device(address);
    std::free(bytes);
}

std::shared_ptr<Block> allocate(Side side, size_t size) {
    auto block = std::make_shared<Block>();
    block->side = side;
    block->asked = size;
    Blocks& all = *blocks;
    {
        Hold hold(lock_of(Lock::Blocks));
        block->number = ++all.allocated;
    }
    if (!give_memory(block.get())) return nullptr;
    Hold hold(lock_of(Lock::Blocks));
    all.by_address.emplace(reinterpret_cast<uintptr_t>(block->address), block);
    return block;
}

bool release(Side side, const void* address) {
    std::shared_ptr<Block> removed;  // its storage goes when the last Span on it goes
    Blocks& all = *blocks;
    Hold hold(lock_of(Lock::Blocks));
    const auto at = all.by_address.find(reinterpret_cast<uintptr_t>(address));
    if (at == all.by_address.end() || at->second->side != side) return false;
    removed = std::move(at->second);
    all.by_address.erase(at);
    return true;
}

Span locate(const void* address, size_t count) {
    Span span;
    span.bytes = static_cast<char*>(const_cast<void*>(address));
    Blocks& all = *blocks;
    Hold hold(lock_of(Lock::Blocks));
    auto at = all.by_address.upper_bound(reinterpret_cast<uintptr_t>(address));
    if (at == all.by_address.begin()) return span;
    const std::shared_ptr<Block>& block = (--at)->second;
    const size_t offset = reinterpret_cast<uintptr_t>(address) - at->first;
    if (offset >= block->usable) return span;
    span.block = block;
    span.bytes = block->bytes + offset;
    span.fits = count <= block->usable - offset;
    return span;
}

std::vector<std::shared_ptr<Block>> live_blocks() {
    std::vector<std::shared_ptr<Block>> live;
    Blocks& all = *blocks;
    Hold hold(lock_of(Lock::Blocks));
    for (const auto& entry : all.by_address) live.push_back(entry.second);
    return live;
}

}  // namespace convgrad
