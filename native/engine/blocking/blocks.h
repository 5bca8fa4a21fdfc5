// Boxes of output cells, and the blocks a loop over them is cut into. Axes: batch, depth, height, width.
//
// Two rules keep results independent of the number of threads. What orders a sum (tap groups, channels per K block,
// runs of pixels of the weight contraction) is computed from the problem alone. What does not (pixel blocks of a
// gather, chunks of output channels, splits of a task) may follow the number of threads.
#pragma once

#include "numbers/integers.h"

namespace cg {

struct Box {
    index_t begin[4], end[4];
};

struct Blocks {
    index_t extent[4], per[4], count[4], total;
};

index_t even_part(index_t extent, index_t limit, index_t multiple);
Blocks make_blocks(const index_t extent[4], index_t target, index_t column_multiple);
void block_box(const Blocks& b, index_t number, Box* box);

}  // namespace cg
