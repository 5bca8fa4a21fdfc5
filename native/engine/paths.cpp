// The table of paths, in the order in which they are tried: reading it is reading the dispatch.
#include "paths.h"

#include "paths/depthwise_channels/plan.h"
#include "paths/few_channels/plan.h"
#include "paths/gemm_columns/plan.h"
#include "paths/gemm_data/plan.h"

namespace cg {
namespace {

bool always(const cg_problem&, int) { return true; }
bool single_precision(const cg_problem& p, int contraction) { return !uses_double(p, contraction); }
// Below this the tables and tiles of the other paths cost more than the sum itself.
bool small_or_double(const cg_problem& p, int contraction) {
    return uses_double(p, contraction) || multiplications(p) < 4096;
}
bool never(const cg_problem&, int) { return false; }
bool single_precision_gather(const cg_problem& p, int contraction) {
    return !uses_double(p, contraction) && contraction != TO_WEIGHT;
}
bool depthwise(const cg_problem& p, int contraction) {
    // Data gradients hold the window of a channel whole: beyond this the other paths cut it.
    const double taps = double(p.window[0]) * double(p.window[1]) * double(p.window[2]);
    return is_depthwise(p) && !uses_double(p, contraction) && (contraction == TO_WEIGHT || taps <= 1 << 20);
}
bool side_by_side(const cg_problem& p, int contraction) {
    const cg_tensor& from = contraction == TO_FINE ? p.coarse_operand : p.fine_operand;
    const cg_tensor& to = contraction == TO_WEIGHT ? p.coarse_operand : result_of(p, contraction);
    return from.stride[1] == 1 && to.stride[1] == 1 && channels_fit(p, contraction);
}
bool depthwise_channels(const cg_problem& p, int contraction) {
    return depthwise(p, contraction) && side_by_side(p, contraction);
}
bool grouped_channels(const cg_problem& p, int contraction) {
    const index_t channels_per_group = p.fine_channels;
    return (channels_per_group == 2 || channels_per_group == 4) && p.coarse_channels == channels_per_group &&
           !uses_double(p, contraction) && side_by_side(p, contraction);
}
// Lines of at least a few vectors of cells under a window that is not too large; taps of data gradients must be
// neighbours.
bool lines_of_groups(const cg_problem& p, int contraction) {
    const cg_tensor& from = contraction == TO_FINE ? p.coarse_operand : p.fine_operand;
    const double taps = double(p.window[0]) * double(p.window[1]) * double(p.window[2]);
    if (p.groups * p.fine_channels < 16 || from.stride[4] == 1) return false;
    if (contraction == TO_WEIGHT) return taps >= 2 && taps <= 27 && p.coarse[2] >= 12;
    const index_t line = contraction == TO_FINE ? p.fine[2] / p.stride[2] : p.coarse[2];
    return taps <= 12 && line >= 24 && p.dilation[2] == 1 && (contraction == TO_FINE || p.stride[2] == 1);
}
// Sums of many taps over a plane that stays near: copying its channels to planes of their own costs less than it saves.
bool rows_beat_channels(const cg_problem& p) {
    const double taps = double(p.window[0]) * double(p.window[1]) * double(p.window[2]);
    return taps >= 25 && p.window[2] < taps && p.stride[1] == 1 && p.stride[2] == 1 &&
           double(p.coarse[1]) * double(p.coarse[2]) <= 4096;
}
// With a single channel or a single column both strides may be 1: rows are as good.
bool prefers_channels(const cg_problem& p, int contraction) {
    const cg_tensor& from = contraction == TO_FINE ? p.coarse_operand : p.fine_operand;
    return p.groups >= 8 && from.stride[4] != 1 && !(contraction == TO_WEIGHT && rows_beat_channels(p));
}
bool few_pixels(const cg_problem& p, int contraction) {
    return contraction == TO_WEIGHT && !uses_double(p, contraction) && columns_fit(p);
}
bool few_channels(const cg_problem& p, int contraction) {
    return contraction == TO_WEIGHT && !uses_double(p, contraction) && few_fit(p);
}
bool enough_pixels(const cg_problem& p, int) { return few_beat_panels(p); }
bool several_channels(const cg_problem& p, int) { return p.coarse_channels >= 4 && p.groups <= 4; }
bool small_planes(const cg_problem& p, int contraction) {
    const cg_tensor& from = contraction == TO_FINE ? p.coarse_operand : p.fine_operand;
    const cg_tensor& to = result_of(p, contraction);
    return (from.stride[4] == 1 || from.stride[1] == 1) && (to.stride[4] == 1 || to.stride[1] == 1) &&
           images_beat_packing(p, contraction == TO_FINE);
}
bool reads_tile(const cg_problem& p, int contraction) { return reading_beats_packing(p, contraction == TO_FINE); }

}  // namespace

const Path path_table[PATHS] = {
    {"choose", "the first path below that prefers the problem", never, never},
    {"plain", "float64, fewer than 4096 multiplications, or inf and NaN next to padding", always, small_or_double},
    {"depthwise channels", "one channel per group, channels side by side in memory", depthwise_channels,
     prefers_channels},
    {"grouped channels", "two or four channels per group, side by side in memory", grouped_channels, lines_of_groups},
    {"depthwise rows", "one channel per group", depthwise, always},
    {"gemm columns", "weight gradients summed over at most 256 pixels: the cells under every tap in rows", few_pixels,
     several_channels},
    {"few channels",
     "weight gradients of up to twelve output channels per group (transposed: input channels): vectors along the "
     "pixels",
     few_channels, enough_pixels},
    {"gemm images",
     "data gradients of small planes, or of rows that fill whole vectors: images side by side, taps on padding left "
     "out",
     single_precision_gather, small_planes},
    {"gemm direct", "data gradients whose few channels or narrow halo let the matrix product read the tile itself",
     single_precision_gather, reads_tile},
    {"gemm packed", "everything else in float32: the matrix product over packed panels", single_precision, always},
};

int choose_path(const cg_problem& p, int contraction) {
    if (p.path != PATH_CHOOSE) return p.path;
    for (int path = 1; path < PATHS; ++path)
        if (path_table[path].accepts(p, contraction) && path_table[path].prefers(p, contraction)) return path;
    return PATH_PLAIN;
}

}  // namespace cg
