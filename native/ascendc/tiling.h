// GetTiling: from shapes and attributes to a tiling record. The same numbers, and the same words of a refusal, as the
// Python model's.
#pragma once

#include <string>
#include <vector>

#include "convgrad_tile.h"
#include "records.h"

namespace convgrad {
namespace tile {

constexpr int64_t kGmBytesPerCycle = 64;
constexpr int64_t kProductPrice = 24;  // cycles to start one product
constexpr int64_t kBlockPrice = 500;   // cycles to start one single shape

// The stores and cores that a problem is cut for.
struct Platform {
    int64_t l1Size = 0, l0ASize = 0, l0BSize = 0, l0CSize = 0, cores = 0;
    Sizes sizes() const { return {l1Size, l0ASize, l0BSize, l0CSize}; }
};

// The distinct piece lengths that cut `total` into 1, 2, 3 ... pieces, longest first.
std::vector<int64_t> pieces_of(int64_t total, int64_t limit);

// Fills in how a record whose sizes are set is cut; why there is no cut, or nothing.
std::string cut_input(InputRecord* record, const Platform& platform, const std::string& platform_words);
std::string cut_filter(AscendC::tiling::Conv3DBackpropFilterTilingData* data, const Platform& platform);

// Input elements that `k_length` positions and some columns of N touch at most.
Whole input_elements_in_l1(const FilterRecord& t, Whole k_length, Whole columns);
// Bytes of all L1 buffers.
Whole l1_bytes_of(const FilterRecord& t);
// Zero cells behind the expanded gradOutput.
Whole trailing_pad_of(Whole size, Whole out, Whole stride, Whole pad_before);
// Whether some gradInput element is stored by no tile.
bool some_elements_stay_unwritten(const InputRecord& t);

}  // namespace tile
}  // namespace convgrad
