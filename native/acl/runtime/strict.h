// Strict mode (CONVGRAD_STRICT=1): mistakes a CPU would forgive and a device would not.
//
// In strict mode the address aclrtMalloc gives out is a reservation nobody may read or write; the bytes live elsewhere
// and only the library's own calls reach them. Host code that touches a device address therefore faults, and the fault
// handler names the block. Freed reservations stay reserved, so that a late access is named as well.
#pragma once

#include <cstddef>
#include <cstdint>

namespace convgrad {
namespace strict {

bool enabled() noexcept;

// Prints "convgrad strict: ..." on standard error.
void report(const char* format, ...) noexcept __attribute__((format(printf, 1, 2)));

// A reservation for `bytes` that faults on every access, or null.
char* reserve_device(size_t bytes, uint64_t number) noexcept;
// Keeps the reservation and remembers that the block is gone.
void retire_device(const char* address) noexcept;
// The number of the freed block `address` lies in, or 0.
uint64_t freed_block_at(const void* address) noexcept;

// Readable and writable host memory that ends at a page nobody may touch; null when there is none.
char* map_pinned(size_t bytes, uint64_t number) noexcept;
// Unmaps it; false when the bytes between its end and the guarded page were overwritten.
bool unmap_pinned(char* address, size_t bytes) noexcept;

}  // namespace strict
}  // namespace convgrad
