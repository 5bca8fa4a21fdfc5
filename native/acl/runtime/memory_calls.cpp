// aclrtMalloc ... aclrtGetMemInfo, and the two facts about number formats acl_base.h offers.
#include <unistd.h>

#include <cmath>
#include <cstring>

#include "acl/acl.h"
#include "runtime/errors.h"
#include "runtime/memory.h"
#include "runtime/runtime.h"
#include "runtime/strict.h"

using namespace convgrad;

namespace {

int allocate_for(const char* function, Side side, void** pointer, size_t size) {
    if (!pointer) return fail(ACL_ERROR_INVALID_PARAM, "%s: the pointer to write to must not be null", function);
    if (size == 0) return fail(ACL_ERROR_INVALID_PARAM, "%s: size must be at least 1, got 0", function);
    if (const int status = check_device_selected(function)) return status;
    return guarded(ACL_ERROR_RT_MEMORY_ALLOCATION, [&] {
        const auto block = allocate(side, size);
        if (!block) return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: no memory for %zu bytes", function, size);
        *pointer = block->address;
        return ACL_SUCCESS;
    });
}

int allocate_device(const char* function, void** pointer, size_t size, int policy) {
    constexpr int kinds =
        ACL_MEM_TYPE_LOW_BAND_WIDTH | ACL_MEM_TYPE_HIGH_BAND_WIDTH | ACL_MEM_ACCESS_USER_SPACE_READONLY;
    if (policy < 0 || (policy & ~kinds) > ACL_MEM_MALLOC_HUGE1G_ONLY_P2P)
        return fail(ACL_ERROR_INVALID_PARAM, "%s: policy 0x%x does not exist", function, unsigned(policy));
    return allocate_for(function, Side::Device, pointer, size);
}

int release_for(const char* function, Side side, const void* pointer) {
    if (!pointer) return fail(ACL_ERROR_INVALID_PARAM, "%s: the pointer must not be null", function);
    return guarded(ACL_ERROR_RT_MEMORY_FREE, [&]() -> int {
        if (release(side, pointer)) return ACL_SUCCESS;
        if (strict::enabled())
            strict::report("%s: %p is no live block (freed twice, or never allocated)", function, pointer);
        return fail(ACL_ERROR_RT_PARAM_INVALID, "%s: %p is not the address of a live block", function, pointer);
    });
}

const char* side_name(const Span& span) { return span.block->side == Side::Device ? "device" : "pinned host"; }

// The span exists and is large enough; otherwise a status, and in strict mode a line that names the block.
int check_span(const char* function, const char* role, const Span& span, const void* address, size_t count) {
    if (span.block && !span.fits) {
        const size_t offset = size_t(static_cast<const char*>(address) - span.block->address);
        if (strict::enabled())
            strict::report("%s: %zu bytes at offset %zu run past the end of %s block #%llu (%zu bytes), the %s",
                           function, count, offset, side_name(span),
                           static_cast<unsigned long long>(span.block->number), span.block->asked, role);
        return fail(ACL_ERROR_RT_PARAM_INVALID,
                    "%s: %zu bytes at offset %zu run past the end of %s block #%llu (%zu bytes)", function, count,
                    offset, side_name(span), static_cast<unsigned long long>(span.block->number), span.block->asked);
    }
    if (!span.block && strict::enabled()) {
        if (const uint64_t number = strict::freed_block_at(address)) {
            strict::report("%s: the %s is freed device block #%llu", function, role,
                           static_cast<unsigned long long>(number));
            return fail(ACL_ERROR_RT_PARAM_INVALID, "%s: the %s was freed", function, role);
        }
    }
    return ACL_SUCCESS;
}

bool on_device(const Span& span) { return span.block && span.block->side == Side::Device; }

// The kind is a promise about the two addresses; only strict mode holds the program to it.
int check_direction(const char* function, const Span& to, const Span& from, int kind) {
    const bool to_device = kind == ACL_MEMCPY_HOST_TO_DEVICE || kind == ACL_MEMCPY_DEVICE_TO_DEVICE ||
                           kind == ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE;
    const bool from_device = kind == ACL_MEMCPY_DEVICE_TO_HOST || kind == ACL_MEMCPY_DEVICE_TO_DEVICE;
    if (!strict::enabled() || kind == ACL_MEMCPY_DEFAULT ||
        (to_device == on_device(to) && from_device == on_device(from)))
        return ACL_SUCCESS;
    strict::report("%s: kind %d does not fit: the destination is %s memory, the source is %s memory", function, kind,
                   on_device(to) ? "device" : "host", on_device(from) ? "device" : "host");
    return fail(ACL_ERROR_RT_PARAM_INVALID, "%s: kind %d contradicts the addresses", function, kind);
}

int copy(const char* function, void* dst, size_t destMax, const void* src, size_t count, int kind) {
    if (count == 0) return ACL_SUCCESS;
    if (!dst || !src) return fail(ACL_ERROR_INVALID_PARAM, "%s: %s must not be null", function, dst ? "src" : "dst");
    if (kind < ACL_MEMCPY_HOST_TO_HOST || kind > ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE)
        return fail(ACL_ERROR_INVALID_PARAM, "%s: kind must be in [0, 5], got %d", function, kind);
    if (count > destMax)
        return fail(ACL_ERROR_RT_PARAM_INVALID, "%s: count %zu must be at most destMax %zu", function, count, destMax);
    if (const int status = check_device_selected(function)) return status;
    return guarded(ACL_ERROR_RT_MEMORY_ALLOCATION, [&]() -> int {
        const Span to = locate(dst, count), from = locate(src, count);
        if (const int status = check_span(function, "destination", to, dst, count)) return status;
        if (const int status = check_span(function, "source", from, src, count)) return status;
        if (const int status = check_direction(function, to, from, kind)) return status;
        std::memmove(to.bytes, from.bytes, count);
        if (to.block) to.block->written = true;
        return ACL_SUCCESS;
    });
}

int fill(const char* function, void* devPtr, size_t maxCount, int32_t value, size_t count) {
    if (count == 0) return ACL_SUCCESS;
    if (!devPtr) return fail(ACL_ERROR_INVALID_PARAM, "%s: devPtr must not be null", function);
    if (count > maxCount)
        return fail(ACL_ERROR_RT_PARAM_INVALID, "%s: count %zu must be at most maxCount %zu", function, count,
                    maxCount);
    if (const int status = check_device_selected(function)) return status;
    return guarded(ACL_ERROR_RT_MEMORY_ALLOCATION, [&]() -> int {
        const Span to = locate(devPtr, count);
        if (const int status = check_span(function, "destination", to, devPtr, count)) return status;
        std::memset(to.bytes, value, count);
        if (to.block) to.block->written = true;
        return ACL_SUCCESS;
    });
}

}  // namespace

