// Number formats, one element at a time and exactly: the rows of generated/dtypes.inc put to work.
#include "numbers/formats.h"

#include <pthread.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <new>

#include "../../generated/dtypes.inc"

namespace cg {
namespace {

const float nan32 = std::numeric_limits<float>::quiet_NaN();

const uint32_t* decode_bits(int dtype) {
    switch (dtype) {
    case CG_FLOAT8_E4M3FN: return CG_DECODE_FLOAT8_E4M3FN;
    case CG_FLOAT8_E5M2: return CG_DECODE_FLOAT8_E5M2;
    case CG_HIFLOAT8: return CG_DECODE_HIFLOAT8;
    default: return nullptr;
    }
}

bool is_byte(int dtype) { return decode_bits(dtype) != nullptr; }

uint32_t bits_of(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    return bits;
}

float float_of(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}

// Every 8-bit format has at most 3 fraction bits, so the ends and midpoints of its intervals are float32 numbers
// whose lower 16 bits are zero. Which interval a float32 lies in follows from its upper half alone, once the last
// bit of that half says whether anything below it is set: 65536 codes answer every float32.
struct ByteTables {
    float value[256];
    uint8_t code[65536];

    explicit ByteTables(int dtype) {
        static uint8_t code_of[65536];  // by the upper half of the value; filled under `tables_guard`
        std::memset(code_of, 0, sizeof code_of);
        int nan_code[2] = {-1, -1};
        for (int c = 0; c < 256; ++c) {
            const uint32_t bits = decode_bits(dtype)[c];
            value[c] = float_of(bits);
            if (value[c] != value[c]) {
                int& chosen = nan_code[c >> 7];
                if (chosen < 0 || c % 2 == 0) chosen = c;  // of several NaN codes, the quiet one
            } else {
                code_of[bits >> 16] = uint8_t(c);
            }
        }
        if (nan_code[0] < 0) nan_code[0] = nan_code[1];
        if (nan_code[1] < 0) nan_code[1] = nan_code[0];
        for (int half = 0; half < 65536; ++half) {
            const double rounded = round_to(dtype, float_of(uint32_t(half) << 16));
            code[half] = rounded != rounded ? uint8_t(nan_code[half >> 15]) : code_of[bits_of(float(rounded)) >> 16];
        }
    }
};

std::mutex tables_guard;  // taken by fork(): the child of one in the middle of a table would wait for it for ever
const int tables_forked =
    pthread_atfork([] { tables_guard.lock(); }, [] { tables_guard.unlock(); }, [] { tables_guard.unlock(); });

// Tasks ask for them, which cannot run out of memory: it is there from the start.
const ByteTables& tables(int dtype) {
    alignas(ByteTables) static char storage[3][sizeof(ByteTables)];
    static std::atomic<const ByteTables*> built[3];
    std::atomic<const ByteTables*>& table = built[dtype - CG_FLOAT8_E4M3FN];
    if (const ByteTables* known = table.load(std::memory_order_acquire)) return *known;
    std::lock_guard<std::mutex> hold(tables_guard);
    if (table.load(std::memory_order_relaxed) == nullptr)
        table.store(new (storage[dtype - CG_FLOAT8_E4M3FN]) ByteTables(dtype), std::memory_order_release);
    return *table.load(std::memory_order_relaxed);
}

float float_from_half(uint16_t half) {
    const uint32_t sign = uint32_t(half & 0x8000u) << 16;
    const uint32_t rest = uint32_t(half & 0x7fffu) << 13;
    if (rest >= 0x0f800000u) return float_of(sign | 0x7f800000u | rest);  // inf, NaN
    return float_of(sign | bits_of(float_of(rest) * 0x1p112f));           // exact, subnormals too
}

uint16_t half_from_value(double v) {  // v is a value of float16
    if (v != v) return std::signbit(v) ? 0xfe00 : 0x7e00;
    const uint16_t sign = std::signbit(v) ? 0x8000 : 0;
    const double size = std::fabs(v);
    if (size == std::numeric_limits<double>::infinity()) return uint16_t(sign | 0x7c00);
    if (size < 0x1p-14) return uint16_t(sign | uint16_t(size * 0x1p24));
    return uint16_t(sign | ((bits_of(float(size)) >> 13) - (112u << 10)));
}

}  // namespace

const char* dtype_name(int dtype) { return dtype >= 0 && dtype < 9 ? CG_DTYPE_ROWS[dtype].name : "unknown"; }

index_t bytes_per_element(int dtype) {
    return dtype >= CG_FLOAT64 && dtype <= CG_HIFLOAT8 ? CG_DTYPE_ROWS[dtype].bits / 8 : 0;
}

const float* byte_values(int dtype) { return is_byte(dtype) ? tables(dtype).value : nullptr; }
const uint8_t* byte_codes(int dtype) { return is_byte(dtype) ? tables(dtype).code : nullptr; }

// With e = max(exponent, min_exponent) and q = e - fraction bits at e, the format's values around x are the
// multiples of 2^q; both scalings are exact.
double round_to(int dtype, double x) {
    if (dtype == CG_FLOAT64) return x;
    if (dtype == CG_FLOAT32) return double(float(x));
    const cg_dtype_row& row = CG_DTYPE_ROWS[dtype];
    if (x != x) return row.signed_zero ? x : double(nan32);
    double size = std::fabs(x);
    if (size != std::numeric_limits<double>::infinity() && size != 0) {
        int exponent = std::ilogb(size);
        if (exponent < row.min_exponent) exponent = row.min_exponent;
        int step = 0;
        while (step < 3 && row.fraction[step][0] < std::abs(exponent)) ++step;
        const int quantum = exponent - row.fraction[step][1];
        const double multiple = std::scalbn(size, -quantum);
        size = std::scalbn(row.ties_away ? std::round(multiple) : std::nearbyint(multiple), quantum);
    }
    if (size > row.max_finite) size = row.has_infinities ? std::numeric_limits<double>::infinity() : double(nan32);
    const double result = std::copysign(size, x);
    return row.signed_zero ? result : (result != result ? double(nan32) : result + 0.0);
}

double load_as_double(const void* data, index_t i, int dtype) {
    switch (dtype) {
    case CG_FLOAT64: return static_cast<const double*>(data)[i];
    case CG_FLOAT32: return static_cast<const float*>(data)[i];
    case CG_FLOAT16: return float_from_half(static_cast<const uint16_t*>(data)[i]);
    case CG_BFLOAT16: return float_of(uint32_t(static_cast<const uint16_t*>(data)[i]) << 16);
    default: return float_of(decode_bits(dtype)[static_cast<const uint8_t*>(data)[i]]);
    }
}

void store_from_double(void* data, index_t i, int dtype, double value) {
    const double v = round_to(dtype, value);
    switch (dtype) {
    case CG_FLOAT64: static_cast<double*>(data)[i] = v; break;
    case CG_FLOAT32: static_cast<float*>(data)[i] = float(v); break;
    case CG_FLOAT16: static_cast<uint16_t*>(data)[i] = half_from_value(v); break;
    case CG_BFLOAT16: {
        const uint32_t bits = bits_of(float(v));
        static_cast<uint16_t*>(data)[i] = uint16_t(bits >> 16 | (v != v ? 0x40u : 0u));
        break;
    }
    default: static_cast<uint8_t*>(data)[i] = tables(dtype).code[bits_of(float(v)) >> 16]; break;
    }
}

int load_kind(const cg_tensor& t) {
    const bool widens = t.cast == t.dtype || t.cast == CG_FLOAT32 || t.cast == CG_HF32_11 || t.cast == CG_HF32_10;
    switch (t.dtype) {
    case CG_FLOAT32:
        switch (t.cast) {
        case CG_FLOAT32: return LOAD_F32;
        case CG_HF32_11: return LOAD_HF32_11;
        case CG_HF32_10: return LOAD_HF32_10;
        case CG_FLOAT16: return LOAD_F32_AS_F16;
        case CG_BFLOAT16: return LOAD_F32_AS_BF16;
        default: return LOAD_ANY;
        }
    // float16 and bfloat16 have at most 10 fraction bits: every value is a value of both HF32 formats.
    case CG_FLOAT16: return widens ? LOAD_F16 : LOAD_ANY;
    case CG_BFLOAT16: return widens ? LOAD_BF16 : LOAD_ANY;
    case CG_FLOAT64: return t.cast == CG_FLOAT32 ? LOAD_F64 : LOAD_ANY;
    // 8-bit formats fit in every wider one.
    default: return widens || !is_byte(t.cast) ? LOAD_BYTE : LOAD_ANY;
    }
}

// Eight bits never have more.
bool fits_bfloat(const cg_tensor& t) {
    const int kind = load_kind(t);
    return kind == LOAD_BF16 || kind == LOAD_F32_AS_BF16 || kind == LOAD_BYTE;
}

int store_kind(const cg_tensor& t) {
    if (t.cast != t.dtype && t.cast != CG_FLOAT32 && t.cast != CG_FLOAT64) return STORE_ANY;
    switch (t.dtype) {
    case CG_FLOAT32: return STORE_F32;
    case CG_FLOAT16: return STORE_F16;
    case CG_BFLOAT16: return STORE_BF16;
    case CG_FLOAT64: return STORE_F64;
    default: return STORE_BYTE;
    }
}

bool result_rounding_dominates(const cg_tensor& result) { return bytes_per_element(result.dtype) <= 2; }

}  // namespace cg
