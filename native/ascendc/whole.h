// Integers that saturate instead of wrapping: any bytes may come as a tiling record, and no sum of them is undefined.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

namespace convgrad {
namespace tile {

__extension__ typedef __int128 int128;

// Division and remainder round towards minus infinity, as the rows mean them.
class Whole {
public:
    template <class Integer, class = std::enable_if_t<std::is_integral<Integer>::value>>
    Whole(Integer value) : value_(value) {}
    static Whole of(int128 value) {
        Whole whole(0);
        whole.value_ = value > kMost ? kMost : value < -kMost ? -kMost : value;
        return whole;
    }

    friend Whole operator+(Whole a, Whole b) { return of(a.value_ + b.value_); }
    friend Whole operator-(Whole a, Whole b) { return of(a.value_ - b.value_); }
    friend Whole operator*(Whole a, Whole b) {
        int128 product;
        if (!__builtin_mul_overflow(a.value_, b.value_, &product)) return of(product);
        return of((a.value_ < 0) == (b.value_ < 0) ? kMost : -kMost);
    }
    friend Whole operator/(Whole a, Whole b) {  // b is never 0: rows that divide come after those that demand more
        if (b.value_ == 0) return of(kMost);
        const int128 quotient = a.value_ / b.value_;
        return of(quotient - (a.value_ % b.value_ != 0 && (a.value_ < 0) != (b.value_ < 0)));
    }
    friend Whole operator%(Whole a, Whole b) { return a - a / b * b; }
    friend bool operator==(Whole a, Whole b) { return a.value_ == b.value_; }
    friend bool operator!=(Whole a, Whole b) { return a.value_ != b.value_; }
    friend bool operator<(Whole a, Whole b) { return a.value_ < b.value_; }
    friend bool operator<=(Whole a, Whole b) { return a.value_ <= b.value_; }
    friend bool operator>(Whole a, Whole b) { return a.value_ > b.value_; }
    friend bool operator>=(Whole a, Whole b) { return a.value_ >= b.value_; }

    int128 exact() const { return value_; }
    // The nearest that 64 bits hold.
    int64_t clamped() const {
        return value_ > INT64_MAX ? INT64_MAX : value_ < INT64_MIN ? INT64_MIN : static_cast<int64_t>(value_);
    }
    std::string digits() const {
        const bool negative = value_ < 0;
        int128 rest = negative ? -value_ : value_;
        std::string all;
        do all.insert(all.begin(), static_cast<char>('0' + static_cast<int>(rest % 10)));
        while ((rest /= 10) != 0);
        return negative ? "-" + all : all;
    }

private:
    static constexpr int128 kMost = static_cast<int128>(1) << 126;
    int128 value_;
};

inline std::string text(Whole whole) { return whole.digits(); }
inline Whole least(Whole a, Whole b) { return a < b ? a : b; }
inline Whole most(Whole a, Whole b) { return a > b ? a : b; }
inline Whole ceil_div(Whole a, Whole b) { return Whole(0) - (Whole(0) - a) / b; }

}  // namespace tile
}  // namespace convgrad
