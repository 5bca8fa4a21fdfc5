// The engine against the law written as seven loops, on integers, where every sum is exact: for builds Python cannot
// load (sanitizers, other processors under an emulator).
//
//   exactness [problems] [seed]      prints one line, exits 1 at the first difference
#include "convgrad.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <vector>

namespace {

std::mt19937 rng;
int64_t pick(std::initializer_list<int64_t> values) { return values.begin()[rng() % values.size()]; }

const int BYTES[] = {8, 4, 2, 2, 1, 1, 1};

// A tensor of five axes in one of several layouts, with nothing behind its last element: a sanitizer sees overruns.
struct Tensor {
    cg_tensor t{};
    int64_t extent[5];
    std::unique_ptr<char[]> memory;
    int64_t elements = 1;

    void make(const int64_t e[5], int dtype, int cast, int layout) {
        static const int orders[4][5] = {{0, 1, 2, 3, 4}, {0, 2, 3, 4, 1}, {2, 3, 4, 0, 1}, {1, 0, 2, 3, 4}};
        std::memcpy(extent, e, sizeof extent);
        elements = 1;
        for (int i = 4; i >= 0; --i) {
            t.stride[orders[layout][i]] = elements;
            elements *= e[orders[layout][i]];
        }
        t.dtype = dtype;
        t.cast = cast;
        memory.reset(new char[size_t(elements) * BYTES[dtype]]);
        t.data = memory.get();
        std::memset(t.data, 0x55, size_t(elements) * BYTES[dtype]);
    }
    void fill(double hole) {
        std::vector<float> values(static_cast<size_t>(elements));
        for (float& v : values) v = float(int(rng() % 7) - 3);
        if (hole != 0) values[rng() % values.size()] = float(hole);
        store(values);
    }
    void store(const std::vector<float>& values) {
        cg_tensor flat = t;
        flat.cast = t.dtype;
        flat.stride[4] = 1;
        if (cg_store(&flat, elements, values.data()) != CG_OK) std::abort();
    }
    std::vector<double> load() const {
        std::vector<double> out(static_cast<size_t>(elements));
        if (t.dtype == CG_FLOAT64) {
            std::memcpy(out.data(), t.data, out.size() * 8);
            return out;
        }
        std::vector<float> values(out.size());
        cg_tensor flat = t;
        flat.cast = t.dtype;
        flat.stride[4] = 1;
        if (cg_load(&flat, elements, values.data()) != CG_OK) std::abort();
        for (size_t i = 0; i < out.size(); ++i) out[i] = values[i];
        return out;
    }
    int64_t at(int64_t a, int64_t b, int64_t c, int64_t d, int64_t e) const {
        return a * t.stride[0] + b * t.stride[1] + c * t.stride[2] + d * t.stride[3] + e * t.stride[4];
    }
};

bool same(double a, double b) { return a == b || (a != a && b != b); }

struct Case {
    cg_problem p{};
    Tensor fine, coarse, weight, result[3];

    void make() {
        enum { DEPTHWISE, SMALL_GROUPS, DENSE, KINDS };
        const size_t kind = rng() % KINDS;
        p.batch = pick({1, 2, 3});
        p.groups = kind == DEPTHWISE ? pick({1, 3, 8, 17, 24}) : kind == SMALL_GROUPS ? pick({1, 3, 6, 9}) : pick({1, 1, 2, 3});
        p.fine_channels = kind == DEPTHWISE ? 1 : kind == SMALL_GROUPS ? pick({2, 4}) : pick({1, 2, 3, 5, 8, 17});
        p.coarse_channels = kind == DENSE ? pick({1, 2, 4, 7, 9, 19}) : p.fine_channels;
        const int axes = int(pick({1, 2, 2, 3}));
        for (int a = 0; a < 3; ++a) {
            const bool used = a >= 3 - axes;
            p.window[a] = used ? pick({1, 2, 3, 3, 5, 7, 11}) : 1;
            p.stride[a] = used ? pick({1, 1, 1, 2, 3, 7}) : 1;
            p.dilation[a] = used ? pick({1, 1, 2, 5}) : 1;
            p.pad[a] = used ? pick({0, 0, 1, 2, 5}) : 0;
            p.coarse[a] = used ? pick({1, 2, 5, 8, 13, axes < 3 ? 21 : 4}) : 1;
            // fine + 2*pad holds the windows, give or take some slack; possibly none of the fine cells is tied
            p.fine[a] = (p.coarse[a] - 1) * p.stride[a] + (p.window[a] - 1) * p.dilation[a] + 1 - 2 * p.pad[a];
            p.fine[a] = used ? (p.fine[a] < 1 ? 1 : p.fine[a] + int64_t(rng() % size_t(p.stride[a]))) : 1;
        }
        const int dtype = int(pick({CG_FLOAT32, CG_FLOAT32, CG_FLOAT16, CG_BFLOAT16, CG_FLOAT64, CG_FLOAT8_E5M2,
                                    CG_FLOAT8_E4M3FN, CG_HIFLOAT8}));
        const int cast = dtype == CG_FLOAT32 ? int(pick({CG_FLOAT32, CG_HF32_11, CG_FLOAT16})) : dtype;
        const int out = dtype == CG_FLOAT64 ? CG_FLOAT64 : int(pick({CG_FLOAT32, dtype}));
        const int layout = int(rng() % 4);
        const int64_t f[5] = {p.batch, p.groups * p.fine_channels, p.fine[0], p.fine[1], p.fine[2]};
        const int64_t c[5] = {p.batch, p.groups * p.coarse_channels, p.coarse[0], p.coarse[1], p.coarse[2]};
        const int64_t w[5] = {p.groups * p.coarse_channels, p.fine_channels, p.window[0], p.window[1], p.window[2]};
        fine.make(f, dtype, cast, layout);
        coarse.make(c, dtype, cast, layout);
        weight.make(w, dtype, cast, int(rng() % 2));
        result[0].make(f, out, out, layout);
        result[1].make(c, out, out, layout);
        result[2].make(w, out, out, int(rng() % 2));
        const double holes[] = {0, 0, 0, std::numeric_limits<double>::infinity(), std::nan("")};
        const bool holds_inf = dtype != CG_FLOAT8_E4M3FN;
        const size_t spoiled = rng() % 3;
        Tensor* operands[3] = {&fine, &coarse, &weight};
        for (size_t i = 0; i < 3; ++i) operands[i]->fill(i == spoiled && holds_inf ? holes[rng() % 5] : 0);
        p.fine_operand = fine.t;
        p.coarse_operand = coarse.t;
        p.weight_operand = weight.t;
    }

