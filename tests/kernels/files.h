// Global memory from files and back; the size of a result is the size of the file that waits for it.
#pragma once

#include <cstdio>
#include <cstdlib>

#include "tikicpulib.h"

inline size_t size_of(const char *path) {
    std::FILE *file = std::fopen(path, "rb");
    if (!file) std::exit(3);
    std::fseek(file, 0, SEEK_END);
    const long size = std::ftell(file);
    std::fclose(file);
    return static_cast<size_t>(size);
}

inline uint8_t *room_for(const char *path) { return static_cast<uint8_t *>(AscendC::GmAlloc(size_of(path))); }

inline uint8_t *from_file(const char *path) {
    uint8_t *block = room_for(path);
    std::FILE *file = std::fopen(path, "rb");
    if (!file || std::fread(block, 1, size_of(path), file) != size_of(path)) std::exit(3);
    std::fclose(file);
    return block;
}

inline void to_file(const char *path, const uint8_t *block) {
    const size_t size = size_of(path);
    std::FILE *file = std::fopen(path, "wb");
    if (!file || std::fwrite(block, 1, size, file) != size) std::exit(3);
    std::fclose(file);
}
