// The program's malloc, operator new and free stand before the C library's or the sanitizer's: every allocation of the
// library, of the C++ library and of the C library itself passes here. Who includes this defines four hooks:
//
//     bool begin_allocation();   false: the allocation fails
//     void end_allocation(const void *made, bool is_new);
//     void begin_free(const void *memory);
//     void end_free();
//
// The first allocations come before the sanitizer is ready: the hooks are UNWATCHED.
#pragma once

#include <cerrno>
#include <cstddef>
#include <new>

#define UNWATCHED __attribute__((no_sanitize("address", "undefined")))
#if defined(__SANITIZE_ADDRESS__)
#define ALLOCATOR(name) __interceptor_##name
#else
#define ALLOCATOR(name) __libc_##name
#endif

UNWATCHED bool begin_allocation();
UNWATCHED void end_allocation(const void *made, bool is_new);
UNWATCHED void begin_free(const void *memory);
UNWATCHED void end_free();

extern "C" {

void *ALLOCATOR(malloc)(size_t);
void *ALLOCATOR(calloc)(size_t, size_t);
void *ALLOCATOR(realloc)(void *, size_t);
void *ALLOCATOR(memalign)(size_t, size_t);
void ALLOCATOR(free)(void *);

UNWATCHED void *malloc(size_t size) {
    if (!begin_allocation()) return errno = ENOMEM, nullptr;
    void *made = ALLOCATOR(malloc)(size);
    return end_allocation(made, true), made;
}
UNWATCHED void *calloc(size_t count, size_t size) {
    if (!begin_allocation()) return errno = ENOMEM, nullptr;
    void *made = ALLOCATOR(calloc)(count, size);
    return end_allocation(made, true), made;
}
UNWATCHED void *realloc(void *old, size_t size) {
    if (!begin_allocation()) return errno = ENOMEM, nullptr;
    void *made = ALLOCATOR(realloc)(old, size);
    return end_allocation(made, old == nullptr), made;
}
UNWATCHED void *memalign(size_t alignment, size_t size) {
    if (!begin_allocation()) return errno = ENOMEM, nullptr;
    void *made = ALLOCATOR(memalign)(alignment, size);
    return end_allocation(made, true), made;
}
UNWATCHED void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
UNWATCHED int posix_memalign(void **made, size_t alignment, size_t size) {
    void *memory = memalign(alignment, size);
    if (!memory) return ENOMEM;
    *made = memory;
    return 0;
}
UNWATCHED void free(void *memory) {
    begin_free(memory);
    ALLOCATOR(free)(memory);
    end_free();
}

}  // extern "C"

// A sanitizer's own would not come by malloc.
void *operator new(size_t size) {
    if (void *made = malloc(size ? size : 1)) return made;
    throw std::bad_alloc();
}
void *operator new[](size_t size) { return operator new(size); }
void *operator new(size_t size, const std::nothrow_t &) noexcept { return malloc(size ? size : 1); }
void *operator new[](size_t size, const std::nothrow_t &) noexcept { return malloc(size ? size : 1); }
void operator delete(void *memory) noexcept { free(memory); }
void operator delete[](void *memory) noexcept { free(memory); }
void operator delete(void *memory, size_t) noexcept { free(memory); }
void operator delete[](void *memory, size_t) noexcept { free(memory); }
