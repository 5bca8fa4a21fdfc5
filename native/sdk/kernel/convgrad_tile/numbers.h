/* half and bfloat16_t: 16 bits, rounded to nearest even, arithmetic through float. */
#ifndef CONVGRAD_TILE_NUMBERS_H
#define CONVGRAD_TILE_NUMBERS_H

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace convgrad_tile {

inline uint32_t bits_of(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}
inline float float_of(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

inline uint16_t half_bits(float value) {
    const uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);   // NaN
    if (size >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds to infinity
    if (size < 0x33000001u) return static_cast<uint16_t>(sign);             // at most half of the smallest
    const int exponent = static_cast<int>(size >> 23) - 127;
    const int dropped = exponent < -14 ? -1 - exponent : 13;  // bits below the last place of half
    const uint32_t whole = exponent < -14 ? (size & 0x7fffffu) | 0x800000u : size - 0x38000000u;
    const uint32_t kept = whole >> dropped, rest = whole & ((1u << dropped) - 1u), middle = 1u << (dropped - 1);
    return static_cast<uint16_t>(sign | (kept + (rest > middle || (rest == middle && (kept & 1u)) ? 1u : 0u)));
}
inline float half_value(uint16_t code) {
    const uint32_t sign = static_cast<uint32_t>(code & 0x8000u) << 16, size = code & 0x7fffu;
    if (size >= 0x7c00u) return float_of(sign | 0x7f800000u | (size & 0x3ffu) << 13);
    if (size >= 0x400u) return float_of(sign | ((size << 13) + 0x38000000u));
    return (sign ? -1.0f : 1.0f) * static_cast<float>(size) * 5.9604644775390625e-8f; /* 2^-24 */
}
inline uint16_t bfloat16_bits(float value) {
    const uint32_t bits = bits_of(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
    return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
inline float bfloat16_value(uint16_t code) { return float_of(static_cast<uint32_t>(code) << 16); }

}  // namespace convgrad_tile

#define CGT_SIXTEEN_BITS(name, encode, decode)                                                                   \
    struct name {                                                                                                \
        uint16_t val;                                                                                            \
        name() = default;                                                                                        \
        template <class Number, class = typename std::enable_if<std::is_arithmetic<Number>::value>::type>        \
        name(Number number) : val(::convgrad_tile::encode(static_cast<float>(number))) {}                        \
        operator float() const { return ::convgrad_tile::decode(val); }                                          \
        name &operator+=(float other) { return *this = name(static_cast<float>(*this) + other); }                \
        name &operator-=(float other) { return *this = name(static_cast<float>(*this) - other); }                \
        name &operator*=(float other) { return *this = name(static_cast<float>(*this) * other); }                \
        name &operator/=(float other) { return *this = name(static_cast<float>(*this) / other); }                \
    }
CGT_SIXTEEN_BITS(half, half_bits, half_value);
CGT_SIXTEEN_BITS(bfloat16_t, bfloat16_bits, bfloat16_value);
#undef CGT_SIXTEEN_BITS
static_assert(sizeof(half) == 2 && std::is_trivially_copyable<half>::value, "half is two bytes");
static_assert(sizeof(bfloat16_t) == 2 && std::is_trivially_copyable<bfloat16_t>::value, "bfloat16_t is two bytes");

#endif
