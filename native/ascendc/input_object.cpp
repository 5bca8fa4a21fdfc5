// Conv3DBackpropInput: gradInput tile by tile on the true layouts.
//
//     m = h * Wi + w                                positions of one gradInput plane
//     k = ((co1 * Kh + r) * Kw + s) * C0 + co0      gradOutput channel block, window row, window column, lane
//     A(m, k) = expanded gradOutput(co, h - padUp' + r * dH, w - padLeft' + s * dW), zero outside
//     B(k, n) = weight(co, n, kd, Kh-1-r, Kw-1-s)   turned in the plane, not in depth
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

// The expanded gradOutput rows one tile reads: `start` may be negative, `first` and `rows` are gradOutput rows with
// data.
struct RowWindow {
    int64_t start = 0, first = 0, rows = 0;
};

class InputObject final : public Object {
public:
    using Object::Object;

    int set_single_shape(uint64_t M, uint64_t K, uint64_t N, cgt_where where) override;
    int set_planes(uint64_t planes, cgt_where where) override;
    int set_start(int64_t plane, int64_t row, cgt_where where) override;
    int set_other(const cgt_view& view, cgt_where where) override {
        return set_place(Call::SetWeight, view, "weight", &other_, where);
    }
    bool iterate(cgt_tile* told, cgt_where where) override;
    int get_tensor_c(const cgt_view& output, int atomic, bool sequential, cgt_where where) override;
    const void* record() const override { return &t_; }

private:
    Broken take_record(const void* record) override {
        std::memcpy(&t_, record, sizeof t_);
        const Broken broken = check(t_, Sizes());
        if (!broken.ok() || t_.c0 == kLanes) return broken;
        return {"tiling.c0", say("Init: c0 must be 16 for %s operands, got %u",
                                 format_ == CGT_HALF ? "float16" : "bfloat16", t_.c0)};
    }
    std::string record_fields(const void* record) const override {
        InputRecord given;
        std::memcpy(&given, record, sizeof given);
        std::string all = "{";
#define FIELD(name) all += (all.size() > 1 ? ", \"" #name "\": " : "\"" #name "\": ") + text(given.name);
        CGT_INPUT_FIELDS(FIELD, FIELD, FIELD)
#undef FIELD
        return all + "}";
    }
    const char* early_exit() const override { return ", a kept weight buffer is never released otherwise"; }
    void begin_walk(cgt_where where);
    bool advance();
    RowWindow row_window(int64_t m_start) const;
    void compute(const RowWindow& window, cgt_where where);
    void read_rows(const RowWindow& window, int64_t plane, cgt_where where);
    void gather(const RowWindow& window, int64_t block, int64_t blocks);
    void weights(int64_t kd, int64_t block, int64_t blocks);
    void check_output(const Place& output, cgt_where where);
    InputWalk walk() const { return {row_, plane_, m_.total, n_.total, cout1_}; }

    InputRecord t_;
    bool has_shape_ = false, has_start_ = false;
    Extent m_, n_;
    int64_t cout1_ = 0;
    int64_t start_plane_ = 0, start_row_ = 0, planes_ = 1;
    int64_t i_ = 0, j_ = 0, plane_ = 0, row_ = 0;
    int64_t walk_grad_output_ = 0, walk_weight_ = 0;
};

int InputObject::set_single_shape(uint64_t M, uint64_t K, uint64_t N, cgt_where where) {
    trace("SetSingleShape", text(M) + ", " + text(K) + ", " + text(N), where);
    if (!enter(Call::SetSingleShape, where)) return CGT_REFUSED;
    const Whole per_block = Whole(t_.dk) * k_of_block(t_);
    if (M == 0 || K == 0 || N == 0)
        stop("shape.positive",
             "SetSingleShape: M, K and N must be above 0, got M " + text(M) + ", K " + text(K) + ", N " + text(N),
             where);
    if (Whole(K) % per_block != 0)
        stop("shape.k",
             "SetSingleShape: K must be a multiple of dk * hk * wk * c0 = " + text(per_block) + ", got K " + text(K) +
                 " (hardware would round it down to " + text(Whole(K) / per_block * per_block) + ")" +
                 (Whole(N) % per_block == 0 ? "; the order of the arguments is M, K, N" : ""),
             where);
    if (Whole(K) / per_block > t_.cout1)
        stop("shape.k_total",
             "SetSingleShape: K must be at most dk * hk * wk * cout1 * c0 = " + text(per_block * t_.cout1) + ", got " +
                 text(K),
             where);
    if (Whole(t_.hi) * t_.wi < M)
        stop("shape.m_total",
             "SetSingleShape: M must be at most hi * wi = " + text(Whole(t_.hi) * t_.wi) + ", got " + text(M), where);
    if (ceil_div(N, t_.c0) > t_.cin1)
        stop("shape.n_total",
             "SetSingleShape: N must be at most cin1 * c0 = " + text(Whole(t_.cin1) * t_.c0) + ", got " + text(N),
             where);
    cout1_ = (Whole(K) / per_block).clamped();
    m_ = {static_cast<int64_t>(M), t_.baseM};
    n_ = {(ceil_div(N, t_.c0) * t_.c0).clamped(), t_.baseN};
    has_shape_ = true;
    return CGT_OK;
}

