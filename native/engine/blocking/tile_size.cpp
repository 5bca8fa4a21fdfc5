// How large the tile of a block is, and where the window is cut so that it fits.
#include "blocking/tile_size.h"

namespace cg {

TileAxis tile_axis(const AxisTaps& taps, index_t scale) {
    TileAxis t;
    t.scale = scale;
    const index_t first = floor_div(taps.first_offset, scale);
    const index_t last = floor_div(taps.first_offset + (taps.count - 1) * taps.offset_step, scale);
    t.low = min(first, last);
    t.span = max(first, last) - t.low;
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
        s.taps = max(s.taps, all.count);
        s.slots = max(s.slots, t.slots);
        s.span = max(s.span, t.span);
        low = any ? min(low, t.low) : t.low;
        high = any ? max(high, t.low + t.span) : t.low + t.span;
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
            taps *= max(1, spread[a].taps);
        }
        const index_t floats = tile_floats(blocks, spread);
        if (floats <= tile_limit && taps <= tap_limit) return true;
        if (set.count > 1) return false;
        int axis = 0;
        while (axis < 3 && spread[axis].taps <= 1) ++axis;
        if (axis == 3) return true;  // a single tap: the tile is the block itself
        const index_t excess = max(ceil_div(floats, tile_limit), ceil_div(taps, tap_limit));
        const index_t count = set.axis[axis][0].taps.count;
        groups[axis] = clamp(groups[axis] * min(excess, 2), groups[axis] + 1, count);
    }
}

}  // namespace cg
