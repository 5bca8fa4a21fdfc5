// Global memory of a launch: blocks that are known, regions that arguments open in them, and what happens to each
// element.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "convgrad_tile.h"
#include "ledger.h"
#include "records.h"

namespace convgrad {
namespace tile {

// The record whose result a region holds.
struct Judged {
    enum { Nothing, GradInput, GradWeight } what = Nothing;
    cgt_where where{};  // of the first tile's GetTensorC
    InputRecord input;
    FilterRecord filter;
};

struct Region {
    int number = 0;
    std::string name;
    char* start = nullptr;
    size_t bytes = 0;
    size_t zeros = 0;  // leading bytes that the host, or an earlier launch, zeroed
    bool named_by_use = false;
    Ledger ledger;  // made by the first store or fill
    std::vector<bool> writers;
    uint64_t out_of_range = 0;
    Judged judged;
};

// A place in a region. Any may be made; only touching memory outside of the region is wrong.
struct Place {
    Region* region = nullptr;
    bool is_null = false;  // SetGlobalBuffer was given no address
    int64_t element = 0;   // from the region's start
    int32_t bytes = 2;     // of one element
    int64_t given = 0;     // elements SetGlobalBuffer was told of, from `given_from` on; 0: not told
    int64_t given_from = 0;

    int64_t elements() const { return region ? static_cast<int64_t>(region->bytes) / bytes : 0; }
    char* at(int64_t start) const { return region->start + (element + start) * bytes; }
    // Whether the region, or what SetGlobalBuffer was told of it from its start on, is a tensor of so many elements.
    bool holds(Whole size) const { return elements() == size || (given_from == 0 && given > 0 && given == size); }
};

Place place_of(const cgt_view& view);
// The region holds the result of an object with such a record, unless its name says that it is a workspace.
void judge_as(Region* region, const InputRecord& record, cgt_where where);
void judge_as(Region* region, const FilterRecord& record, cgt_where where);
bool is_workspace(const Region* region);
// Takes the name an operand has in messages, the first time it is used.
void name_by_use(const Place& place, const char* name);

// Whether `count` elements from `start` on may be touched; a finding if not.
bool inside(const Place& place, Whole start, Whole count, const std::string& doing, cgt_where where);
void mark_store(const Place& place, int64_t start, int64_t count, bool add);
void mark_fill(const Place& place, int64_t start, int64_t count);

void open_regions(const char* texts, const void* const* arguments, int count);
// What was written behind blocks (told at the launch) and coverage of every region that holds a result, as findings;
// the head line of the report, empty when there is none.
std::string judge_regions(cgt_where launch);
void close_regions();

}  // namespace tile
}  // namespace convgrad
