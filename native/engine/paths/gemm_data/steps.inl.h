// Which weights meet which cells, where the microkernel reads the tile itself.
#pragma once

#include "paths/gemm_data/pack_weights.inl.h"

namespace cg {
namespace {

// Steps of the taps within a box of the window, for every channel of a K block.
struct StepList {
    Step* steps;
    const int* offsets;      // tile cell of every tap of the class, first channel
    const Gather* in_place;  // whose weights are read where they lie; null when packed
    bool paired;
    index_t k_channels, channel;
    AxisTaps taps[3];
    index_t low[3], high[3];  // smallest and largest offset of a tap
    TapRange in[3];
    index_t length;

    // The taps of a class; nothing is listed yet.
    StepList(Step* to, const int* tap_cells, const Gather* weights_in_place, bool in_order_of_pairs, index_t channels,
             index_t channel_floats, const AxisTaps class_taps[3])
        : steps(to),
          offsets(tap_cells),
          in_place(weights_in_place),
          paired(in_order_of_pairs),
          k_channels(channels),
          channel(channel_floats),
          length(0) {
        for (int a = 0; a < 3; ++a) {
            taps[a] = class_taps[a];
            const index_t first = taps[a].first_offset, last = first + (taps[a].count - 1) * taps[a].offset_step;
            low[a] = min(first, last);
            high[a] = max(first, last);
            in[a] = TapRange{-1, -1};
        }
    }

    void describe(const TapRange box[3]) {
        bool same = true;
        for (int a = 0; a < 3; ++a) {
            same &= in[a].begin == box[a].begin && in[a].end == box[a].end;
            in[a] = box[a];
        }
        if (same) return;
        const index_t met = (in[0].end - in[0].begin) * (in[1].end - in[1].begin) * (in[2].end - in[2].begin);
        const index_t all = tap_count(taps);
        index_t number = 0;
        for (index_t z = in[0].begin; z < in[0].end; ++z)
            for (index_t y = in[1].begin; y < in[1].end; ++y)
                for (index_t x = in[2].begin; x < in[2].end; ++x, ++number) {
                    const index_t tap = (z * taps[1].count + y) * taps[2].count + x;
                    const index_t at = in_place != nullptr ? weight_offset(*in_place, taps, z, y, x) : 0;
                    list_tap(tap, all, number, met, at);
                }
        length = met * k_channels;
    }

    // Puts the steps of a tap, number `number` of the `met` ones, where step_number says; packed weights lie in the
    // order of steps that meet all taps, weights in place at `at`.
    void list_tap(index_t tap, index_t all, index_t number, index_t met, index_t at) {
        const index_t twos = paired ? k_channels / 2 * 2 : 0;  // channels that go two by two
        index_t cell = offsets[step_number(k_channels, all, paired, 0, tap)],
                weight = in_place != nullptr ? at : 2 * tap;
        const index_t second = in_place != nullptr ? in_place->weight_in : 1;
        const index_t next = in_place != nullptr ? 2 * in_place->weight_in : 2 * all;
        Step* to = steps + 2 * number;
        for (index_t r = 0; r < twos; r += 2, to += 2 * met, weight += next, cell += 2 * channel) {
            to[0] = Step{int(weight), int(cell)};
            to[1] = Step{int(weight + second), int(cell + channel)};
        }
        for (index_t r = twos; r < k_channels; ++r, cell += channel)
            steps[r * met + number] =
                Step{int(in_place != nullptr ? at + r * in_place->weight_in : r * all + tap), int(cell)};
    }
};

}  // namespace
}  // namespace cg
