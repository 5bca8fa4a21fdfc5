// Where the loops over pixels are cut.
#include "blocking/blocks.h"

namespace cg {

// Cuts `extent` into equal parts of at most `limit`, whole multiples of `multiple` where that is possible.
index_t even_part(index_t extent, index_t limit, index_t multiple) {
    const index_t parts = max(1, ceil_div(extent, max(1, limit)));  // an empty extent is one empty part
    const index_t part = ceil_div(extent, parts);
    const index_t rounded = round_up(part, multiple);
    return rounded <= limit ? rounded : part;
}

// Blocks of about `target` pixels, whole rows, planes or images where they fit.
Blocks make_blocks(const index_t extent[4], index_t target, index_t column_multiple) {
    Blocks b;
    index_t inner = 1;  // pixels of everything inside the axis being cut
    for (int a = 3; a >= 0; --a) {
        b.extent[a] = extent[a];
        b.per[a] = even_part(extent[a], max(1, target / inner), a == 3 ? column_multiple : 1);
        if (b.per[a] > extent[a]) b.per[a] = extent[a];
        b.count[a] = ceil_div(extent[a], max(1, b.per[a]));
        inner = b.per[a] < extent[a] ? target + 1 : inner * max(1, extent[a]);
    }
    b.total = b.count[0] * b.count[1] * b.count[2] * b.count[3];
    return b;
}

void block_box(const Blocks& b, index_t number, Box* box) {
    for (int a = 3; a >= 0; --a) {
        const index_t index = number % b.count[a];
        number /= b.count[a];
        box->begin[a] = index * b.per[a];
        box->end[a] = min(b.extent[a], box->begin[a] + b.per[a]);
    }
}

}  // namespace cg
