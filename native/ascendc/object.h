// A kernel object: its life from Init to End, and what both gradients share of a walk.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "findings.h"
#include "memory.h"
#include "records.h"

namespace convgrad {
namespace tile {

#include "../generated/tile_calls.inc"

// One axis cut into tiles of `base`, the last one what is left.
struct Extent {
    int64_t total = 0, base = 1;
    int64_t count() const { return total / base + (total % base != 0); }
    int64_t length(int64_t index) const { return total - index * base < base ? total - index * base : base; }
};

struct Tile {
    int64_t i = 0, j = 0, plane = -1;  // plane -1: the filter's tiles have none
    int64_t m_start = 0, m_length = 0, n_start = 0, n_length = 0;
    std::string words() const;
};

struct Mistake {
    std::string rule, text;
    bool none() const { return rule.empty(); }
};

class Object {
public:
    Object(int number, bool ncdhw, cgt_where made_at);
    virtual ~Object() = default;

    // Answers of the C ABI; `first` is ctx.isFirstIter_. StopCore is thrown where the core cannot go on.
    int init(uint8_t* first, const void* record, cgt_where where);
    virtual int set_single_shape(uint64_t one, uint64_t two, uint64_t three, cgt_where where) = 0;
    virtual int set_planes(uint64_t planes, cgt_where where) = 0;
    virtual int set_start(int64_t plane, int64_t row, cgt_where where) = 0;
    int set_grad_output(const cgt_view& view, cgt_where where);
    virtual int set_other(const cgt_view& view, cgt_where where) = 0;
    virtual bool iterate(cgt_tile* tile, cgt_where where) = 0;
    virtual int get_tensor_c(const cgt_view& output, int atomic, bool sequential, cgt_where where) = 0;
    int end(cgt_where where);
    void dropped() const;  // a finding when a walk is open or End was not called
    virtual const void* record() const = 0;

    void use_flag(uint8_t* first) { first_ = first; }
    int number() const { return number_; }

protected:
    virtual Broken take_record(const void* record) = 0;
    virtual std::string record_fields(const void* record) const = 0;
    virtual const char* early_exit() const { return ""; }

    State state() const;
    bool enter(Call call, cgt_where where);
    void move(State state) { state_ = state; }
    int set_place(Call call, const cgt_view& view, const char* name, std::unique_ptr<Place>* kept, cgt_where where);
    void refuse(const Mistake& mistake, cgt_where where) const;
    void require(bool shape, bool start, bool other, const char* other_name, cgt_where where) const;
    void check_flags(int atomic, cgt_where where) const;
    // Whether the output pointer is the one of the tiles before it in this walk; `is_first` when it is the first.
    void check_moved(const Place& output, bool* is_first, cgt_where where);
    // Rows of c0 lanes of the tile to one run of memory, rounded once; rows past the tile are undefined: NaN.
    void put(const Place& to, Whole start, int64_t rows, int64_t column, bool add, const std::string& doing,
             cgt_where where) const;
    static void tell(const Tile& tile, bool computed, cgt_tile* told);
    // A call as it comes, before anything is refused.
    void trace(const char* call, const std::string& arguments, cgt_where where) const;
    static std::string traced(const Place& place);

    int format_;  // of the operands: CGT_HALF or CGT_BFLOAT16
    bool float_result_ = false;
    bool ncdhw_;
    uint8_t* first_ = nullptr;
    std::unique_ptr<Tile> tile_;
    std::vector<float> l0c_;  // m_length x n_length of the tile that waits
    std::unique_ptr<Place> grad_output_, other_;
    bool has_output_ = false;
    int64_t output_element_ = 0;

private:
    int number_;
    cgt_where made_at_;
    State state_ = State::Created;
    std::string abandoned_;
};

std::unique_ptr<Object> make_input_object(int number, bool ncdhw, cgt_where where);
std::unique_ptr<Object> make_filter_object(int number, cgt_where where);

// `count` 16-bit elements as float32.
void decode(int format, const char* from, int64_t count, float* to);

}  // namespace tile
}  // namespace convgrad