int InputObject::set_planes(uint64_t planes, cgt_where where) {
    trace("SetPlanes", text(planes), where);
    if (!enter(Call::SetSingleShape, where)) return CGT_REFUSED;
    if (planes == 0 || planes > t_.di)
        stop("shape.planes",
             "SetSingleShape: a walk covers 1..." + text(t_.di) + " gradInput planes, got " + text(planes), where);
    planes_ = static_cast<int64_t>(planes);
    return CGT_OK;
}

int InputObject::set_start(int64_t plane, int64_t row, cgt_where where) {
    trace("SetStartPosition", text(plane) + ", " + text(row), where);
    if (!enter(Call::SetStartPosition, where)) return CGT_REFUSED;
    const int64_t first = -static_cast<int64_t>(t_.backpropPadUp), last = static_cast<int64_t>(t_.hi) - 1;
    if (plane < 0 || plane >= t_.di)
        stop("start.plane",
             "SetStartPosition: din must be a gradInput plane, 0..." + text(Whole(t_.di) - 1) + ", got " + text(plane),
             where);
    if (row < first || row > last)
        stop("start.range",
             "SetStartPosition: hoStart must be a gradInput row less backpropPadUp, " + text(first) + "..." +
                 text(last - t_.backpropPadUp) + ", got " + text(row),
             where);
    start_plane_ = plane, start_row_ = row, has_start_ = true;
    return CGT_OK;
}

void InputObject::begin_walk(cgt_where where) {
    *first_ = 0;
    i_ = j_ = 0, plane_ = start_plane_, row_ = start_row_;
    has_output_ = false;
    if (start_plane_ + planes_ > t_.di)
        stop("start.plane",
             "Iterate: the walk covers " + text(planes_) + " planes from " + text(start_plane_) +
                 " on, gradInput has " + text(t_.di),
             where);
    walk_grad_output_ = grad_output_->element, walk_weight_ = other_->element;
    if (grad_output_->holds(grad_output_size(t_))) refuse(grad_output_mistake(t_, walk_grad_output_, walk()), where);
    if (other_->holds(weight_size(t_))) refuse(weight_mistake(t_, walk_weight_, walk()), where);
}

// The next tile, then the next plane; false past the last plane of a single shape.
bool InputObject::advance() {
    if (t_.iterateOrder == 1) {
        if (++i_ >= m_.count()) i_ = 0, ++j_;
    } else if (++j_ >= n_.count()) {
        j_ = 0, ++i_;
    }
    if (j_ >= n_.count() || i_ >= m_.count()) i_ = j_ = 0, ++plane_;
    return i_ != 0 || j_ != 0 || plane_ < start_plane_ + planes_;
}

RowWindow InputObject::row_window(int64_t m_start) const {
    const int64_t start = row_ + m_start / t_.wi, top = std::max<int64_t>(start, 0), stride = t_.strideH;
    const Whole length = start < 0 ? most(0, least(window_rows(t_) + start, expanded_rows(t_)))
                                   : most(0, least(window_rows(t_), expanded_rows(t_) - start));
    const int64_t first = top / stride + (top % stride != 0);
    const Whole rows = most(0, ceil_div(length - (Whole(first) * stride - top), stride));
    return {start, first, rows.clamped()};
}

bool InputObject::iterate(cgt_tile* told, cgt_where where) {
    trace("Iterate", "", where);
    enter(Call::Iterate, where);
    require(has_shape_, has_start_, other_ != nullptr, "SetWeight", where);
    if (*first_) {
        begin_walk(where);
    } else if (!advance()) {
        move(State::Finished);
        tile_ = nullptr;
        return false;
    }
    if (i_ >= m_.count() || j_ >= n_.count()) return true;  // only stale indices get here
    tile_ = std::make_unique<Tile>(Tile{i_, j_, plane_, i_ * m_.base, m_.length(i_), j_ * n_.base, n_.length(j_)});
    const RowWindow window = row_window(tile_->m_start);
    bool tied = false;
    for (int64_t kd = 0; kd < t_.dk && !tied; ++kd) tied = depth_tap(t_, plane_, kd) >= 0;
    const bool computed = !(window.rows == 0 && t_.initOutputFlag == 1);
    tell(*tile_, tied && computed, told);
    if (!tied || !computed) {
        move(State::TileSkipped);
    } else if (on_vector_core()) {
        move(State::TileTaken);  // a vector core walks along and computes nothing
    } else {
        compute(window, where);
        move(State::TileWaiting);
    }
    return true;
}

