// How the input kernel's problem is cut: every cut is estimated in cycles of the busiest core, the cheapest wins. The
// order of every sum and product is that of the Python model, so that estimates tie where they tie there.
//
//     cube  = products of 16x16x16 plus a fixed price per product, or feeding them from L1 if that takes longer
//     loads = bytes of gradOutput window and weights, from global memory into L1; weights once if they can stay there
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <tuple>

#include "say.h"
#include "tiling.h"

namespace convgrad {
namespace tile {
namespace {

constexpr double kL0aBytesPerCycle = 256, kL0bBytesPerCycle = 128;
constexpr size_t kFinalists = 16;               // cuts whose balance is worked out plane by plane
constexpr int64_t kMostBlocksCounted = 200000;  // beyond that every core has plenty of everything
constexpr double kSingleBufferPenalty = 1.6;    // loads no longer overlap with products
constexpr double kNever = std::numeric_limits<double>::infinity();

int64_t up(int64_t a, int64_t b) { return a / b + (a % b != 0); }
int64_t product(int64_t a, int64_t b) {  // wraps, as NumPy's integers do
    return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

struct Cut {
    int64_t rows, width, base_m, base_n;
    double cycles = 0;
};

// Figures of a problem that every estimate needs.
struct Figures {
    const InputRecord& t;
    const Platform& platform;
    int64_t e = 32 / t.c0, area = int64_t(t.hk) * t.wk, k_of_block = area * t.c0, k_total = k_of_block * t.cout1;

    // Expanded rows the buffers are reserved for.
    int64_t window_rows(int64_t base_m) const {
        const Whole rows = rows_of_tile(base_m, t.wi) - 1 + (Whole(t.hk) - 1) * t.dilationH + 1;
        return least(rows, expanded_rows(t)).clamped();
    }
    // L1 bytes with the shortest loads: the common multiple of baseK and one channel block of k.
    int64_t smallest_l1(int64_t base_m, int64_t base_n, int64_t base_k, int64_t buffers) const {
        const int64_t group = std::lcm(k_of_block, base_k);
        const Whole a1 = Whole(window_rows(base_m)) * t.wo * t.strideW * (group / area) * e;
        return ((a1 + Whole(base_n) * group * e) * buffers).clamped();
    }
};

// Lengths of M worth trying for a single shape: even cuts of it, whole rows, even parts of a row, the least.
std::set<int64_t> base_m_options(int64_t cap, int64_t columns, int64_t positions) {
    const int64_t most = std::min(cap, up(positions, 16) * 16), pieces = up(positions, most);
    std::set<int64_t> all{most, 16};
    for (const int64_t count : {pieces, pieces + 1}) all.insert(std::min(most, up(up(positions, count), 16) * 16));
    const int64_t whole_rows = columns * 16 / std::gcd(columns, int64_t(16));
    all.insert(most / whole_rows * whole_rows);
    for (int64_t length = 16; length <= most; length += 16)
        if (columns % length == 0) all.insert(length);
    all.erase(all.begin(), all.lower_bound(16));
    return all;
}

std::vector<Cut> candidate_cuts(const Figures& f) {
    const InputRecord& t = f.t;
    const int64_t most = f.platform.l0BSize / (2 * 16 * f.e), channels = int64_t(t.cin1) * t.c0;
    std::set<int64_t> widths_of_n;
    for (const int64_t blocks : pieces_of(up(channels, 16), 8)) widths_of_n.insert(std::min(16 * blocks, most));
    std::vector<Cut> cuts;
    for (const int64_t base_n : widths_of_n) {
        if (base_n == 0) continue;
        const int64_t cap = std::min(f.platform.l0CSize / (4 * base_n), f.platform.l0ASize / (2 * 16 * f.e)) / 16 * 16;
        if (cap < 16) continue;
        for (const int64_t rows : pieces_of(t.hi, 64))
            for (const int64_t base_m : base_m_options(cap, t.wi, rows * t.wi))
                for (const int64_t width : pieces_of(t.cin1, 16))
                    if (width * t.c0 >= base_n || width == t.cin1) cuts.push_back({rows, width, base_m, base_n});
    }
    return cuts;
}

// Cycles of the busiest core; infinite when even single buffers do not fit L1.
double estimate(const Figures& f, const Cut& cut) {
    const InputRecord& t = f.t;
    const int64_t m = cut.base_m, n = cut.base_n;
    if (f.smallest_l1(m, n, 16, 1) > f.platform.l1Size) return kNever;
    const int64_t most_k = std::max<int64_t>(16, f.platform.l0ASize / (2 * f.e) / std::max(m, n) / 16 * 16);
    const double k_total = static_cast<double>(f.k_total), e = static_cast<double>(f.e);
    const double products = static_cast<double>(product(m * n, f.k_total)) / 4096 +
                            static_cast<double>(up(f.k_total, most_k) * kProductPrice);
    const double to_l0 =
        std::max(static_cast<double>(m) / kL0aBytesPerCycle, static_cast<double>(n) / kL0bBytesPerCycle) * k_total * e;
    const double cube = std::max(products, to_l0);
    const int64_t m_tiles = up(cut.rows * t.wi, m), n_tiles = up(cut.width * t.c0, n);
    const double real_rows = static_cast<double>(m) / t.wi + 1 +
                             static_cast<double>((int64_t(t.hk) - 1) * t.dilationH) / static_cast<double>(t.strideH);
    const int64_t weight = product(product(n, f.k_total), f.e);
    const bool stays = n_tiles == 1 && weight <= f.platform.l1Size / 2 && t.dk == 1;
    const double weights =
        stays ? static_cast<double>(weight) / static_cast<double>(m_tiles) : static_cast<double>(weight);
    const double loads = (real_rows * t.wo * t.cout1 * t.c0 * e + weights) / kGmBytesPerCycle;
    const bool doubled = f.smallest_l1(m, n, 16, 2) <= f.platform.l1Size;
    const double per_tile = doubled ? std::max(cube, loads) : (cube + loads) * kSingleBufferPenalty;
    const double blocks = static_cast<double>(uint64_t(t.batch) * t.di) *
                          std::ceil(static_cast<double>(t.hi) / static_cast<double>(cut.rows)) *
                          std::ceil(static_cast<double>(t.cin1) / static_cast<double>(cut.width));
    const double busiest = std::ceil(blocks / std::min(blocks, static_cast<double>(f.platform.cores)));
    const double taps = std::min(t.dk, t.dout);
    return busiest * (static_cast<double>(m_tiles * n_tiles) * per_tile * taps + kBlockPrice);
}

// Window planes that reach a gradInput plane.
int64_t taps_of_plane(const InputRecord& t, int64_t plane) {
    const int64_t reach = plane + t.padFront, stride = t.strideD, dilation = t.dilationD;
    const int64_t last_reach = (int64_t(t.dout) - 1) * stride;
    const int64_t low = reach > last_reach ? up(reach - last_reach, dilation) : 0;
    const int64_t high = std::min<int64_t>(int64_t(t.dk) - 1, reach / dilation),
                  period = stride / std::gcd(stride, dilation);
    for (int64_t kd = low; kd <= high && kd < low + period; ++kd)
        if ((reach - kd * dilation) % stride == 0) return (high - kd) / period + 1;
    return 0;
}

// Window planes that the busiest core really meets, over what `estimate` takes for granted: near the edges, and with
// strides in depth, fewer window planes reach a gradInput plane.
double unevenness(const InputRecord& t, int64_t cores, const Cut& cut) {
    const int64_t m_pieces = up(t.hi, cut.rows), n_pieces = up(t.cin1, cut.width);
    const Whole blocks = Whole(t.batch) * t.di * m_pieces * n_pieces;
    if (blocks > kMostBlocksCounted) return 1.0;
    std::vector<int64_t> taps(t.di);
    for (int64_t plane = 0; plane < t.di; ++plane) taps[static_cast<size_t>(plane)] = taps_of_plane(t, plane);
    const int64_t total = blocks.clamped(), used = std::min(total, cores), each = total / used, more = total % used;
    int64_t busiest = 1, first = 0;
    for (int64_t core = 0; core < used; ++core) {
        const int64_t end = first + each + (core < more ? 1 : 0);
        int64_t sum = 0;
        for (int64_t block = first; block < end; ++block) sum += taps[static_cast<size_t>(block / n_pieces % t.di)];
        busiest = std::max(busiest, sum), first = end;
    }
    return static_cast<double>(busiest) /
           static_cast<double>((each + (more > 0)) * static_cast<int64_t>(std::min(t.dk, t.dout)));
}

// baseK and buffers: the fewest products whose shortest loads fit L1, double buffered if at all possible.
bool choose_k(const Figures& f, InputRecord* t) {
    const int64_t m = t->baseM, n = t->baseN;
    const int64_t most = std::min(f.platform.l0ASize / (2 * f.e * m), f.platform.l0BSize / (2 * f.e * n)) / 16 * 16;
    for (const int64_t buffers : {2, 1}) {
        std::tuple<int64_t, int64_t, int64_t> best{INT64_MAX, 0, 0};
        for (int64_t option = 16; option <= std::max<int64_t>(16, most); option += 16) {
            const int64_t group = std::lcm(f.k_of_block, option);
            if (f.smallest_l1(m, n, option, buffers) <= f.platform.l1Size && group <= 65535)
                best = std::min(best, {up(f.k_total, option), group, option});
        }
        if (std::get<0>(best) == INT64_MAX) continue;
        t->baseK = static_cast<uint32_t>(std::get<2>(best));
        t->al1Pbuffer = t->bl1Pbuffer = static_cast<uint32_t>(buffers);
        return true;
    }
    return false;
}

// stepKa and stepKb: keep the weights whole in L1 when they fit, else grow the shorter load while L1 has room.
void choose_steps(const Figures& f, InputRecord* t) {
    const int64_t base_k = t->baseK, base_n = t->baseN, buffers = t->al1Pbuffer;
    const int64_t group = std::lcm(f.k_of_block, base_k), whole = up(f.k_total, group) * group;
    const Whole row_bytes = Whole(f.window_rows(t->baseM)) * t->wo * t->strideW * f.e;
    const int64_t most_a = std::min(whole, 65535 / group * group);
    auto fits = [&](int64_t a, int64_t b, int64_t b_buffers) {
        return row_bytes * (a / f.area) * buffers + Whole(base_n) * b * f.e * b_buffers <= f.platform.l1Size;
    };
    int64_t a = group, b = group;
    if (t->dk == 1 && base_n >= int64_t(t->singleCoreCin1) * t->c0 && buffers == 2 && fits(group, whole, 1))
        b = whole, t->bl1Pbuffer = 1;
    for (bool grown = true; grown;) {
        auto grow = [&](bool grow_a) {
            const int64_t wider_a = a + (grow_a ? group : 0), wider_b = b + (grow_a ? 0 : group);
            if (wider_a > most_a || wider_b > whole || !fits(wider_a, wider_b, t->bl1Pbuffer)) return false;
            a = wider_a, b = wider_b;
            return true;
        };
        const bool a_first = a <= b;
        grown = grow(a_first) || grow(!a_first);
    }
    t->stepKa = static_cast<uint32_t>(a / base_k), t->stepKb = static_cast<uint32_t>(b / base_k);
}

// True when each core has work for two whole L0C tiles, and one plane fills one tile.
bool is_large(const InputRecord& t, const Platform& platform) {
    const Whole plane = Whole(t.hi) * t.wi * t.cin1 * t.c0, tile = platform.l0CSize / 4;
    return plane >= tile && plane * t.batch * t.di >= Whole(2) * tile * platform.cores;
}

}  // namespace

std::vector<int64_t> pieces_of(int64_t total, int64_t limit) {
    std::set<int64_t, std::greater<int64_t>> lengths;
    for (int64_t count = 1; count <= std::min(total, limit); ++count) lengths.insert(up(total, count));
    for (int64_t length = 1; length <= std::min<int64_t>(total, 8); ++length) lengths.insert(length);
    return {lengths.begin(), lengths.end()};
}

std::string cut_input(InputRecord* t, const Platform& platform, const std::string& platform_words) {
    const Figures f{*t, platform};
    std::vector<Cut> cuts = candidate_cuts(f);
    if (cuts.empty()) return "L0A, L0B and L0C cannot hold a tile of 16 x 16: " + platform_words;
    for (Cut& cut : cuts) cut.cycles = estimate(f, cut);
    if (is_large(*t, platform)) {
        auto half_full = [&](const Cut& cut) { return cut.base_m * cut.base_n * 8 >= platform.l0CSize; };
        if (std::any_of(cuts.begin(), cuts.end(),
                        [&](const Cut& cut) { return half_full(cut) && cut.cycles < kNever; }))
            for (Cut& cut : cuts)
                if (!half_full(cut)) cut.cycles = kNever;
    }
    int64_t least_l1 = INT64_MAX;
    for (const Cut& cut : cuts) least_l1 = std::min(least_l1, f.smallest_l1(cut.base_m, cut.base_n, 16, 1));
    // equal estimates: fewer single shapes, then wider tiles
    auto key = [](const Cut& c) { return std::make_tuple(c.cycles, -c.rows, -c.width, -c.base_m, -c.base_n); };
    const size_t finalists = std::min(kFinalists, cuts.size());
    std::partial_sort(cuts.begin(), cuts.begin() + static_cast<ptrdiff_t>(finalists), cuts.end(),
                      [&](const Cut& one, const Cut& two) { return key(one) < key(two); });
    size_t best = 0;
    double best_price = kNever;
    for (size_t one = 0; one < finalists; ++one) {
        const double price = cuts[one].cycles * unevenness(*t, platform.cores, cuts[one]);
        if (price < best_price) best = one, best_price = price;
    }
    const Cut& cut = cuts[best];
    t->singleCoreM = static_cast<uint64_t>(cut.rows) * t->wi;
    t->singleCoreCin1 = static_cast<uint32_t>(cut.width);
    t->singleCoreCin = std::min<uint64_t>(t->cin, static_cast<uint64_t>(cut.width) * t->c0);
    t->singleCoreCout1 = t->cout1, t->singleCoreCout = t->cout;
    t->baseM = static_cast<uint32_t>(cut.base_m), t->baseN = static_cast<uint32_t>(cut.base_n);
    if (!(cut.cycles < kNever) || !choose_k(f, t)) {
        if (least_l1 > platform.l1Size)
            return "L1 cannot hold the shortest loads of any tile: one window of gradOutput rows and one channel block "
                   "of "
                   "weights need " +
                   text(least_l1) + " bytes of " + text(platform.l1Size);
        return "one channel block of k is hk * wk * c0 = " + text(f.k_of_block) +
               ", above the 65535 an L1 position can hold";
    }
    choose_steps(f, t);
    return "";
}

}  // namespace tile
}  // namespace convgrad
