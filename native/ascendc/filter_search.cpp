// How the filter kernel's problem is cut: tiles as large as L0C allows, then enough blocks for the cores. Everything
// accumulates by atomic adds, so batches, planes, window planes, channels, columns and rows may all be shared out.
#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

#include "tiling.h"

namespace convgrad {
namespace tile {
namespace {

constexpr int64_t kMostWindowPlanesCounted = 100000;  // beyond that every core has plenty of everything

double as_double(Whole whole) { return static_cast<double>(whole.exact()); }

// Batches, gradOutput planes and window planes that meet the input: what each part of gradWeight sums over.
Whole walks(const FilterRecord& t) {
    if (t.dk > kMostWindowPlanesCounted) return Whole(t.batch) * t.dout * t.dk;
    Whole met = 0;
    for (int64_t kd = 0; kd < t.dk; ++kd) {
        const Whole reach = Whole(t.padFront) - Whole(kd) * t.dilationD;
        const Whole first = most(0, ceil_div(reach, t.strideD)),
                    end = least(t.dout, (Whole(t.di) - 1 + reach) / t.strideD + 1);
        met = met + most(0, end - first);
    }
    return met * t.batch;
}

bool is_large(const FilterRecord& t, const Platform& platform) {
    const Whole tile = platform.l0CSize / 4, plane = weight_cout(t) * t.cin1G * window_area(t) * 16;
    return plane >= tile && plane * walks(t) >= Whole(2) * tile * platform.cores;
}

// (baseM, baseN) that L0 can hold, from even cuts of both axes.
std::set<std::pair<int64_t, int64_t>> tile_options(const FilterRecord& t, const Platform& platform) {
    const int64_t most_of_l0 = platform.l0ASize / (2 * 16 * 2), tile = platform.l0CSize / 4;
    const int64_t columns = (Whole(t.cin1G) * window_area(t)).clamped();
    std::set<std::pair<int64_t, int64_t>> options;
    for (const int64_t m_blocks : pieces_of((weight_cout(t) / 16).clamped(), 16)) {
        const int64_t base_m = std::min(16 * m_blocks, most_of_l0);
        if (base_m == 0) continue;
        const int64_t cap = std::min(most_of_l0, tile / base_m / 16 * 16);
        std::vector<int64_t> widths = pieces_of(columns, 32);
        widths.push_back(std::min(columns, cap / 16));
        for (const int64_t n_blocks : widths)
            if (n_blocks > 0 && n_blocks <= cap / 16) options.insert({base_m, 16 * n_blocks});
    }
    return options;
}

// baseK and the loads for a tile: the longest products, then L1 loads grown while there is room.
bool with_loads(const FilterRecord& sizes, const Platform& platform, int64_t base_m, int64_t base_n, FilterRecord* t) {
    const int64_t positions = (ceil_div(Whole(sizes.ho) * sizes.wo, 16) * 16).clamped();
    const int64_t longest = platform.l0ASize / (2 * 2) / std::max(base_m, base_n) / 16 * 16;
    const int64_t base_k = std::min(std::max<int64_t>(16, longest), positions);
    auto fits = [&](int64_t buffers, int64_t length) {
        return (Whole(base_m) * length + input_elements_in_l1(sizes, length, base_n)) * buffers * 2 <= platform.l1Size;
    };
    for (const int64_t buffers : {2, 1})
        for (const int64_t length : std::set<int64_t, std::greater<int64_t>>{base_k, base_k / 32 * 16, 16}) {
            if (length < 16 || !fits(buffers, length)) continue;
            int64_t steps = 1;
            while (steps < 8 && steps * length < positions && fits(buffers, (steps + 1) * length)) ++steps;
            *t = sizes;
            t->baseM = static_cast<uint32_t>(base_m), t->baseN = static_cast<uint32_t>(base_n);
            t->baseK = static_cast<uint32_t>(length), t->stepKa = t->stepKb = static_cast<uint32_t>(steps);
            t->bl1Bound = static_cast<uint32_t>(input_elements_in_l1(sizes, steps * length, base_n).clamped());
            t->al1Pbuffer = t->bl1Pbuffer = static_cast<uint32_t>(buffers);
            return true;
        }
    return false;
}

// Cycles of one product after another over so many positions.
double price_of_products(const FilterRecord& t, Whole positions) {
    const double product = as_double(Whole(t.baseM) * t.baseN * t.baseK) / 4096 + kProductPrice;
    return as_double(ceil_div(positions, t.baseK)) * product;
}

// Cycles of one plane and window plane: the longer of products and loads; single buffers make them take turns.
double price_of_tiles(const FilterRecord& t) {
    const Whole tiles = ceil_div(weight_cout(t), t.baseM) * ceil_div(Whole(t.cin1G) * window_area(t) * 16, t.baseN);
    const Whole positions = Whole(t.ho) * t.wo;
    const double cube = price_of_products(t, positions);
    const Whole elements = Whole(t.baseM) * positions + input_elements_in_l1(t, positions, t.baseN);
    const double loads = as_double(elements * 2) / kGmBytesPerCycle;
    return as_double(tiles) * (t.al1Pbuffer == 2 ? std::max(cube, loads) + 0.01 * loads : cube + loads);
}

// How much of M, N and K one single shape takes: whole axes, split only as far as the cores need it.
bool choose_block(const FilterRecord& t, int64_t cores, int64_t block[3]) {
    const Whole per_cin = window_area(t) * 16, all = walks(t), cout = weight_cout(t);
    const int64_t area = per_cin.clamped();
    int64_t common = t.baseN, rest = area;  // greatest common divisor of baseN and the columns of a cin block
    while (rest != 0) std::tie(common, rest) = std::make_pair(rest, common % rest);
    const int64_t n_unit =
        (Whole(t.baseN) * area / common / area).clamped();  // cin blocks whose columns are whole tiles
    double best_price = 0;
    Whole best_blocks = -1;
    for (const int64_t m_tiles : pieces_of(ceil_div(cout, t.baseM).clamped(), 8)) {
        const Whole single_m = least(cout, Whole(m_tiles) * t.baseM);
        for (const int64_t n_units : pieces_of(ceil_div(t.cin1G, n_unit).clamped(), 8)) {
            const Whole single_n = least(t.cin1G, Whole(n_units) * n_unit) * per_cin;
            for (const int64_t rows : pieces_of(t.ho, 8)) {
                const Whole blocks = all * ceil_div(cout, single_m) * ceil_div(Whole(t.cin1G) * per_cin, single_n) *
                                     ceil_div(t.ho, rows);
                const Whole tiles = ceil_div(single_m, t.baseM) * ceil_div(single_n, t.baseN);
                const double products = price_of_products(t, Whole(rows) * t.wo);
                const double price = as_double(ceil_div(blocks, cores)) * (as_double(tiles) * products + kBlockPrice);
                if (best_blocks >= 0 && !(price < best_price || (price == best_price && blocks < best_blocks)))
                    continue;
                best_price = price, best_blocks = blocks;
                block[0] = single_m.clamped(), block[1] = single_n.clamped(), block[2] = (Whole(rows) * t.wo).clamped();
            }
        }
    }
    return block[0] <= UINT32_MAX && block[1] <= UINT32_MAX && block[2] <= UINT32_MAX;
}

}  // namespace

std::string cut_filter(AscendC::tiling::Conv3DBackpropFilterTilingData* data, const Platform& platform) {
    const FilterRecord sizes = data->dwTiling;
    std::vector<FilterRecord> records;
    for (const auto& tile : tile_options(sizes, platform)) {
        FilterRecord one;
        if (with_loads(sizes, platform, tile.first, tile.second, &one)) records.push_back(one);
    }
    if (records.empty())
        return "L1 cannot hold the shortest load of the input: " + text(input_elements_in_l1(sizes, 16, 16) * 2) +
               " bytes of " + text(platform.l1Size);
    auto half_full = [&](const FilterRecord& t) { return Whole(t.baseM) * t.baseN * 8 >= platform.l0CSize; };
    const bool large = is_large(sizes, platform) && std::any_of(records.begin(), records.end(), half_full);
    const FilterRecord* best = nullptr;
    double best_price = 0;
    for (const FilterRecord& t : records) {
        if (large && !half_full(t)) continue;
        const double price = price_of_tiles(t);
        if (!best || price < best_price) best = &t, best_price = price;
    }
    FilterRecord& t = data->dwTiling = *best;
    int64_t block[3] = {};
    if (!choose_block(t, platform.cores, block)) return "M, N and K of a single shape must be below 2^32";
    data->basicBlockTiling.singleCoreM = static_cast<uint32_t>(block[0]);
    data->basicBlockTiling.singleCoreN = static_cast<uint32_t>(block[1]);
    data->basicBlockTiling.singleCoreK = static_cast<uint32_t>(block[2]);
    t.singleCoreCout = static_cast<uint32_t>(block[0]);
    t.singleCoreHo = static_cast<uint32_t>(block[2] / t.wo);
    t.singleCoreCin = static_cast<uint64_t>(most(Whole(block[1]) / (window_area(t) * 16), 1).clamped()) * 16;
    data->params.totalL1Size = static_cast<uint32_t>(l1_bytes_of(t).clamped());
    return "";
}

}  // namespace tile
}  // namespace convgrad
