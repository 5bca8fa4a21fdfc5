// Conv3DBackpropFilter: gradWeight tile by tile on the true layouts, float32, added to what memory holds.
//
//     k = (ho - hoStart) * Wo + wo                  positions of gradOutput
//     n = ((c1 * Kh + r) * Kw + s) * C0 + c0        input channel block, window row, window column, lane
//     A(m, k) = gradOutput(m, ho, wo)
//     B(k, n) = input(c, ho * sH - padUp + r * dH, wo * sW - padLeft + s * dW), zero outside; not turned
#include <algorithm>
#include <cstring>

#include "cores.h"
#include "object.h"
#include "pointers.h"
#include "say.h"

namespace convgrad {
namespace tile {
namespace {

constexpr int64_t kLanes = 16;
constexpr int64_t kGatheredPositions = 4096;  // at once, to bound memory

class FilterObject final : public Object {
public:
    FilterObject(int number, cgt_where where) : Object(number, false, where) { float_result_ = true; }

    int set_single_shape(uint64_t M, uint64_t N, uint64_t K, cgt_where where) override;
    int set_planes(uint64_t planes, cgt_where where) override;
    int set_start(int64_t plane, int64_t row, cgt_where where) override;
    int set_other(const cgt_view& view, cgt_where where) override {
        return set_place(Call::SetInput, view, "input", &other_, where);
    }
    bool iterate(cgt_tile* told, cgt_where where) override;
    int get_tensor_c(const cgt_view& output, int atomic, bool sequential, cgt_where where) override;
    const void* record() const override { return &t_; }

private:
    Broken take_record(const void* record) override {
        std::memcpy(&t_, record, sizeof t_);
        return check(t_, Sizes());
    }
    std::string record_fields(const void* record) const override {
        FilterRecord given;
        std::memcpy(&given, record, sizeof given);
        std::string all = "{";
#define FIELD(name) all += (all.size() > 1 ? ", \"" #name "\": " : "\"" #name "\": ") + text(given.name);
        CGT_FILTER_FIELDS(FIELD, FIELD, FIELD)
#undef FIELD
        return all + "}";
    }
    bool advance();
    void compute(cgt_where where);
    void grad_output_part(int64_t k, int64_t length, const std::string& doing, cgt_where where);
    void input_part(int64_t k, int64_t length, const std::string& doing, cgt_where where);

