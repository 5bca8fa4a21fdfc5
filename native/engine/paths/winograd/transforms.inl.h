// A tile of M x M results of an R x R window from PRODUCTS multiplications instead of M*M*R*R, or a line of M results
// of R taps from LINE_PRODUCTS instead of M*R. Along one axis,
//
//   y = back( window(g) . data(d) )        d: M+R-1 source cells, g: R taps, y: M results, "." elementwise
//
// is the middle part of a polynomial product, evaluated at N + 2 = M + R - 1 points: 0, the N-th roots of unity,
// infinity (Toom and Cook; Winograd). Points on the unit circle keep the accuracy: their powers neither grow nor
// vanish, so the error does not grow with the tile as it does for 0, 1, -1, 2, -2 ...
//
// Roots come in conjugate pairs. A line has N + 2 real components: at 0, 1, infinity (and -1, N even), then real and
// imaginary part at each of the PAIRS roots of the upper half plane. Two axes: REALS^2 real numbers; a real point by a
// complex one is a complex number; two complex ones are two, at (p, q) and (p, conj q). A complex product takes three
// real ones:  (a + ib)(c + id):  k1 = (a+b) c, k2 = a (d-c), k3 = b (c+d);  re = k1 - k3, im = k1 + k2.
//
//   N = 4:  46 products for 144 (R = 3) or 100 (R = 5); only additions and powers of two: small integers stay exact
//   N = 7: 117 for 441 or 625          N = 8: 142 for 576 or 900
//   lines: 7 for 12 (N = 4, R = 3)     13 for 24 to 30 (N = 8, R = 3 to 5)     25 for 70 to 90 (N = 16, R = 5 to 9)
//
// The weight gradient is the same identity with the roles of g and y exchanged: R cells of y from M cells of g.
#pragma once

#include <utility>

#include "simd/vector.inl.h"

