// The engine against the law written as loops, on integers, where every sum is exact: for builds Python cannot load
// (sanitizers, other processors under an emulator) and for campaigns of many problems.
//
//   exactness [problems] [seed] [most multiply-adds]      random problems
//   exactness cuts [most multiply-adds]                   every path at the sizes where it cuts a loop
//
// Prints what ran, exits 1 at the first difference.
//
// Every operand and every result has strides of its own: any order of axes, either sign, gaps, zero (operands only).
// Sizes are log-uniform, so that some problems cross every block; results lie in memory that is checked around them;
// scratch memory is filled with NaN before every task and has guard words between its pieces.
#include "convgrad.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace {

std::mt19937_64 rng;
int64_t pick(std::initializer_list<int64_t> values) { return values.begin()[rng() % values.size()]; }
bool chance(int percent) { return int(rng() % 100) < percent; }
// Between 1 and `most`, every magnitude equally often.
int64_t log_uniform(double most) {
    const double u = double(rng() >> 11) / double(uint64_t(1) << 53);
    return std::max<int64_t>(1, int64_t(std::exp(u * std::log(std::max(1.0, most) + 1))));
}

const int BYTES[] = {8, 4, 2, 2, 1, 1, 1};
const int AXES = 5;

// A tensor of five axes and any strides, with nothing before its first byte and behind its last: a sanitizer sees overruns.
struct Tensor {
    cg_tensor t{};
    int64_t extent[AXES];
    int64_t elements = 1, span = 1, first = 0;   // span: elements of memory; first: place of element (0, 0, 0, 0, 0)
    std::unique_ptr<unsigned char[]> memory;
    std::vector<double> values;                  // dense, row by row; operands only

    enum Layout { CONTIGUOUS, CHANNELS_LAST, ANY };
    void make(const int64_t e[AXES], int dtype, int cast, Layout layout, bool result) {
        std::memcpy(extent, e, sizeof extent);
        elements = 1;
        for (int a = 0; a < AXES; ++a) elements *= e[a];
        static const int usual[2][AXES] = {{0, 1, 2, 3, 4}, {0, 2, 3, 4, 1}};
        int order[AXES];
        const bool any = layout == ANY;
        std::copy(usual[layout == CHANNELS_LAST], usual[layout == CHANNELS_LAST] + AXES, order);
        if (any && chance(70)) std::shuffle(order, order + AXES, rng);
        int64_t next = 1, low = 0, high = 0;
        for (int i = AXES - 1; i >= 0; --i) {
            const int a = order[i];
            int64_t stride = next;
            if (any && chance(15)) stride += int64_t(rng() % 9);
            if (any && chance(15)) stride *= pick({2, 3});
            next = stride * e[a];
            if (any && chance(30)) stride = -stride;
            if (any && !result && chance(8)) stride = 0, next = next / std::max<int64_t>(1, e[a]);
            t.stride[a] = stride;
            (stride < 0 ? low : high) += (e[a] - 1) * stride;
        }
        span = elements == 0 ? 0 : high - low + 1;
        first = -low;
        t.dtype = dtype;
        t.cast = cast;
        memory.reset(new unsigned char[size_t(span) * size_t(BYTES[dtype])]);
        t.data = memory.get() + first * BYTES[dtype];
        // Between the elements lies what is no number in most formats: reading a gap shows.
        std::memset(memory.get(), result ? 0x55 : 0xff, size_t(span) * size_t(BYTES[dtype]));
    }
    int64_t place(const int64_t at[AXES]) const {
        int64_t p = 0;
        for (int a = 0; a < AXES; ++a) p += at[a] * t.stride[a];
        return p;
    }
    // Calls body(dense index of the first element, its place) for every line of the last axis.
    template <class F> void lines(F body) const {
        int64_t at[AXES] = {};
        for (int64_t i = 0; i < elements; i += extent[4]) {
            int64_t rest = i / extent[4];
            for (int a = AXES - 2; a >= 0; --a) at[a] = rest % extent[a], rest /= extent[a];
            body(i, place(at));
        }
    }
    cg_tensor line_at(int64_t offset) const {
        cg_tensor line = t;
        line.cast = t.dtype;
        line.data = static_cast<unsigned char*>(t.data) + offset * BYTES[t.dtype];
        return line;
    }
    void fill(double hole) {
        values.assign(size_t(elements), 0.0);
        // Elements that share memory share their value.
        std::map<int64_t, double> shared;
        bool overlaps = false;
        for (int a = 0; a < AXES; ++a) overlaps |= t.stride[a] == 0 && extent[a] > 1;
        const int64_t spoiled = hole != 0 ? int64_t(rng() % uint64_t(elements)) : -1;
        std::vector<float> line(static_cast<size_t>(extent[4]));
        lines([&](int64_t i, int64_t offset) {
            for (int64_t x = 0; x < extent[4]; ++x) {
                double v = double(int(rng() % 7) - 3);
                if (i + x == spoiled) v = hole;
                if (overlaps) v = shared.emplace(offset + x * t.stride[4], v).first->second;
                values[size_t(i + x)] = v;
                line[size_t(x)] = float(v);
            }
            const cg_tensor to = line_at(offset);
            if (cg_store(&to, extent[4], line.data()) != CG_OK) std::abort();
        });
    }
    std::vector<double> load() const {
        std::vector<double> out(static_cast<size_t>(elements));
        std::vector<float> line(static_cast<size_t>(extent[4]));
        lines([&](int64_t i, int64_t offset) {
            const cg_tensor from = line_at(offset);
            if (cg_load(&from, extent[4], line.data()) != CG_OK) std::abort();
            for (int64_t x = 0; x < extent[4]; ++x) out[size_t(i + x)] = line[size_t(x)];
        });
        return out;
    }
    void spoil() { std::memset(memory.get(), 0x55, size_t(span) * size_t(BYTES[t.dtype])); }
    // Whether all bytes that belong to no element are as spoil() left them.
    bool gaps_untouched() const {
        if (span == elements) return true;
        const size_t bytes = size_t(BYTES[t.dtype]);
        std::vector<bool> used(static_cast<size_t>(span));
        lines([&](int64_t, int64_t offset) {
            for (int64_t x = 0; x < extent[4]; ++x) used[size_t(first + offset + x * t.stride[4])] = true;
        });
        for (size_t i = 0; i < used.size(); ++i)
            for (size_t b = 0; !used[i] && b < bytes; ++b)
                if (memory[i * bytes + b] != 0x55) return false;
        return true;
    }
};