// gradOutput rows of the window for every channel block of the single shape, as float32.
void InputObject::read_rows(const RowWindow& window, int64_t plane, cgt_where where) {
    Scratch& held = scratch();
    if (window.rows == 0) return;
    const Whole row = Whole(t_.wo) * t_.c0;
    const Whole first_of_shape = most(0, ceil_div(row_, t_.strideH));
    const std::string doing = "Iterate, " + tile_->words() + ", gradOutput plane " + text(plane);
    std::vector<int64_t> starts;
    for (int64_t co1 = 0; co1 < cout1_; ++co1) {
        const Whole start = ((Whole(plane) * t_.cout1 + co1) * t_.ho + window.first - first_of_shape) * row;
        if (!inside(*grad_output_, start, row * window.rows, doing, where)) throw StopCore();
        starts.push_back(start.clamped());
    }
    const int64_t count = (row * window.rows).clamped();
    held.rows.resize(static_cast<size_t>(count * cout1_));
    for (int64_t co1 = 0; co1 < cout1_; ++co1)
        decode(format_, grad_output_->at(starts[static_cast<size_t>(co1)]), count, held.rows.data() + co1 * count);
}

// A of some channel blocks: one row per position of the tile.
void InputObject::gather(const RowWindow& window, int64_t block, int64_t blocks) {
    Scratch& held = scratch();
    const int64_t hk = t_.hk, wk = t_.wk, k = blocks * hk * wk * kLanes, wo = t_.wo;
    const int64_t per_block = window.rows * wo * kLanes;
    held.a.assign(static_cast<size_t>(tile_->m_length * k), 0.0f);
    std::vector<int64_t> rows(static_cast<size_t>(hk)),
        columns(static_cast<size_t>(wk));  // where each tap reads, or -1
    for (int64_t m = 0; m < tile_->m_length; ++m) {
        const int64_t h = (tile_->m_start + m) / t_.wi, w = (tile_->m_start + m) % t_.wi;
        for (int64_t r = 0; r < hk; ++r) {
            const int64_t y = row_ + h + r * t_.dilationH, at = y / t_.strideH - window.first;
            rows[static_cast<size_t>(r)] = y < 0 || y % t_.strideH || at < 0 || at >= window.rows ? -1 : at;
        }
        for (int64_t s = 0; s < wk; ++s) {
            const int64_t x = w - t_.backpropPadLeft + s * t_.dilationW, at = x / t_.strideW;
            columns[static_cast<size_t>(s)] = x < 0 || x % t_.strideW || at >= wo ? -1 : at;
        }
        float* to = held.a.data() + m * k;
        for (int64_t co1 = block; co1 < block + blocks; ++co1)
            for (const int64_t y : rows)
                for (const int64_t x : columns) {
                    if (y >= 0 && x >= 0)
                        std::memcpy(to, held.rows.data() + co1 * per_block + (y * wo + x) * kLanes,
                                    kLanes * sizeof(float));
                    to += kLanes;
                }
    }
}

// B of some channel blocks and one window plane.
void InputObject::weights(int64_t kd, int64_t block, int64_t blocks) {
    Scratch& held = scratch();
    const int64_t hk = t_.hk, wk = t_.wk, columns = tile_->n_length;
    const int64_t per_tap = weight_cout(t_).clamped() * kLanes, per_cin = hk * wk * per_tap;
    const int64_t start = (kd * t_.cin1 + tile_->n_start / kLanes) * per_cin;
    held.b.resize(static_cast<size_t>(blocks * hk * wk * kLanes * columns));
    float fractal[kLanes * kLanes];
    for (int64_t cin = 0; cin < columns / kLanes; ++cin)
        for (int64_t co1 = 0; co1 < blocks; ++co1)
            for (int64_t tap = 0; tap < hk * wk; ++tap) {
                const int64_t turned = hk * wk - 1 - tap;
                const int64_t from = start + cin * per_cin + turned * per_tap + (block + co1) * kLanes * kLanes;
                decode(format_, other_->at(from), kLanes * kLanes, fractal);
                for (int64_t lane = 0; lane < kLanes; ++lane)
                    std::memcpy(held.b.data() + ((co1 * hk * wk + tap) * kLanes + lane) * columns + cin * kLanes,
                                fractal + lane * kLanes, kLanes * sizeof(float));
            }
}