    // The law itself.
    std::vector<double> law(int contraction) const {
        const std::vector<double> x = fine.load(), y = coarse.load(), w = weight.load();
        std::vector<double> out(size_t(result[contraction].elements), 0.0);
        for (int64_t b = 0; b < p.batch; ++b)
            for (int64_t g = 0; g < p.groups; ++g)
                for (int64_t oc = 0; oc < p.coarse_channels; ++oc)
                    for (int64_t ic = 0; ic < p.fine_channels; ++ic)
                        for (int64_t o = 0; o < p.coarse[0] * p.coarse[1] * p.coarse[2]; ++o)
                            for (int64_t k = 0; k < p.window[0] * p.window[1] * p.window[2]; ++k) {
                                const int64_t os[3] = {o / p.coarse[2] / p.coarse[1], o / p.coarse[2] % p.coarse[1],
                                                       o % p.coarse[2]};
                                const int64_t ks[3] = {k / p.window[2] / p.window[1], k / p.window[2] % p.window[1],
                                                       k % p.window[2]};
                                int64_t is[3];
                                bool tied = true;
                                for (int a = 0; a < 3; ++a) {
                                    is[a] = os[a] * p.stride[a] - p.pad[a] + ks[a] * p.dilation[a];
                                    tied = tied && is[a] >= 0 && is[a] < p.fine[a];
                                }
                                if (!tied) continue;
                                const int64_t c = g * p.coarse_channels + oc, f = g * p.fine_channels + ic;
                                const size_t xi = size_t(fine.at(b, f, is[0], is[1], is[2]));
                                const size_t yi = size_t(coarse.at(b, c, os[0], os[1], os[2]));
                                const size_t wi = size_t(weight.at(c, ic, ks[0], ks[1], ks[2]));
                                if (contraction == 0)
                                    out[size_t(result[0].at(b, f, is[0], is[1], is[2]))] += w[wi] * y[yi];
                                else if (contraction == 1)
                                    out[size_t(result[1].at(b, c, os[0], os[1], os[2]))] += w[wi] * x[xi];
                                else
                                    out[size_t(result[2].at(c, ic, ks[0], ks[1], ks[2]))] += x[xi] * y[yi];
                            }
        return out;
    }

    bool run(long number, long* runs) {
        cg_tensor* places[3] = {&p.to_fine, &p.to_coarse, &p.to_weight};
        for (int contraction = 0; contraction < 3; ++contraction) {
            *places[contraction] = result[contraction].t;
            std::vector<double> want = law(contraction);
            const int dtype = result[contraction].t.dtype;
            cg_round(dtype, want.data(), want.data(), int64_t(want.size()));
            for (int path = 0; cg_path_name(path) != nullptr; ++path) {
                if (path > 0 && !cg_path_accepts(&p, contraction, path)) continue;
                p.path = path;
                p.threads = int(1 + rng() % 3);
                std::memset(result[contraction].t.data, 0x55, size_t(result[contraction].elements) * BYTES[dtype]);
                if (cg_run(&p) != CG_OK) {
                    std::printf("problem %ld: %s\n", number, cg_last_error());
                    return false;
                }
                ++*runs;
                const std::vector<double> got = result[contraction].load();
                for (size_t i = 0; i < got.size(); ++i)
                    if (!same(got[i], want[i])) {
                        std::printf("problem %ld, contraction %d, path %s, dtype %d, element %zu: %g, not %g\n", number,
                                    contraction, cg_path_name(path), dtype, i, got[i], want[i]);
                        return false;
                    }
            }
            p.path = 0;
            *places[contraction] = cg_tensor{};
        }
        return true;
    }
};

}  // namespace

int main(int argc, char** argv) {
    const long problems = argc > 1 ? std::atol(argv[1]) : 300;
    const unsigned seed = argc > 2 ? unsigned(std::atol(argv[2])) : 1u;
    long runs = 0;
    for (long i = 0; i < problems; ++i) {
        rng.seed(seed * 1000003u + unsigned(i));
        Case c;
        c.make();
        if (!c.run(i, &runs)) return 1;
    }
    std::printf("%s: %ld problems, %ld runs, every element exact\n", cg_isa_name(), problems, runs);
    return 0;
}