// The exact sums of a result, and each rounded once to its dtype.
struct Expected {
    std::vector<double> sums, rounded;
};

bool same(double a, double b) { return a == b || (a != a && b != b); }

enum { TO_FINE, TO_COARSE, TO_WEIGHT, BIAS, RESULTS };
const char* const NAMES[] = {"to fine", "to coarse", "to weight", "bias"};

struct Case {
    cg_problem p{};
    Tensor fine, coarse, weight, result[RESULTS];

    // Channels, windows and sizes; `budget` multiply-adds at most, about.
    void shape(double budget) {
        enum { DEPTHWISE, SMALL_GROUPS, DENSE, KINDS };
        const size_t kind = rng() % KINDS;
        const double channels = std::min(100.0, std::sqrt(budget));
        p.groups = kind == DENSE ? pick({1, 1, 1, 2, 3}) : log_uniform(std::min(70.0, channels));
        p.fine_channels = kind == DEPTHWISE ? 1 : kind == SMALL_GROUPS ? pick({2, 4}) : log_uniform(channels);
        p.coarse_channels = kind != DENSE ? p.fine_channels : chance(40) ? log_uniform(14) : log_uniform(channels);
        p.batch = log_uniform(chance(20) ? 40 : 3);
        const int axes = int(pick({1, 2, 2, 3}));
        // Stride 1, for the Winograd paths: square windows, or taps along one axis and some along another.
        const bool wide = chance(5), tiled = axes > 1 && chance(35), lined = !tiled && chance(25);
        const int64_t side = pick({3, 3, 5}), along = 2 - int64_t(rng() % uint64_t(axes));
        double left = budget / double(p.groups * p.fine_channels * p.coarse_channels * p.batch);
        for (int a = 0; a < 3; ++a) {
            const bool used = a >= 3 - axes;
            p.window[a] = used ? wide ? log_uniform(40) : pick({1, 2, 3, 3, 5, 7, 11}) : 1;
            if (tiled && a > 0) p.window[a] = side;
            if (lined && used) p.window[a] = a == along ? pick({3, 4, 5, 6, 7, 8, 9}) : pick({1, 1, 2, 3});
            if (double(p.window[a]) > left) p.window[a] = 1;
            left /= double(p.window[a]);
            p.stride[a] = used && !tiled && !lined ? pick({1, 1, 1, 2, 3, 7}) : 1;
            p.dilation[a] = used ? pick({1, 1, 2, 5}) : 1;
            p.pad[a] = used ? pick({0, 0, 1, 2, 5}) : 0;
        }
        for (int i = 0; i < 3; ++i) {
            // The last axis first: mostly it is the longest.
            const int a = chance(80) ? 2 - i : i;
            if (a < 3 - axes || p.coarse[a] != 0) continue;
            int64_t cells = log_uniform(std::min(left, 100000.0));
            if (cells > 16 && chance(40)) cells = cells / 8 * 8 + pick({0, 0, 1, -1});
            p.coarse[a] = cells;
            left = std::max(1.0, left / double(cells));
        }
        for (int a = 0; a < 3; ++a)
            if (p.coarse[a] == 0) p.coarse[a] = a < 3 - axes ? 1 : pick({1, 2, 3});
        set_fine(100);
    }