namespace cg {
namespace {

template <class F, int... I> static INLINE void each_of(F&& f, std::integer_sequence<int, I...>) {
    (f(std::integral_constant<int, I>{}), ...);
}
template <int COUNT, class F> static INLINE void each(F&& f) { each_of(f, std::make_integer_sequence<int, COUNT>{}); }

// By a constant: no multiplication where it is 1 or -1, nothing where it is 0.
static INLINE vf scaled(double c, vf x) { return c == 1 ? x : c == -1 ? -x : x * float(c); }
static INLINE vf plus_scaled(double c, vf x, vf to) {
    return c == 0 ? to : c == 1 ? to + x : c == -1 ? to - x : fma(broadcast(float(c)), x, to);
}

template <int N> struct Roots {
    enum { SIDE = N + 2, PAIRS = (N - 1) / 2, REALS = SIDE - 2 * PAIRS };
    enum { PRODUCTS = REALS * REALS + 6 * REALS * PAIRS + 6 * PAIRS * PAIRS, LINE_PRODUCTS = REALS + 3 * PAIRS };

    static constexpr double series(double x, double term, int first) {
        double sum = term;
        for (int i = first; i < 80; i += 2) sum += term *= -x * x / (i * (i + 1));
        for (double exact : {-1., -.5, 0., .5, 1.})
            if (sum - exact < 1e-9 && exact - sum < 1e-9) return exact;
        return sum;
    }
    static constexpr double angle(int k) { return 6.283185307179586477 * (k % N) / N; }
    static constexpr double cosine(int k) { return series(angle(k), 1, 1); }
    static constexpr double sine(int k) { return series(angle(k), angle(k), 2); }

    // Every complex number: single(number, its cells), both(number, first of the four cells of two numbers).
    template <class F, class G> static INLINE void complex_cells(F&& single, G&& both) {
        int n = 0;
        for (int p = REALS; p < SIDE; p += 2)
            for (int k = 0; k < REALS; ++k, n += 2) {
                single(n, k * SIDE + p, k * SIDE + p + 1);
                single(n + 1, p * SIDE + k, (p + 1) * SIDE + k);
            }
        for (int p = REALS; p < SIDE; p += 2)
            for (int q = REALS; q < SIDE; q += 2, n += 2) both(n, p * SIDE + q);
    }

    // The three factors of a complex number.
    template <bool WINDOW> static INLINE void put_complex(vf re, vf im, float* out, index_t apart) {
        store(out, WINDOW ? re : re + im);
        store(out + apart, WINDOW ? im - re : re);
        store(out + 2 * apart, WINDOW ? im + re : im);
    }

    // Components of both axes to factors of the products, `apart` floats from one to the next: stored to their streams
    // at once, for copying them out again would be the bottleneck.
    template <bool WINDOW> static INLINE void split(const vf* c, float* out, index_t apart) {
        for (int y = 0; y < REALS; ++y)
            for (int x = 0; x < REALS; ++x) store(out + (y * REALS + x) * apart, c[y * SIDE + x]);
        const auto put = [&](int n, vf re, vf im) {
            put_complex<WINDOW>(re, im, out + (REALS * REALS + 3 * n) * apart, apart);
        };
        complex_cells([&](int n, int re, int im) { put(n, c[re], c[im]); },
                      [&](int n, int at) {
                          const vf rr = c[at], ri = c[at + 1], ir = c[at + SIDE], ii = c[at + SIDE + 1];
                          constexpr double half = WINDOW ? .5 : 1;
                          put(n, scaled(half, rr - ii), scaled(half, ri + ir));
                          put(n + 1, scaled(half, rr + ii), scaled(half, ir - ri));
                      });
    }
    static INLINE void merge(const float* products, index_t apart, vf* c) {
        for (int y = 0; y < REALS; ++y)
            for (int x = 0; x < REALS; ++x) c[y * SIDE + x] = load(products + (y * REALS + x) * apart);
        const float* complex = products + REALS * REALS * apart;
        const auto k = [&](int n, int which) { return load(complex + (3 * n + which) * apart); };
        const auto re = [&](int n) { return k(n, 0) - k(n, 2); };
        const auto im = [&](int n) { return k(n, 0) + k(n, 1); };
        complex_cells([&](int n, int r, int i) { c[r] = re(n), c[i] = im(n); },
                      [&](int n, int at) {
                          const vf a = re(n), b = re(n + 1), e = im(n), f = im(n + 1);
                          c[at] = b + a, c[at + SIDE + 1] = b - a, c[at + SIDE] = e + f, c[at + 1] = e - f;
                      });
    }

    // The sums of p^k f(k) (data: p^-k) over k < COUNT at every root p; even and odd parts of k and N - k at once. A
    // window is divided by N, and doubled at complex points: they stand for the conjugate as well.
    template <int COUNT, bool WINDOW, class F, class O> static INLINE void circle(vf f0, F&& f, O&& o) {
        constexpr int TERMS = PAIRS < COUNT - 1 ? PAIRS : COUNT - 1;
        constexpr bool HALF = N % 2 == 0 && COUNT > N / 2;
        constexpr double scale = WINDOW ? 1. / N : 1, twice = WINDOW ? 2. / N : 1;
        vf sum[TERMS], difference[TERMS], one = f0, other = f0, middle = vf{};
        each<TERMS>([&](auto j) {
            const vf low = f(j + 1);
            sum[j] = difference[j] = low;
            if constexpr (N - 1 - j < COUNT) {
                const vf high = f(N - 1 - j);
                sum[j] = low + high;
                difference[j] = low - high;
            }
            one = one + sum[j];
            other = j % 2 ? other + sum[j] : other - sum[j];
        });
        if constexpr (HALF) {
            middle = f(N / 2);
            one = one + middle;
            other = N / 2 % 2 ? other - middle : other + middle;
        }
        o(1, scaled(scale, one));
        if constexpr (N % 2 == 0) o(3, scaled(scale, other));
        each<PAIRS>([&](auto p) {
            vf re = !HALF ? f0 : p % 2 ? f0 + middle : f0 - middle;
            vf im = scaled(sine(p + 1), difference[0]);
            each<TERMS>([&](auto j) {
                constexpr double cos = cosine((p + 1) * (j + 1)), sin = sine((p + 1) * (j + 1));
                re = plus_scaled(cos, sum[j], re);
                if constexpr (j > 0) im = plus_scaled(sin, difference[j], im);
            });
            o(REALS + 2 * p, scaled(twice, re));
            o(REALS + 2 * p + 1, scaled(WINDOW ? twice : -twice, im));
        });
    }
    template <class F, class O> static INLINE void data_line(F&& d, O&& o) {
        const vf last = d(N);
        o(0, d(0) - last);
        o(2, d(N + 1) - d(1));
        circle<N, false>(last, d, o);
    }
    // COUNT is N + 1 at most: the last one then falls on the first, for p^N = 1.
    template <int COUNT, class F, class O> static INLINE void window_line(F&& g, O&& o) {
        const vf first = g(0), last = g(COUNT - 1);
        o(0, first);
        o(2, last);
        circle<(COUNT > N ? N : COUNT), true>(COUNT > N ? first + last : first, g, o);
    }
    template <int COUNT, class F, class O> static INLINE void back_line(F&& z, O&& o) {
        const vf one = z(1), other = N % 2 ? vf{} : z(3);
        const vf even = N % 2 ? one : one + other, odd = N % 2 ? one : one - other;
        each<(COUNT > N / 2 ? N / 2 + 1 : COUNT)>([&](auto k) {
            constexpr bool alone = k == 0 || 2 * k == N;
            vf cosines = k % 2 ? odd : even, sines = vf{};
            each<PAIRS>([&](auto q) {
                constexpr double cos = cosine((q + 1) * k), sin = sine((q + 1) * k);
                cosines = plus_scaled(cos, z(REALS + 2 * q), cosines);
                if constexpr (!alone)
                    sines = q == 0 ? scaled(sin, z(REALS + 1)) : plus_scaled(sin, z(REALS + 2 * q + 1), sines);
            });
            vf y = alone ? cosines : cosines - sines;
            if constexpr (k == 0 && COUNT > N) o(N, y + z(2));
            if constexpr (k == 0) y = y + z(0);
            if constexpr (k == COUNT - 1) y = y + z(2);
            o(k, y);
            if constexpr (!alone && N - k < COUNT) {
                vf mirrored = cosines + sines;
                if constexpr (N - k == COUNT - 1) mirrored = mirrored + z(2);
                o(N - k, mirrored);
            }
        });
    }

    // The components of a line, written by `transform`, to factors of its products; and products back to components.
    template <bool WINDOW, class T> static INLINE void split_line(T&& transform, float* out, index_t apart) {
        vf c[SIDE];
        transform([&](int i, vf v) { c[i] = v; });
        each<REALS>([&](auto i) { store(out + i * apart, c[i]); });
        each<PAIRS>([&](auto q) {
            put_complex<WINDOW>(c[REALS + 2 * q], c[REALS + 2 * q + 1], out + (REALS + 3 * q) * apart, apart);
        });
    }
    static INLINE void merge_line(const float* products, index_t apart, vf* c) {
        each<REALS>([&](auto i) { c[i] = load(products + i * apart); });
        each<PAIRS>([&](auto q) {
            const float* k = products + (REALS + 3 * q) * apart;
            const vf first = load(k);
            c[REALS + 2 * q] = first - load(k + 2 * apart);
            c[REALS + 2 * q + 1] = first + load(k + apart);
        });
    }

    // SIDE x SIDE cells of the source at cells + y*pitch + x*step (floats).
    static void data(const float* cells, index_t pitch, index_t step, float* out, index_t apart) {
        vf t[SIDE * SIDE], c[SIDE * SIDE];
        for (int x = 0; x < SIDE; ++x)
            data_line([&](int y) { return load(cells + y * pitch + x * step); },
                      [&](int y, vf v) { t[y * SIDE + x] = v; });
        for (int y = 0; y < SIDE; ++y)
            data_line([&](int x) { return t[y * SIDE + x]; }, [&](int x, vf v) { c[y * SIDE + x] = v; });
        split<false>(c, out, apart);
    }
    // COUNT x COUNT taps of a window, or cells of the coarse operand.
    template <int COUNT>
    static void window(const float* cells, index_t pitch, index_t step, float* out, index_t apart) {
        vf t[SIDE * COUNT], c[SIDE * SIDE];
        for (int x = 0; x < COUNT; ++x)
            window_line<COUNT>([&](int y) { return load(cells + y * pitch + x * step); },
                               [&](int y, vf v) { t[y * COUNT + x] = v; });
        for (int y = 0; y < SIDE; ++y)
            window_line<COUNT>([&](int x) { return t[y * COUNT + x]; }, [&](int x, vf v) { c[y * SIDE + x] = v; });
        split<true>(c, out, apart);
    }
    // COUNT x COUNT results. A bit of `seen` below the sign is set when one of them is not finite.
    template <int COUNT>
    static void result(const float* products, index_t apart, float* cells, index_t pitch, index_t step, uf* seen) {
        vf c[SIDE * SIDE], t[COUNT * SIDE];
        uf spoiled = *seen;
        merge(products, apart, c);
        for (int x = 0; x < SIDE; ++x)
            back_line<COUNT>([&](int y) { return c[y * SIDE + x]; }, [&](int y, vf v) { t[y * SIDE + x] = v; });
        for (int y = 0; y < COUNT; ++y)
            back_line<COUNT>([&](int x) { return t[y * SIDE + x]; },
                             [&](int x, vf v) {
                                 store(cells + y * pitch + x * step, v);
                                 spoiled |= (uf)(v * 0.f);  // zero, or NaN for inf and NaN
                             });
        *seen = spoiled;
    }

    // The same of lines, `step` floats from cell to cell.
    static void data_of_line(const float* cells, index_t, index_t step, float* out, index_t apart) {
        const auto d = [&](int i) { return load(cells + i * step); };
        split_line<false>([&](auto&& o) { data_line(d, o); }, out, apart);
    }
    template <int COUNT>
    static void window_of_line(const float* cells, index_t, index_t step, float* out, index_t apart) {
        const auto g = [&](int i) { return load(cells + i * step); };
        split_line<true>([&](auto&& o) { window_line<COUNT>(g, o); }, out, apart);
    }
    template <int COUNT>
    static void result_of_line(const float* products, index_t apart, float* cells, index_t, index_t step, uf* seen) {
        vf c[SIDE];
        uf spoiled = *seen;
        merge_line(products, apart, c);
        back_line<COUNT>([&](int i) { return c[i]; },
                         [&](int i, vf v) {
                             store(cells + i * step, v);
                             spoiled |= (uf)(v * 0.f);
                         });
        *seen = spoiled;
    }
};

// The transforms of a tile of N roots and R taps, or of a line. In: cells or taps, row pitch, step, factors, floats
// between products; out: sums of products, floats between them, cells or taps, row pitch, step, what was seen.
typedef void (*TransformIn)(const float*, index_t, index_t, float*, index_t);
typedef void (*TransformOut)(const float*, index_t, float*, index_t, index_t, uf*);
struct Transforms {
    TransformIn source, taps, cells;  // of the data; of a window of weights; of coarse cells in its place
    TransformOut results, windows;    // of a data gradient; of a weight gradient
};

template <int N, int R> constexpr Transforms square_transforms() {
    typedef Roots<N> T;
    return Transforms{T::data, T::template window<R>, T::template window<N + 3 - R>, T::template result<N + 3 - R>,
                      T::template result<R>};
}
template <int N, int R> constexpr Transforms line_transforms() {
    typedef Roots<N> T;
    return Transforms{T::data_of_line, T::template window_of_line<R>, T::template window_of_line<N + 3 - R>,
                      T::template result_of_line<N + 3 - R>, T::template result_of_line<R>};
}

enum { WINOGRAD_MOST_TAPS = 25 };  // of a window's transformed axes

template <int N> static Transforms square_transforms_of(index_t taps) {
    return taps == 3 ? square_transforms<N, 3>() : square_transforms<N, 5>();
}
// Windows of three taps to nine, as long as a tile keeps two cells.
template <int N> static Transforms line_transforms_of(index_t taps) {
    Transforms found = {};
    each<(N == 4 ? 3 : 7)>([&](auto i) {
        if (taps == i + 3) found = line_transforms<N, i + 3>();
    });
    return found;
}

static INLINE bool holds_spoiled(uf seen) {
    uint32_t bits = 0;
    for (int i = 0; i < LANES; ++i) bits |= seen[i];
    return (bits & 0x7fffffffu) != 0;
}

}  // namespace
}  // namespace cg
