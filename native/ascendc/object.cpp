#include "object.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>

#include "convgrad.h"
#include "convgrad_tile/numbers.h"
#include "cores.h"
#include "numbers/formats.h"
#include "say.h"
#include "trace.h"

namespace convgrad {
namespace tile {
namespace {

constexpr int64_t kLanes = 16;

unsigned bit(State state) { return 1u << static_cast<int>(state); }
unsigned bit(Call call) { return 1u << static_cast<int>(call); }

bool open_walk(State state) {
    return state == State::Finished || state == State::TileTaken || state == State::TileSkipped;
}

}  // namespace

std::string Tile::words() const {
    const std::string place = say("tile (i %lld, j %lld)", (long long)i, (long long)j);
    return plane < 0 ? place : place + say(" of plane %lld", (long long)plane);
}

Object::Object(int format, bool ncdhw, cgt_where made_at) : format_(format), ncdhw_(ncdhw), made_at_(made_at) {
    static std::atomic<int> made{0};
    number_ = ++made;
}

State Object::state() const { return *first_ && open_walk(state_) ? State::Ready : state_; }

bool Object::enter(Call call, cgt_where where) {
    const State now = state();
    const std::string last = tile_ ? ", last " + tile_->words() : "";
    for (const Refusal& row : kRefusals)
        if ((row.calls & bit(call)) && (row.states & bit(now))) {
            found(row.rule,
                  std::string(kCallNames[static_cast<int>(call)]) + ": " + row.expected +
                      " (state: " + kStateWords[static_cast<int>(now)] + last + ")",
                  where);
            return false;
        }
    const bool left = *first_ && (state_ == State::TileTaken || state_ == State::TileSkipped) && call != Call::End;
    if (left && abandoned_.empty()) abandoned_ = "a walk was left early" + last;
    return true;
}

int Object::init(uint8_t* first, const void* record, cgt_where where) {
    first_ = first;
    if (tracing()) trace("Init", record ? record_fields(record) : "null", where);
    if (!enter(Call::Init, where)) return CGT_REFUSED;
    if (!record) stop("launch.arguments", "Init: the tiling record is a null pointer", where);
    const Broken broken = take_record(record);
    if (!broken.ok()) stop(broken.rule, broken.text, where);
    move(State::Ready);
    *first_ = 1;
    return CGT_OK;
}

int Object::set_grad_output(const cgt_view& view, cgt_where where) {
    return set_place(Call::SetGradOutput, view, "gradOutput", &grad_output_, where);
}

int Object::set_place(Call call, const cgt_view& view, const char* name, std::unique_ptr<Place>* kept,
                      cgt_where where) {
    const Place place = place_of(view);
    trace(kCallNames[static_cast<int>(call)], traced(place), where);
    if (!enter(call, where)) return CGT_REFUSED;
    name_by_use(place, name);
    *kept = std::make_unique<Place>(place);
    return CGT_OK;
}

int Object::end(cgt_where where) {
    trace("End", "", where);
    if (!enter(Call::End, where)) return CGT_REFUSED;
    if (!abandoned_.empty())
        found("order.left_early", "End: " + abandoned_ + "; walk until Iterate returns false" + early_exit(), where);
    move(State::Ended);
    return abandoned_.empty() ? CGT_OK : CGT_REFUSED;
}

void Object::dropped() const {
    if (state_ == State::Created || state_ == State::Ended || core_is_stopping()) return;
    found("object.unended",
          std::string("the object goes without End (state: ") + kStateWords[static_cast<int>(state())] + ")", made_at_);
}

void Object::refuse(const Mistake& mistake, cgt_where where) const {
    if (!mistake.none()) found(mistake.rule, mistake.text, where);
}

void Object::require(bool shape, bool start, bool other, const char* other_name, cgt_where where) const {
    std::string missing;
    auto want = [&](bool there, const char* name) {
        if (!there) missing += (missing.empty() ? "" : ", ") + std::string(name);
    };
    want(shape, "SetSingleShape"), want(start, "SetStartPosition"), want(grad_output_ != nullptr, "SetGradOutput");
    want(other, other_name);
    if (!missing.empty()) stop("order.missing_setter", "Iterate: " + missing + " must be called first", where);
}

void Object::check_flags(int atomic, cgt_where where) const {
    if (atomic != 0 && atomic != 1)
        stop("order.atomic", say("GetTensorC: enAtomic must be 0 or 1, got %d", atomic), where);
}

void Object::check_moved(const Place& output, bool* is_first, cgt_where where) {
    *is_first = !has_output_;
    if (!has_output_) {
        has_output_ = true, output_element_ = output.element;
    } else if (output.element != output_element_) {
        refuse({"pointer.moved", say("GetTensorC offset moved from %lld to %lld in one walk: pass the same pointer for "
                                     "every tile, the object adds the tile's place",
                                     (long long)output_element_, (long long)output.element)},
               where);
    }
}

void Object::put(const Place& to, Whole start, int64_t rows, int64_t column, bool add, const std::string& doing,
                 cgt_where where) const {
    if (!inside(to, start, Whole(rows) * kLanes, doing, where)) return;
    const int64_t first = start.clamped();
    mark_store(to, first, rows * kLanes, add);
    const int dtype = format_ == CGT_HALF ? CG_FLOAT16 : CG_BFLOAT16;
    float values[kLanes], old[kLanes];
    for (int64_t row = 0; row < rows; ++row) {
        char* at = to.at(first + row * kLanes);
        if (row < tile_->m_length) std::memcpy(values, l0c_.data() + row * tile_->n_length + column, sizeof values);
        else std::fill_n(values, kLanes, std::numeric_limits<float>::quiet_NaN());
        if (float_result_) {
            if (add) std::memcpy(old, at, sizeof old);
            for (int64_t lane = 0; lane < kLanes && add; ++lane) values[lane] = old[lane] + values[lane];
            std::memcpy(at, values, sizeof values);
            continue;
        }
        for (int64_t lane = 0; lane < kLanes; ++lane, at += sizeof(uint16_t)) {
            const uint16_t code = format_ == CGT_HALF ? convgrad_tile::half_bits(values[lane])
                                                      : convgrad_tile::bfloat16_bits(values[lane]);
            if (!add) std::memcpy(at, &code, sizeof code);
            else
                cg::store_from_double(at, 0, dtype,
                                      cg::load_as_double(at, 0, dtype) + cg::load_as_double(&code, 0, dtype));
        }
    }
}

void Object::tell(const Tile& tile, bool computed, cgt_tile* told) {
    *told = {tile.i, tile.j, tile.plane, tile.m_length, tile.n_length, computed};
}

void Object::trace(const char* call, const std::string& arguments, cgt_where where) const {
    if (tracing()) trace_call(number_, call, arguments, where, first_ && *first_);
}

std::string Object::traced(const Place& place) {
    return say("%d, %lld", place.region ? place.region->number : 0, (long long)place.element);
}

void decode(int format, const char* from, int64_t count, float* to) {
    const auto* codes = reinterpret_cast<const uint16_t*>(from);  // elements of 2 bytes lie on even addresses
    for (int64_t at = 0; at < count; ++at) {
        uint32_t bits;
        if (format == CGT_BFLOAT16) {
            bits = static_cast<uint32_t>(codes[at]) << 16;
            std::memcpy(to + at, &bits, sizeof bits);
            continue;
        }
        const uint32_t size = codes[at] & 0x7fffu;
        bits = size << 13;
        float value;
        std::memcpy(&value, &bits, sizeof value);
        value *= 0x1p112f;  // the exponent of half to that of float; subnormals become normal
        std::memcpy(&bits, &value, sizeof bits);
        bits |= (size >= 0x7c00u ? 0x7f800000u : 0u) | (codes[at] & 0x8000u) << 16;
        std::memcpy(to + at, &bits, sizeof bits);
    }
}

}  // namespace tile
}  // namespace convgrad