    void set_fine(int64_t slack_percent) {
        for (int a = 0; a < 3; ++a) {
            // fine + 2*pad holds the windows, give or take some slack (of transposed calls up to the stride or the
            // dilation); possibly none of the fine cells is tied
            const int64_t most = std::max(p.stride[a], p.dilation[a]);
            p.fine[a] = (p.coarse[a] - 1) * p.stride[a] + (p.window[a] - 1) * p.dilation[a] + 1 - 2 * p.pad[a];
            p.fine[a] = p.fine[a] < 1 ? 1 : p.fine[a] + (chance(int(slack_percent)) ? int64_t(rng() % uint64_t(most)) : 0);
        }
    }

    double multiply_adds() const {
        double count = double(p.batch * p.groups) * double(p.fine_channels) * double(p.coarse_channels);
        for (int a = 0; a < 3; ++a) count *= double(p.window[a]) * double(p.coarse[a]);
        return count;
    }

    // Memory and values for the sizes at hand.
    void make_tensors() {
        const int dtype = int(pick({CG_FLOAT32, CG_FLOAT32, CG_FLOAT32, CG_FLOAT16, CG_BFLOAT16, CG_FLOAT64,
                                    CG_FLOAT8_E5M2, CG_FLOAT8_E4M3FN, CG_HIFLOAT8}));
        const int cast = dtype == CG_FLOAT32 ? int(pick({CG_FLOAT32, CG_FLOAT32, CG_HF32_11, CG_FLOAT16})) : dtype;
        const int out = dtype == CG_FLOAT64 ? CG_FLOAT64 : int(pick({CG_FLOAT32, dtype}));
        const int64_t f[5] = {p.batch, p.groups * p.fine_channels, p.fine[0], p.fine[1], p.fine[2]};
        const int64_t c[5] = {p.batch, p.groups * p.coarse_channels, p.coarse[0], p.coarse[1], p.coarse[2]};
        const int64_t w[5] = {p.groups * p.coarse_channels, p.fine_channels, p.window[0], p.window[1], p.window[2]};
        p.bias_source = int(rng() % 2);
        const int64_t b[5] = {1, p.bias_source == 0 ? c[1] : f[1], 1, 1, 1};
        // All alike, as most callers have them, or each as it likes.
        const Tensor::Layout joint = Tensor::Layout(pick({Tensor::CONTIGUOUS, Tensor::CHANNELS_LAST, Tensor::ANY}));
        const auto layout = [&] { return joint != Tensor::ANY && chance(90) ? joint : Tensor::ANY; };
        fine.make(f, dtype, cast, layout(), false);
        coarse.make(c, dtype, cast, layout(), false);
        weight.make(w, dtype, cast, layout(), false);
        result[TO_FINE].make(f, out, out, layout(), true);
        result[TO_COARSE].make(c, out, out, layout(), true);
        result[TO_WEIGHT].make(w, out, out, layout(), true);
        result[BIAS].make(b, out, out, layout(), true);
        const double holes[] = {0, 0, 0, std::numeric_limits<double>::infinity(), std::nan("")};
        const bool holds_inf = dtype != CG_FLOAT8_E4M3FN;
        const size_t spoiled = rng() % 3;
        Tensor* operands[3] = {&fine, &coarse, &weight};
        for (size_t i = 0; i < 3; ++i) operands[i]->fill(i == spoiled && holds_inf ? holes[rng() % 5] : 0);
        p.fine_operand = fine.t;
        p.coarse_operand = coarse.t;
        p.weight_operand = weight.t;
    }

