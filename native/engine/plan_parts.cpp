// Where the loops are cut: what the contractions have in common.
#include "plan_parts.h"

namespace cg {

index_t gcd(index_t a, index_t b) { return b == 0 ? a : gcd(b, a % b); }

// Whether storing a sum errs more than any chain: in 16 bits or less it does, and the sum is not cut into short ones.
bool outweighs_chains(const cg_tensor& result) { return bytes_per_element(result.dtype) <= 2; }

// Cuts `extent` into equal parts of at most `limit`, whole multiples of `multiple` where that is possible.
index_t even_part(index_t extent, index_t limit, index_t multiple) {
    const index_t parts = most(1, ceil_div(extent, most(1, limit)));  // an empty extent is one empty part
    const index_t part = ceil_div(extent, parts);
    const index_t rounded = round_up(part, multiple);
    return rounded <= limit ? rounded : part;
}

// i = o*stride - pad + k*dilation with i = stride*j + residue:
//   k*dilation = residue + pad (mod stride), o = j + (residue + pad - k*dilation)/stride.
// Solutions k are spaced stride/gcd(stride, dilation) apart.
AxisClass fine_class(const cg_problem& p, int axis, index_t residue, index_t first_try) {
    const index_t stride = p.stride[axis], dilation = p.dilation[axis], window = p.window[axis];
    const index_t spacing = stride / gcd(stride, dilation);
    AxisClass c;
    c.residue = residue;
    c.cells = residue < p.fine[axis] ? ceil_div(p.fine[axis] - residue, stride) : 0;
    c.taps = AxisTaps{0, 0, spacing, 0, -(spacing * dilation / stride)};
    for (index_t k = first_try; k < least(window, spacing); ++k) {
        const index_t distance = residue + p.pad[axis] - k * dilation;
        if (distance % stride != 0) continue;
        c.taps.first_tap = k;
        c.taps.count = ceil_div(window - k, spacing);
        c.taps.first_offset = distance / stride;
        break;
    }
    return c;
}

AxisTaps coarse_taps(const cg_problem& p, int axis) {
    return AxisTaps{p.window[axis], 0, 1, -p.pad[axis], p.dilation[axis]};
}

AxisClass axis_class(const cg_problem& p, bool to_fine, int axis, index_t residue) {
    return to_fine ? fine_class(p, axis, residue) : AxisClass{coarse_taps(p, axis), 0, p.coarse[axis]};
}

index_t classes_with_taps(const cg_problem& p, int axis) {
    return least(p.window[axis], p.stride[axis] / gcd(p.stride[axis], p.dilation[axis]));
}

// Cell j reads source cell step*j + offset of the tap: which taps find one inside, for some j of [first, last]?
TapRange reaching_taps(const AxisTaps& taps, index_t step, index_t extent, index_t first, index_t last) {
    TapRange in{taps.count, 0};
    for (index_t t = 0; t < taps.count; ++t) {
        const index_t offset = taps.first_offset + t * taps.offset_step;
        if (step * last + offset < 0 || step * first + offset >= extent) continue;
        in.begin = least(in.begin, t);
        in.end = t + 1;
    }
    return in.begin < in.end ? in : TapRange{0, 0};
}

AxisTaps group_taps(const AxisTaps& taps, index_t groups, index_t number) {
    const index_t begin = taps.count * number / groups, end = taps.count * (number + 1) / groups;
    return AxisTaps{end - begin, taps.first_tap + begin * taps.tap_step, taps.tap_step,
                    taps.first_offset + begin * taps.offset_step, taps.offset_step};
}

TileAxis tile_axis(const AxisTaps& taps, index_t scale) {
    TileAxis t;
    t.scale = scale;
    const index_t first = floor_div(taps.first_offset, scale);
    const index_t last = floor_div(taps.first_offset + (taps.count - 1) * taps.offset_step, scale);
    t.low = least(first, last);
    t.span = most(first, last) - t.low;
    t.first = taps.first_offset;
    t.step = taps.offset_step;
    const index_t step = taps.offset_step < 0 ? -taps.offset_step : taps.offset_step;
    t.slots = scale == 1 ? 1 : clamp(taps.count, 1, scale / gcd(scale, step));
    return t;
}

Spread axis_spread(const ClassSet& set, int axis, index_t groups, index_t scale) {
    Spread s{1, 0, 0};
    index_t low = 0, high = 0;
    bool any = false;
    for (int c = 0; c < set.per[axis]; ++c) {
        const AxisTaps& all = set.axis[axis][c].taps;
        if (all.count == 0) continue;
        if (groups > 1) {
            // The largest group, wherever it begins: its offsets reach over at most ceil(distance/scale) quotients.
            const index_t taps = ceil_div(all.count, groups);
            const index_t step = all.offset_step < 0 ? -all.offset_step : all.offset_step;
            return Spread{clamp(taps, 1, scale / gcd(scale, step)), ceil_div((taps - 1) * step, scale), taps};
        }
        const TileAxis t = tile_axis(all, scale);
        s.taps = most(s.taps, all.count);
        s.slots = most(s.slots, t.slots);
        s.span = most(s.span, t.span);
        low = any ? least(low, t.low) : t.low;
        high = any ? most(high, t.low + t.span) : t.low + t.span;
        any = true;
    }
    if (set.per[axis] > 1) s.span = high - low;  // merged classes share one tile
    return s;
}

index_t tile_floats(const Blocks& b, const Spread spread[3]) {
    index_t floats = b.per[0];
    for (int a = 0; a < 3; ++a) floats *= spread[a].slots * (b.per[a + 1] + spread[a].span);
    return floats;
}

// Cuts the window until the tile of one channel fits; outer axes first, they cost the least reuse.
bool cut_window(const ClassSet& set, const index_t scale[3], const Blocks& blocks, index_t tile_limit,
                index_t tap_limit, index_t groups[3], Spread spread[3]) {
    for (;;) {
        index_t taps = 1;
        for (int a = 0; a < 3; ++a) {
            spread[a] = axis_spread(set, a, groups[a], scale[a]);
            taps *= most(1, spread[a].taps);
        }
        const index_t floats = tile_floats(blocks, spread);
        if (floats <= tile_limit && taps <= tap_limit) return true;
        if (set.count > 1) return false;
        int axis = 0;
        while (axis < 3 && spread[axis].taps <= 1) ++axis;
        if (axis == 3) return true;  // a single tap: the tile is the block itself
        const index_t excess = most(ceil_div(floats, tile_limit), ceil_div(taps, tap_limit));
        const index_t count = set.axis[axis][0].taps.count;
        groups[axis] = clamp(groups[axis] * least(excess, 2), groups[axis] + 1, count);
    }
}

int rows_of_two_vectors(int lanes) { return lanes == 16 ? WIDE_PANEL_ROWS : PANEL_ROWS; }

size_t floats(index_t count) { return size_t(round_up(count, 32) + 32) * 4; }

// Blocks of about `target` pixels, whole rows, planes or images where they fit.
Blocks make_blocks(const index_t extent[4], index_t target, index_t column_multiple) {
    Blocks b;
    index_t inner = 1;  // pixels of everything inside the axis being cut
    for (int a = 3; a >= 0; --a) {
        b.extent[a] = extent[a];
        b.per[a] = even_part(extent[a], most(1, target / inner), a == 3 ? column_multiple : 1);
        if (b.per[a] > extent[a]) b.per[a] = extent[a];
        b.count[a] = ceil_div(extent[a], most(1, b.per[a]));
        inner = b.per[a] < extent[a] ? target + 1 : inner * most(1, extent[a]);
    }
    b.total = b.count[0] * b.count[1] * b.count[2] * b.count[3];
    return b;
}

void block_box(const Blocks& b, index_t number, Box* box) {
    for (int a = 3; a >= 0; --a) {
        const index_t index = number % b.count[a];
        number /= b.count[a];
        box->begin[a] = index * b.per[a];
        box->end[a] = least(b.extent[a], box->begin[a] + b.per[a]);
    }
}

}  // namespace cg