    FilterRecord t_;
    bool has_shape_ = false, has_start_ = false;
    Extent m_, n_, k_;
    int64_t planes_ = 1;                                 // window planes that N may run on into
    int64_t row_ = 0;                                    // hoStart
    int64_t i_ = 0, j_ = 0, m_block_ = 0, n_block_ = 0;  // the tile, and the first tile of its L1 blocks
    bool finished_ = true;                               // no walk has begun
};

int FilterObject::set_single_shape(uint64_t M, uint64_t N, uint64_t K, cgt_where where) {
    trace("SetSingleShape", text(M) + ", " + text(N) + ", " + text(K), where);
    if (!enter(Call::SetSingleShape, where)) return CGT_REFUSED;
    const Whole area = window_area(t_), c0 = t_.channelSize;
    if (M == 0 || N == 0 || K == 0)
        stop("shape.positive",
             "SetSingleShape: M, N and K must be above 0, got M " + text(M) + ", N " + text(N) + ", K " + text(K),
             where);
    if (Whole(N) % area != 0)
        stop("shape.n", "SetSingleShape: N must be a multiple of hk * wk = " + text(area) + ", got " + text(N), where);
    const char* swapped =
        Whole(N) % t_.wo == 0 && Whole(K) % area == 0 ? "; the order of the arguments is M, N, K" : "";
    if (K % t_.wo)
        stop("shape.k", "SetSingleShape: K must be whole rows of wo = " + text(t_.wo) + ", got " + text(K) + swapped,
             where);
    const Whole columns = ceil_div(Whole(N) / area, c0) * c0 * area;
    auto limit = [&](const char* name, const char* rule, Whole value, Whole most) {
        if (value > most)
            stop(rule,
                 "SetSingleShape: " + std::string(name) + " must be at most " + text(most) + ", got " + text(value) +
                     swapped,
                 where);
    };
    limit("M", "shape.m_total", M, weight_cout(t_));
    limit("N", "shape.n_total", columns, Whole(t_.cin1G) * c0 * area * planes_);
    limit("K", "shape.k_total", K, Whole(t_.ho) * t_.wo);
    m_ = {(ceil_div(M, 16) * 16).clamped(), t_.baseM};
    n_ = {columns.clamped(), t_.baseN};
    k_ = {static_cast<int64_t>(K), t_.baseK};
    has_shape_ = true;
    return CGT_OK;
}

// Both operands and gradWeight lie plane after plane: with dilationD 1 the next columns are those of the next window
// plane.
int FilterObject::set_planes(uint64_t planes, cgt_where where) {
    trace("SetPlanes", text(planes), where);
    if (!enter(Call::SetSingleShape, where)) return CGT_REFUSED;
    planes_ = t_.dilationD == 1 ? std::max<int64_t>(1, least(planes, t_.dk).clamped()) : 1;
    return CGT_OK;
}

int FilterObject::set_start(int64_t, int64_t row, cgt_where where) {
    trace("SetStartPosition", text(row), where);
    if (!enter(Call::SetStartPosition, where)) return CGT_REFUSED;
    if (row < 0 || row >= t_.ho)
        stop("start.range", "SetStartPosition: hoStart must be in 0..." + text(Whole(t_.ho) - 1) + ", got " + text(row),
             where);
    row_ = row, has_start_ = true;
    return CGT_OK;
}

// L1 blocks of stepM and stepN tiles outside, single tiles inside; order 1 has m fastest, order 0 n.
bool FilterObject::advance() {
    auto step = [](int64_t* index, int64_t* other, int64_t* block, int64_t* other_block, int64_t count, int64_t others,
                   int64_t steps, int64_t other_steps) {  // `index` is the faster one
        const int64_t end = std::min(*block + steps, count), other_end = std::min(*other_block + other_steps, others);
        if (++*index < end) return true;
        *index = *block;
        if (++*other < other_end) return true;
        *other = *other_block, *index = *block = end;
        if (*block < count) return true;
        *index = *block = 0, *other = *other_block = other_end;
        return *other_block < others;
    };
    return t_.iterateOrder == 1 ? step(&i_, &j_, &m_block_, &n_block_, m_.count(), n_.count(), t_.stepM, t_.stepN)
                                : step(&j_, &i_, &n_block_, &m_block_, n_.count(), m_.count(), t_.stepN, t_.stepM);
}

bool FilterObject::iterate(cgt_tile* told, cgt_where where) {
    trace("Iterate", "", where);
    enter(Call::Iterate, where);
    require(has_shape_, has_start_, other_ != nullptr, "SetInput", where);
    if (*first_) {
        *first_ = 0;
        i_ = j_ = m_block_ = n_block_ = 0;
        has_output_ = finished_ = false;
        if (Whole(row_) * t_.wo + k_.total > Whole(t_.ho) * t_.wo)
            stop("shape.k_total",
                 "Iterate: rows " + text(row_) + " and K " + text(k_.total) + " pass the last of " + text(t_.ho) +
                     " gradOutput rows",
                 where);
    } else if (finished_ || !advance()) {
        finished_ = true;
        tile_ = nullptr;
        move(State::Finished);
        return false;
    }
    tile_ = std::make_unique<Tile>(Tile{i_, j_, -1, i_ * m_.base, m_.length(i_), j_ * n_.base, n_.length(j_)});
    tell(*tile_, true, told);
    if (on_vector_core()) {
        move(State::TileTaken);  // a vector core walks along and computes nothing
        return true;
    }
    compute(where);
    move(State::TileWaiting);
    return true;
}

void FilterObject::grad_output_part(int64_t k, int64_t length, const std::string& doing, cgt_where where) {
    Scratch& held = scratch();
    held.a.resize(static_cast<size_t>(tile_->m_length * length));
    held.rows.resize(static_cast<size_t>(length * kLanes));
    for (int64_t block = 0; block < tile_->m_length / kLanes; ++block) {
        const Whole start = (Whole(tile_->m_start / kLanes + block) * t_.ho * t_.wo + k) * kLanes;
        if (!inside(*grad_output_, start, Whole(length) * kLanes, doing, where)) throw StopCore();
        decode(format_, grad_output_->at(start.clamped()), length * kLanes, held.rows.data());
        for (int64_t at = 0; at < length; ++at)
            for (int64_t lane = 0; lane < kLanes; ++lane)
                held.a[static_cast<size_t>((block * kLanes + lane) * length + at)] =
                    held.rows[static_cast<size_t>(at * kLanes + lane)];
    }
}

void FilterObject::input_part(int64_t k, int64_t length, const std::string& doing, cgt_where where) {
    Scratch& held = scratch();
    const int64_t columns = tile_->n_length, wo = t_.wo, wi = t_.wi, hi = t_.hi;
    const int64_t area = window_area(t_).clamped();
    const int64_t pointer_row = std::max<int64_t>((Whole(row_) * t_.strideH - t_.padUp).clamped(), 0);
    const int64_t first = row_ + k / wo, last = row_ + (k + length - 1) / wo;
    const int64_t top = std::max<int64_t>((Whole(first) * t_.strideH - t_.padUp).clamped(), 0);
    const int64_t bottom =
        least(hi, Whole(last) * t_.strideH - t_.padUp + (Whole(t_.hk) - 1) * t_.dilationH + 1).clamped();
    const int64_t seen = std::max<int64_t>(0, bottom - top);
    const int64_t block_first = tile_->n_start / (area * kLanes),
                  block_last = (tile_->n_start + columns - 1) / (area * kLanes);
    const Whole width = (Whole(t_.wo) - 1) * t_.strideW + (Whole(t_.wk) - 1) * t_.dilationW + 1;
    held.b.assign(static_cast<size_t>(length * columns), 0.0f);
    if (seen == 0 || width <= t_.padLeft) return;
    held.rows.resize(static_cast<size_t>((block_last - block_first + 1) * seen * wi * kLanes));
    for (int64_t block = block_first; block <= block_last; ++block) {
        const Whole start = (Whole(block) * hi + top - pointer_row) * wi * kLanes;
        if (!inside(*other_, start, Whole(seen) * wi * kLanes, doing, where)) throw StopCore();
        decode(format_, other_->at(start.clamped()), seen * wi * kLanes,
               held.rows.data() + (block - block_first) * seen * wi * kLanes);
    }
    for (int64_t column = 0; column < columns / kLanes; ++column) {
        const int64_t place = tile_->n_start / kLanes + column, c1 = place / area - block_first, tap = place % area;
        const int64_t r = tap / t_.wk * t_.dilationH - t_.padUp, s = tap % t_.wk * t_.dilationW - t_.padLeft;
        for (int64_t at = 0; at < length; ++at) {
            const int64_t y = (row_ + (k + at) / wo) * t_.strideH + r - top, x = (k + at) % wo * t_.strideW + s;
            if (y < 0 || y >= seen || x < 0 || x >= wi) continue;
            std::memcpy(held.b.data() + at * columns + column * kLanes,
                        held.rows.data() + ((c1 * seen + y) * wi + x) * kLanes, kLanes * sizeof(float));
        }
    }
}

void FilterObject::compute(cgt_where where) {
    Scratch& held = scratch();
    const int64_t base = t_.baseK, step = std::max(base, kGatheredPositions / base * base);
    l0c_.assign(static_cast<size_t>(tile_->m_length * tile_->n_length), 0.0f);
    for (int64_t k = 0; k < k_.total; k += step) {
        const int64_t length = std::min(step, k_.total - k);
        const std::string part = "positions " + text(k) + "..." + text(k + length - 1),
                          doing = "Iterate, " + tile_->words();
        grad_output_part(k, length, doing + ", gradOutput " + part, where);
        input_part(k, length, doing + ", input under " + part, where);
        cgt_product(held.a.data(), held.b.data(), tile_->m_length, length, tile_->n_length, base, 0, l0c_.data());
    }
}

int FilterObject::get_tensor_c(const cgt_view& view, int atomic, bool sequential, cgt_where where) {
    const Place output = place_of(view);
    trace("GetTensorC", traced(output) + ", " + text(atomic) + ", " + (sequential ? "true" : "false"), where);
    if (!enter(Call::GetTensorC, where)) return CGT_REFUSED;
    check_flags(atomic, where);
    if (!tile_) return CGT_OK;
    Whole start = Whole(tile_->n_start) * weight_cout(t_) + tile_->m_start * kLanes, between = weight_cout(t_) * kLanes;
    int64_t rows = tile_->m_length;
    if (sequential) {
        start = 0, between = Whole(t_.baseM) * kLanes, rows = t_.baseM;
    } else {
        name_by_use(output, "gradWeight");
        bool is_first = false;
        check_moved(output, &is_first, where);
        if (is_first && other_->holds(input_size(t_)) && grad_output_->holds(grad_output_size(t_)) &&
            output.holds(weight_size(t_)))
            refuse(filter_mistake(t_, grad_output_->element, other_->element, output.element, row_, m_.total, n_.total),
                   where);
        judge_as(output.region, t_, where);
    }
    for (int64_t block = 0; block < tile_->n_length / kLanes; ++block)
        put(output, start + between * block, rows, block * kLanes, atomic != 0,
            "GetTensorC, " + tile_->words() + ", column block " + text(block), where);
    move(State::TileTaken);
    return CGT_OK;
}

}  // namespace

std::unique_ptr<Object> make_filter_object(int number, cgt_where where) {
    return std::make_unique<FilterObject>(number, where);
}

}  // namespace tile
}  // namespace convgrad