    // The law itself, for every result at once: i = o*stride - pad + k*dilation on each axis.
    void law(std::vector<double> out[RESULTS]) const {
        for (int r = 0; r < RESULTS; ++r) out[r].assign(size_t(result[r].elements), 0.0);
        const int64_t fine_plane = p.fine[1] * p.fine[2], coarse_plane = p.coarse[1] * p.coarse[2];
        const int64_t taps = p.window[0] * p.window[1] * p.window[2];
        for (int64_t b = 0; b < p.batch; ++b)
            for (int64_t oc = 0; oc < p.groups * p.coarse_channels; ++oc)
                for (int64_t ic = 0; ic < p.fine_channels; ++ic)
                    for (int64_t k = 0; k < taps; ++k) {
                        const int64_t ks[3] = {k / p.window[2] / p.window[1], k / p.window[2] % p.window[1], k % p.window[2]};
                        const int64_t f = oc / p.coarse_channels * p.fine_channels + ic;
                        const size_t w = size_t((oc * p.fine_channels + ic) * taps + k);
                        const double weight_value = weight.values[w];
                        const size_t fine_at = size_t((b * p.groups * p.fine_channels + f) * p.fine[0] * fine_plane);
                        const size_t coarse_at = size_t((b * p.groups * p.coarse_channels + oc) * p.coarse[0] * coarse_plane);
                        for (int64_t od = 0; od < p.coarse[0]; ++od) {
                            const int64_t id = od * p.stride[0] - p.pad[0] + ks[0] * p.dilation[0];
                            if (id < 0 || id >= p.fine[0]) continue;
                            for (int64_t oh = 0; oh < p.coarse[1]; ++oh) {
                                const int64_t ih = oh * p.stride[1] - p.pad[1] + ks[1] * p.dilation[1];
                                if (ih < 0 || ih >= p.fine[1]) continue;
                                for (int64_t ow = 0; ow < p.coarse[2]; ++ow) {
                                    const int64_t iw = ow * p.stride[2] - p.pad[2] + ks[2] * p.dilation[2];
                                    if (iw < 0 || iw >= p.fine[2]) continue;
                                    const size_t i = fine_at + size_t(id * fine_plane + ih * p.fine[2] + iw);
                                    const size_t o = coarse_at + size_t(od * coarse_plane + oh * p.coarse[2] + ow);
                                    out[TO_FINE][i] += weight_value * coarse.values[o];
                                    out[TO_COARSE][o] += weight_value * fine.values[i];
                                    out[TO_WEIGHT][w] += fine.values[i] * coarse.values[o];
                                }
                            }
                        }
                    }
        const Tensor& source = p.bias_source == 0 ? coarse : fine;
        const int64_t cells = source.extent[2] * source.extent[3] * source.extent[4];
        for (int64_t i = 0; i < source.elements; ++i)
            out[BIAS][size_t(i / cells % source.extent[1])] += source.values[size_t(i)];
    }

    void describe(long number) const {
        std::printf("problem %ld: batch %lld groups %lld fine %lldx(%lld,%lld,%lld) coarse %lldx(%lld,%lld,%lld) "
                    "window (%lld,%lld,%lld) stride (%lld,%lld,%lld) dilation (%lld,%lld,%lld) pad (%lld,%lld,%lld) "
                    "dtype %d cast %d threads %d deterministic %d\n",
                    number, (long long)p.batch, (long long)p.groups, (long long)p.fine_channels, (long long)p.fine[0],
                    (long long)p.fine[1], (long long)p.fine[2], (long long)p.coarse_channels, (long long)p.coarse[0],
                    (long long)p.coarse[1], (long long)p.coarse[2], (long long)p.window[0], (long long)p.window[1],
                    (long long)p.window[2], (long long)p.stride[0], (long long)p.stride[1], (long long)p.stride[2],
                    (long long)p.dilation[0], (long long)p.dilation[1], (long long)p.dilation[2], (long long)p.pad[0],
                    (long long)p.pad[1], (long long)p.pad[2], p.fine_operand.dtype, p.fine_operand.cast, p.threads,
                    p.deterministic);
    }