// Window planes ascending, inside each one baseK of k after baseK. One load holds stepKa * baseK of k, whole blocks.
void InputObject::compute(const RowWindow& window, cgt_where where) {
    Scratch& held = scratch();
    l0c_.resize(static_cast<size_t>(tile_->m_length * tile_->n_length));
    const int64_t taps = (window_area(t_)).clamped();
    const int64_t blocks_of_load = static_cast<int64_t>(t_.stepKa) * t_.baseK / (taps * kLanes);
    const Whole per_tap = weight_cout(t_) * t_.c0, per_cin = window_area(t_) * per_tap;
    bool overwrite = true;
    for (int64_t kd = 0; kd < t_.dk; ++kd) {
        const int64_t plane = depth_tap(t_, plane_, kd);
        if (plane < 0) continue;
        read_rows(window, plane, where);
        const Whole start = (Whole(kd) * t_.cin1 + tile_->n_start / kLanes) * per_cin;
        const Whole used = Whole(tile_->n_length / kLanes) * per_cin - (per_tap - Whole(cout1_) * 16 * t_.c0);
        if (!inside(*other_, start, used, "Iterate, " + tile_->words() + ", window plane " + text(kd), where))
            throw StopCore();
        for (int64_t block = 0; block < cout1_; block += blocks_of_load) {
            const int64_t blocks = std::min(blocks_of_load, cout1_ - block);
            gather(window, block, blocks);
            weights(kd, block, blocks);
            cgt_product(held.a.data(), held.b.data(), tile_->m_length, blocks * taps * kLanes, tile_->n_length,
                        t_.baseK, overwrite, l0c_.data());
            overwrite = false;
        }
    }
}

void InputObject::check_output(const Place& output, cgt_where where) {
    bool is_first = false;
    check_moved(output, &is_first, where);
    if (!is_first) return;
    if (ncdhw_) {
        if (output.region && output.region->name == "gradInput")
            found("store.ncdhw",
                  "gradInput is declared NCDHW: GetTensorC leaves raw tiles at GetBlockIdx() * baseM * baseN of its "
                  "pointer; "
                  "give it a workspace and store the tile with the vector core, or declare NDC1HWC0",
                  where);
        return;
    }
    if (!output.holds(input_size(t_))) return;
    const Mistake alone = grad_input_mistake(t_, output.element, walk());
    refuse(alone, where);
    if (!alone.none() || !grad_output_->holds(grad_output_size(t_)) || !other_->holds(weight_size(t_))) return;
    for (const Mistake& one : pairing_mistakes(t_, walk_grad_output_, walk_weight_, output.element)) refuse(one, where);
}

int InputObject::get_tensor_c(const cgt_view& view, int atomic, bool sequential, cgt_where where) {
    const Place output = place_of(view);
    trace("GetTensorC", traced(output) + ", " + text(atomic) + ", " + (sequential ? "true" : "false"), where);
    if (!enter(Call::GetTensorC, where)) return CGT_REFUSED;
    check_flags(atomic, where);
    if (sequential)
        stop("order.sequential",
             "GetTensorC: enSequentialWrite is reserved and must be False; with True nothing would be written and the "
             "tile "
             "never released",
             where);
    if (state() == State::TileSkipped || !tile_) return CGT_OK;
    const bool is_result =
        !is_workspace(output.region) &&
        (output.holds(input_size(t_)) || output.holds(Whole(t_.batch) * t_.cin * t_.di * t_.hi * t_.wi));
    if (!ncdhw_ || is_result) name_by_use(output, "gradInput");
    check_output(output, where);
    if (!ncdhw_) judge_as(output.region, t_, where);
    const Whole plane = Whole(t_.hi) * t_.wi;
    const std::string doing = "GetTensorC, " + tile_->words();
    if (ncdhw_) {
        const Whole start = Whole(core_number()) * t_.baseM * t_.baseN;
        const std::string raw = doing + ", raw tile of core " + text(core_number());
        if (inside(output, start, Whole(tile_->m_length) * tile_->n_length, raw, where))
            for (int64_t block = 0; block < tile_->n_length / kLanes; ++block)
                put(output, start + block * tile_->m_length * kLanes, tile_->m_length, block * kLanes, atomic, raw,
                    where);
    } else {
        const Whole start = (Whole(tile_->plane) * t_.cin1 * t_.c0 + tile_->n_start) * plane + tile_->m_start * kLanes;
        for (int64_t block = 0; block < tile_->n_length / kLanes; ++block)
            put(output, start + plane * t_.c0 * block, tile_->m_length, block * kLanes, atomic,
                doing + ", channel block " + text(tile_->n_start / kLanes + block), where);
    }
    move(State::TileTaken);
    return CGT_OK;
}

}  // namespace

std::unique_ptr<Object> make_input_object(int number, bool ncdhw, cgt_where where) {
    return std::make_unique<InputObject>(number, ncdhw, where);
}

}  // namespace tile
}  // namespace convgrad
