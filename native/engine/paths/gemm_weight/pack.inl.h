// Coarse values packed to [pixel][channel].
#pragma once

#include "blocking/tile.inl.h"

namespace cg {
namespace {

// to = panels of [pixel][panel channels], zero beyond `channels`. Says whether all values were finite.
static bool pack_coarse(const Source& s, const Box& box, index_t channel, index_t channels, index_t panel,
                        index_t pixels, float* to) {
    const index_t* st = s.tensor->stride;
    const index_t cells = box.end[3] - box.begin[3], lines = box.end[2] - box.begin[2];
    const bool along = st[4] == 1;  // pixels of a line lie side by side
    // Whole contiguous planes are one long row.
    const bool joined = st[3] == cells * st[4];
    const index_t runs = joined ? 1 : lines, length = joined ? lines * cells : cells;
    // Channels side by side: a few pixels at a time go to every panel while their cache lines are in L1.
    const index_t at_once = channels_touch(*s.tensor) ? 16 : max(1, length);
    if (channels % panel != 0) zero(to + channels / panel * panel * pixels, pixels * panel);
    bool finite = true;
    float* out = to;
    for (index_t n = box.begin[0]; n < box.end[0]; ++n)
        for (index_t d = box.begin[1]; d < box.end[1]; ++d)
            for (index_t r = 0; r < runs; ++r, out += length * panel) {
                const index_t line =
                    n * st[0] + channel * st[1] + d * st[2] + (box.begin[2] + r) * st[3] + box.begin[3] * st[4];
                for (index_t i = 0; i < length; i += at_once)
                    for (index_t c = 0; c < channels; c += panel) {
                        const index_t have = min(panel, channels - c), count = min(at_once, length - i);
                        const index_t from = line + c * st[1] + i * st[4];
                        float* first = out + c * pixels + i * panel;
                        finite &= along ? s.transposed(s, from, have, st[1], count, first, panel)
                                        : s.rows(s, from, count, st[4], have, st[1], first, panel);
                    }
            }
    return finite;
}

// Pixels become bf16 pairs with the one after them in their line of `cells`: every one, or every second of a line.
static void pair_pixels(index_t pixels, index_t cells, index_t panel, bool every, float* values, PairCheck* check) {
    PairCheck seen = *check;
    for (index_t j = 0; j < panel; j += LANES)
        for (index_t begin = 0; begin < pixels; begin += cells) {
            float* line = values + begin * panel + j;
            vf next = load(line);
            for (index_t c = 0; c < cells; ++c) {
                const vf here = next;
                next = c + 1 < cells ? load(line + (c + 1) * panel) : vf{};
                seen.see((uf)here);
                if (every || c % 2 == 0) store(line + c * panel, pair_of(here, next));
            }
        }
    *check = seen;
}

}  // namespace
}  // namespace cg