    // Multiply-adds behind one element of a result.
    double terms(int r) const {
        return multiply_adds() * double(p.window[0] * p.window[1] * p.window[2]) / double(std::max<int64_t>(1, result[r].elements));
    }

    // The exact sums, rounded once; or (paths whose transforms round) what rounds from within some roundings of a sum of
    // products up to 9: next to the largest number of a dtype that may be beyond it.
    bool agrees(long number, int r, const char* path, const Expected& want, bool exact = true) {
        const std::vector<double> got = result[r].load();
        const std::vector<double>& sums = want.sums;
        const double apart = 1e-5 * (20 + terms(r));
        for (size_t i = 0; i < got.size(); ++i) {
            if (same(got[i], want.rounded[i])) continue;
            double ends[2] = {sums[i] - apart, sums[i] + apart};
            cg_round(result[r].t.dtype, ends, ends, 2);
            const bool between = ends[0] <= got[i] && got[i] <= ends[1];
            if (exact || (!same(got[i], ends[0]) && !same(got[i], ends[1]) && !between)) {
                describe(number);
                std::printf("  %s, path %s, element %zu: %g, not %g\n", NAMES[r], path, i, got[i], sums[i]);
                return false;
            }
        }
        if (result[r].gaps_untouched()) return true;
        describe(number);
        std::printf("  %s, path %s: written outside of the result\n", NAMES[r], path);
        return false;
    }

    bool run(long number, long* runs, std::map<std::string, long>* per_path) {
        cg_tensor* places[RESULTS] = {&p.to_fine, &p.to_coarse, &p.to_weight, &p.bias};
        std::vector<double> sums[RESULTS];
        law(sums);
        Expected want[RESULTS];
        for (int r = 0; r < RESULTS; ++r) {
            want[r] = {sums[r], sums[r]};
            cg_round(result[r].t.dtype, sums[r].data(), want[r].rounded.data(), int64_t(sums[r].size()));
        }
        for (int r = 0; r < RESULTS; ++r) {
            *places[r] = result[r].t;
            const bool with_bias = r == TO_WEIGHT;  // the weight contraction may sum the bias beside
            if (with_bias) p.bias = result[BIAS].t;
            for (int path = 0; cg_path_name(path) != nullptr; ++path) {
                p.deterministic = int(pick({0, 1, 2, 3, 3}));  // 3: a tree over samples, of which each takes the path
                if (path > 0 && (r == BIAS || !cg_path_accepts(&p, r, path))) continue;
                p.path = path;
                p.threads = int(pick({1, 2, 3, 5}));
                result[r].spoil();
                if (with_bias) result[BIAS].spoil();
                if (cg_run(&p) != CG_OK) {
                    describe(number);
                    std::printf("  %s, path %s: %s\n", NAMES[r], cg_path_name(path), cg_last_error());
                    return false;
                }
                ++*runs;
                ++(*per_path)[cg_path_name(path)];
                if (!agrees(number, r, cg_path_name(path), want[r], cg_path_is_exact(path) != 0)) return false;
                if (with_bias && !agrees(number, BIAS, cg_path_name(path), want[BIAS])) return false;
            }
            p.path = p.deterministic = 0;
            *places[r] = p.bias = cg_tensor{};
        }
        return true;
    }
};

// ---- sizes where a path cuts a loop ----------------------------------------------------------------------------------

