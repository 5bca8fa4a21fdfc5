// Device and pinned host memory: every block is known, so that every access can be checked against one.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace convgrad {

enum class Side { Device, PinnedHost };

struct Block {
    uint64_t number = 0;  // in order of allocation, from 1
    Side side = Side::Device;
    char* address = nullptr;  // what the program holds
    char* bytes = nullptr;    // where the bytes are; differs from `address` for strict device memory
    size_t asked = 0;
    size_t usable = 0;  // what an access may reach: the rounded size, in strict mode what was asked
    std::atomic<bool> written{false};

    Block() = default;
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
    ~Block();
};

// Bytes the library may touch. Holding a Span keeps the block's storage alive while another thread frees it.
struct Span {
    std::shared_ptr<Block> block;  // null for host memory the library did not allocate
    char* bytes = nullptr;
    bool fits = true;
};

// Null when there is no memory.
std::shared_ptr<Block> allocate(Side side, size_t size);
// False when no live block of that side starts at `address`.
bool release(Side side, const void* address);

// The `count` bytes at `address`. An address outside every block is host memory.
Span locate(const void* address, size_t count);

std::vector<std::shared_ptr<Block>> live_blocks();

}  // namespace convgrad