extern "C" {

aclError aclrtMalloc(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
    return allocate_device("aclrtMalloc", devPtr, size, policy);
}

aclError aclrtMallocAlign32(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
    return allocate_device("aclrtMallocAlign32", devPtr, size, policy);
}

aclError aclrtMallocCached(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
    return allocate_device("aclrtMallocCached", devPtr, size, policy);
}

aclError aclrtFree(void* devPtr) { return release_for("aclrtFree", Side::Device, devPtr); }

aclError aclrtMallocHost(void** hostPtr, size_t size) {
    return allocate_for("aclrtMallocHost", Side::PinnedHost, hostPtr, size);
}

aclError aclrtFreeHost(void* hostPtr) { return release_for("aclrtFreeHost", Side::PinnedHost, hostPtr); }

aclError aclrtMemcpy(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind) {
    return copy("aclrtMemcpy", dst, destMax, src, count, kind);
}

aclError aclrtMemcpyAsync(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind,
                          aclrtStream stream) {
    if (kind == ACL_MEMCPY_HOST_TO_HOST)
        return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "aclrtMemcpyAsync does not copy from host to host");
    if (const int status = check_stream(stream)) return status;
    return copy("aclrtMemcpyAsync", dst, destMax, src, count, kind);
}

aclError aclrtMemset(void* devPtr, size_t maxCount, int32_t value, size_t count) {
    return fill("aclrtMemset", devPtr, maxCount, value, count);
}