// A problem that grows along one axis; what it is like otherwise.
struct Family {
    int64_t groups, fine_channels, coarse_channels, batch, coarse[3], window[3], stride[3], pad[3];
};
const Family FAMILIES[] = {
    {1, 2, 2, 1, {1, 1, 40}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}},     // one line, few channels, a window of one
    {1, 3, 5, 1, {1, 1, 70}, {1, 1, 3}, {1, 1, 1}, {0, 0, 1}},     // one line
    {4, 33, 12, 1, {1, 1, 24}, {1, 1, 7}, {1, 1, 1}, {0, 0, 3}},   // ... of several groups
    {2, 3, 4, 1, {1, 1, 50}, {1, 1, 5}, {1, 1, 3}, {0, 0, 0}},     // ... with residues
    {1, 20, 18, 1, {1, 1, 30}, {1, 1, 3}, {1, 1, 1}, {0, 0, 1}},   // ... whole panels of channels
    {1, 3, 4, 2, {1, 9, 24}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}},     // planes
    {1, 17, 20, 2, {1, 7, 8}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}},
    {1, 90, 70, 1, {1, 4, 5}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}},    // ... more channels than a chunk
    {1, 5, 6, 1, {4, 6, 7}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}},
    {1, 7, 20, 1, {1, 6, 7}, {1, 5, 5}, {1, 1, 1}, {0, 2, 2}},
    {1, 18, 20, 1, {9, 3, 4}, {3, 1, 1}, {1, 1, 1}, {1, 0, 0}},    // taps along the depth, the height
    {1, 9, 17, 1, {1, 12, 5}, {1, 6, 1}, {1, 1, 1}, {0, 2, 0}},
    {1, 6, 7, 1, {1, 5, 12}, {1, 4, 7}, {1, 1, 1}, {0, 1, 3}},
    {1, 5, 6, 2, {1, 8, 9}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}},
    {1, 4, 9, 1, {3, 4, 8}, {3, 3, 3}, {2, 2, 2}, {1, 1, 1}},      // volumes
    {1, 2, 3, 1, {4, 6, 16}, {2, 3, 2}, {1, 1, 1}, {0, 1, 0}},
    {8, 1, 1, 2, {1, 6, 24}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}},     // depthwise
    {9, 1, 1, 1, {1, 7, 20}, {1, 5, 5}, {1, 2, 2}, {0, 2, 2}},
    {3, 1, 1, 1, {1, 3, 40}, {1, 2, 17}, {1, 1, 1}, {0, 0, 8}},    // ... with a wide window
    {6, 4, 4, 1, {1, 5, 26}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}},     // small groups
    {9, 2, 2, 1, {1, 4, 30}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}},
};
enum { GROW_BATCH, GROW_GROUPS, GROW_FINE, GROW_COARSE, GROW_DEPTH, GROW_HEIGHT, GROW_WIDTH, GROW_WINDOW, GROWTHS };

void shape(const Family& family, int axis, int64_t size, cg_problem* p) {
    *p = cg_problem{};
    p->groups = family.groups;
    p->fine_channels = family.fine_channels;
    p->coarse_channels = family.coarse_channels;
    p->batch = family.batch;
    for (int a = 0; a < 3; ++a) {
        p->coarse[a] = family.coarse[a];
        p->window[a] = family.window[a];
        p->stride[a] = family.stride[a];
        p->dilation[a] = 1;
        p->pad[a] = family.pad[a];
    }
    const bool one_channel = family.fine_channels == 1 && family.coarse_channels == 1;
    const bool square = family.groups > 1 && family.fine_channels == family.coarse_channels;
    switch (axis) {
    case GROW_BATCH: p->batch = size; break;
    case GROW_GROUPS: p->groups = size; break;
    case GROW_FINE: if (!one_channel && !square) p->fine_channels = size; break;
    case GROW_COARSE: if (!one_channel && !square) p->coarse_channels = size; break;
    case GROW_DEPTH: p->coarse[0] = size; break;
    case GROW_HEIGHT: p->coarse[1] = size; break;
    case GROW_WIDTH: p->coarse[2] = size; break;
    default: p->window[2] = size; break;
    }
}

// Contiguous or channels-last tensors, for asking where a path cuts: no memory behind them.
void describe_tensors(bool channels_last, int dtype, cg_problem* p) {
    static char somewhere[8];
    for (int a = 0; a < 3; ++a) {
        p->fine[a] = (p->coarse[a] - 1) * p->stride[a] + (p->window[a] - 1) * p->dilation[a] + 1 - 2 * p->pad[a];
        if (p->fine[a] < 1) p->fine[a] = 1;
    }
    const int64_t f = p->groups * p->fine_channels, c = p->groups * p->coarse_channels;
    const auto tensor = [&](int64_t channels, const int64_t e[3], bool last) {
        cg_tensor t{somewhere, dtype, dtype, {channels * e[0] * e[1] * e[2], e[0] * e[1] * e[2], e[1] * e[2], e[2], 1}};
        if (last) {
            t.stride[1] = 1;
            for (int a = 2; a < 5; ++a) t.stride[a] *= channels;
        }
        return t;
    };
    p->fine_operand = p->to_fine = tensor(f, p->fine, channels_last);
    p->coarse_operand = p->to_coarse = tensor(c, p->coarse, channels_last);
    p->weight_operand = p->to_weight = tensor(p->fine_channels, p->window, false);
}

