// Tiling records: the structs of the SDK, what follows from their fields, and every demand on them.
#pragma once

#include <string>
#include <vector>

#include "convgrad_tile/records.h"
#include "whole.h"

namespace convgrad {
namespace tile {

using InputRecord = AscendC::tiling::TConv3DBackpropInputTiling;
using FilterRecord = AscendC::tiling::TConv3DBpFilterTiling;

// Bytes of each store; 128 of the nominal 512 KiB of L1 are reserved.
struct Sizes {
    int64_t l1Size = 524160, l0ASize = 65536, l0BSize = 65536, l0CSize = 131072;
};

inline Whole channel_block(const InputRecord& t) { return t.c0; }
inline Whole channel_block(const FilterRecord& t) { return t.channelSize; }

template <class Record> Whole window_area(const Record& t) { return Whole(t.hk) * t.wk; }
template <class Record> Whole element_bytes(const Record& t) { return Whole(32) / channel_block(t); }
template <class Record> Whole weight_cout(const Record& t) { return ceil_div(t.cout, 16) * 16; }
template <class Record> Whole cin_blocks(const Record& t) { return ceil_div(t.cin, channel_block(t)); }
template <class Record> Whole cout_blocks(const Record& t) { return ceil_div(t.cout, channel_block(t)); }
template <class Record> Whole grad_output_size(const Record& t) {
    return Whole(t.batch) * t.dout * cout_blocks(t) * t.ho * t.wo * channel_block(t);
}
template <class Record> Whole input_size(const Record& t) {
    return Whole(t.batch) * t.di * cin_blocks(t) * t.hi * t.wi * channel_block(t);
}
template <class Record> Whole weight_size(const Record& t) {
    return Whole(t.dk) * cin_blocks(t) * window_area(t) * weight_cout(t) * channel_block(t);
}
inline Whole k_of_block(const InputRecord& t) { return window_area(t) * t.c0; }

// Rows that so many consecutive positions touch at most, the bound the buffers are reserved for.
Whole rows_of_tile(Whole positions, Whole columns);
Whole window_rows(const InputRecord& t);
Whole expanded_rows(const InputRecord& t);

// The gradOutput plane that window plane `kd` ties to a gradInput plane, or -1.
int64_t depth_tap(const InputRecord& t, int64_t plane, int64_t kd);

struct Broken {
    std::string rule, text;
    bool ok() const { return rule.empty(); }
};
// Every broken demand of the first group that has one.
Broken check(const InputRecord& record, const Sizes& sizes);
Broken check(const FilterRecord& record, const Sizes& sizes);

}  // namespace tile
}  // namespace convgrad