aclError aclrtMemsetAsync(void* devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream) {
    if (const int status = check_stream(stream)) return status;
    return fill("aclrtMemsetAsync", devPtr, maxCount, value, count);
}

aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t* free, size_t* total) {
    if (!free || !total) return fail(ACL_ERROR_INVALID_PARAM, "free and total must not be null");
    if (attr < ACL_DDR_MEM || attr > ACL_HBM_MEM_P2P_HUGE1G)
        return fail(ACL_ERROR_INVALID_PARAM, "attr %d does not exist", int(attr));
    const size_t page = size_t(sysconf(_SC_PAGESIZE));
    *total = size_t(sysconf(_SC_PHYS_PAGES)) * page;
    *free = size_t(sysconf(_SC_AVPHYS_PAGES)) * page;
    return ACL_SUCCESS;
}

size_t aclDataTypeSize(aclDataType dataType) {
    switch (dataType) {
    case ACL_INT8:
    case ACL_UINT8:
    case ACL_BOOL:
    case ACL_INT4:
    case ACL_UINT1:
    case ACL_HIFLOAT8:
    case ACL_FLOAT8_E5M2:
    case ACL_FLOAT8_E4M3FN:
    case ACL_FLOAT8_E8M0:
    case ACL_FLOAT6_E3M2:
    case ACL_FLOAT6_E2M3:
    case ACL_FLOAT4_E2M1:
    case ACL_FLOAT4_E1M2: return 1;
    case ACL_FLOAT16:
    case ACL_BF16:
    case ACL_INT16:
    case ACL_UINT16: return 2;
    case ACL_FLOAT:
    case ACL_INT32:
    case ACL_UINT32:
    case ACL_COMPLEX32: return 4;
    case ACL_INT64:
    case ACL_UINT64:
    case ACL_DOUBLE:
    case ACL_COMPLEX64: return 8;
    case ACL_COMPLEX128: return 16;
    default: return 0;
    }
}

// A half as sign, 5 exponent bits (bias 15), 10 fraction bits, where the top exponent is a binade like any other:
// half infinity reads as 2^16 and the first NaN as 1.5 * 2^16.
float aclFloat16ToFloat(aclFloat16 value) {
    const int exponent = (value >> 10) & 0x1F, fraction = value & 0x3FF;
    const float magnitude =
        exponent == 0 ? std::ldexp(float(fraction), -24) : std::ldexp(float(fraction | 0x400), exponent - 25);
    return value & 0x8000 ? -magnitude : magnitude;
}

// Rounds to nearest even; what is too large, infinite or not a number becomes the largest finite half.
aclFloat16 aclFloatToFloat16(float value) {
    const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    const float magnitude = std::fabs(value);
    if (!(magnitude < 65520.0f)) return aclFloat16(sign | 0x7BFF);  // 65520 is the first tie that rounds past 65504
    if (magnitude == 0) return sign;
    int exponent = 0;
    std::frexp(magnitude, &exponent);                            // magnitude in [2^(exponent-1), 2^exponent)
    const int quantum = (exponent < -13 ? -13 : exponent) - 11;  // weight of the last fraction bit
    const int steps = int(std::nearbyint(std::ldexp(magnitude, -quantum)));
    // steps counts quanta: below 1024 it is a subnormal; a carry out of the fraction moves the exponent by itself.
    return aclFloat16(sign | ((quantum + 24) * 1024 + steps));
}

}  // extern "C"