// The sizes around the first cuts along an axis: on the cut and next to it, a vector away, a multiple of eight that is
// none of 64, three parts and a bit.
std::vector<int64_t> sizes_around_cuts(const Family& family, int axis, int contraction, int path, double most) {
    std::vector<int64_t> sizes;
    int cuts_seen = 0;
    int64_t before[CG_CUTS] = {}, limit = 100000;
    for (int64_t size = 1; size <= limit && cuts_seen < 3; ++size) {
        cg_problem p;
        shape(family, axis, size, &p);
        describe_tensors(std::strstr(cg_path_name(path), " channels") != nullptr, CG_FLOAT32, &p);
        Case probe;
        probe.p = p;
        if (probe.multiply_adds() > most) break;
        int64_t cuts[CG_CUTS];
        if (cg_path_cuts(&p, contraction, path, cuts) != CG_OK) continue;
        if (before[0] != 0 && std::memcmp(cuts, before, sizeof cuts) != 0) {
            ++cuts_seen;
            for (int64_t near : {size - 8, size - 1, size, size + 1, size + 8, (size / 64 * 8 + 1) * 8, 3 * size + 5})
                sizes.push_back(near);
        }
        std::memcpy(before, cuts, sizeof cuts);
    }
    std::sort(sizes.begin(), sizes.end());
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    sizes.erase(std::remove_if(sizes.begin(), sizes.end(), [](int64_t n) { return n < 1; }), sizes.end());
    return sizes;
}

bool cross_cuts(double most, long* runs, std::map<std::string, long>* per_path) {
    long number = 0;
    for (const Family& family : FAMILIES)
        for (int axis = 0; axis < GROWTHS; ++axis) {
            std::vector<int64_t> sizes;
            for (int path = 1; cg_path_name(path) != nullptr; ++path)
                for (int contraction = 0; contraction < BIAS; ++contraction)
                    for (int64_t size : sizes_around_cuts(family, axis, contraction, path, most)) sizes.push_back(size);
            std::sort(sizes.begin(), sizes.end());
            sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
            for (int64_t size : sizes) {
                rng.seed(static_cast<unsigned long>(++number));
                Case c;
                shape(family, axis, size, &c.p);
                c.set_fine(0);
                if (c.multiply_adds() > 3 * most) continue;
                c.make_tensors();
                if (!c.run(number, runs, per_path)) return false;
            }
        }
    std::printf("sizes around cuts: %ld problems\n", number);
    return true;
}

}  // namespace

int main(int argc, char** argv) {
    const bool cuts = argc > 1 && std::strcmp(argv[1], "cuts") == 0;
    const long problems = cuts ? 0 : argc > 1 ? std::atol(argv[1]) : 300;
    const unsigned long seed = argc > 2 && !cuts ? std::strtoul(argv[2], nullptr, 10) : 1ul;
    const double most = cuts && argc > 2 ? std::atof(argv[2]) : argc > 3 ? std::atof(argv[3]) : 1e6;
    long runs = 0;
    std::map<std::string, long> per_path;
    cg_check_scratch(1);
    for (long i = 0; i < problems; ++i) {
        rng.seed(seed * 1000003ul + static_cast<unsigned long>(i));
        Case c;
        c.shape(double(log_uniform(most)));
        c.make_tensors();
        if (!c.run(i, &runs, &per_path)) return 1;
    }
    if (cuts && !cross_cuts(most, &runs, &per_path)) return 1;
    for (const auto& row : per_path) std::printf("  %-20s %ld\n", row.first.c_str(), row.second);
    std::printf("%s: %ld random problems, %ld runs, every element exact\n", cg_isa_name(), problems, runs);
    return 0;
}
