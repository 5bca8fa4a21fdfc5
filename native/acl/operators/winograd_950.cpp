// F(3, 2) nested: tiles of 2x2 gradients, windows of 4x4 of the zero-padded input, step 2. Per axis:
//
//     input     x0-x2  x1+x2  x2-x1  x1-x3        gradient  g0  g0+g1  g0-g1  -g1
//     output    m0 + (m1+m2)/2    (m1-m2)/2    (m1+m2)/2 + m3
//
// A band of tile rows of one sample is summed by the engine as the weight gradient of a 1x1 window with a group for
// each of the 16 points; bands are added one after the other, and after at most 32768 tiles the sums are transformed
// and added to the result.
#include "operators/winograd_950.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "acl/acl_base.h"
#include "operators/facts.h"
#include "runtime/runtime.h"

namespace convgrad::winograd_950 {
namespace {

constexpr int64_t kSegment = 32768;        // tiles after which sums start again
constexpr int64_t kBandNumbers = 1 << 24;  // transformed numbers of a band: 64 MiB
constexpr int64_t kMostTiles = 512000, kMostPadding = 8, kBlock = 64, kLeastBlocks = 16;
constexpr int kPoints = 16;

int64_t half(int64_t size) { return (size + 1) / 2; }

bool channels_first(const std::optional<TensorSpec>& tensor) {
    const int format = tensor->format;
    return format == ACL_FORMAT_NCL || format == ACL_FORMAT_NCHW || format == ACL_FORMAT_NCDHW;
}

bool is_float32(const std::optional<TensorSpec>& tensor) { return tensor && tensor->dtype == ACL_FLOAT; }

// One sample's plane of a channel, and zeros around it.
struct Plane {
    const float* data;
    int64_t height, width, row, column;  // sizes and strides

    float at(int64_t i, int64_t j) const {
        return i < 0 || j < 0 || i >= height || j >= width ? 0.0f : data[i * row + j * column];
    }
};

void transform_input(const float x[4], float out[4]) {
    out[0] = x[0] - x[2], out[1] = x[1] + x[2], out[2] = x[2] - x[1], out[3] = x[1] - x[3];
}

void transform_gradient(const float g[2], float out[4]) {
    out[0] = g[0], out[1] = g[0] + g[1], out[2] = g[0] - g[1], out[3] = -g[1];
}

void transform_output(const float m[4], float out[3]) {
    const float both = 0.5f * (m[1] + m[2]);
    out[0] = m[0] + both, out[1] = 0.5f * (m[1] - m[2]), out[2] = both + m[3];
}

// The 16 points of every tile of `rows` tile rows of a plane, at points[p * distance + tile]; pieces of Size, step 2,
// from (top, left) on. Down first, then across.
template <int Size, class Transform>
void transform_tiles(const Plane& plane, int64_t top, int64_t left, int64_t rows, int64_t columns, int64_t distance,
                     Transform transform, float* points) {
    for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j) {
            float down[Size][4], line[Size], across[4];
            for (int b = 0; b < Size; ++b) {
                for (int a = 0; a < Size; ++a) line[a] = plane.at(top + 2 * i + a, left + 2 * j + b);
                transform(line, down[b]);
            }
            for (int p = 0; p < 4; ++p) {
                for (int b = 0; b < Size; ++b) line[b] = down[b][p];
                transform(line, across);
                for (int q = 0; q < 4; ++q) points[(4 * p + q) * distance + i * columns + j] = across[q];
            }
        }
}

// sums (16, outer, inner) of tiles (16, outer, count) and windows (16, inner, count).
int multiply(std::vector<float>& tiles, std::vector<float>& windows, int64_t outer, int64_t inner, int64_t count,
             int threads, float* sums) {
    cg_problem one{};
    one.batch = 1;
    one.groups = kPoints;
    one.fine_channels = inner;
    one.coarse_channels = outer;
    for (int axis = 0; axis < 3; ++axis)
        one.fine[axis] = one.coarse[axis] = one.window[axis] = one.stride[axis] = one.dilation[axis] = 1;
    one.fine[2] = one.coarse[2] = count;
    one.fine_operand = {windows.data(), CG_FLOAT32, CG_FLOAT32, {kPoints * inner * count, count, 0, 0, 1}};
    one.coarse_operand = {tiles.data(), CG_FLOAT32, CG_FLOAT32, {kPoints * outer * count, count, 0, 0, 1}};
    one.to_weight = {sums, CG_FLOAT32, CG_FLOAT32, {inner, 1, 0, 0, 1}};
    one.threads = threads;
    return cg_run(&one);
}

// Adds the nine taps of the sums to result (outer, inner, 9), and clears the sums.
void add_taps(std::vector<float>& sums, std::vector<float>& result) {
    const size_t pairs = sums.size() / kPoints;
    for (size_t pair = 0; pair < pairs; ++pair) {
        float down[4][3], line[4], taps[3];
        for (int q = 0; q < 4; ++q) {
            for (int p = 0; p < 4; ++p) line[p] = sums[size_t(4 * p + q) * pairs + pair];
            transform_output(line, down[q]);
        }
        for (int row = 0; row < 3; ++row) {
            for (int q = 0; q < 4; ++q) line[q] = down[q][row];
            transform_output(line, taps);
            for (int column = 0; column < 3; ++column) result[pair * 9 + size_t(3 * row + column)] += taps[column];
        }
    }
    std::fill(sums.begin(), sums.end(), 0.0f);
}

// The samples [from, to), band after band: result (outer, inner, 9).
int sum_samples(const cg_problem& call, int64_t from, int64_t to, std::vector<float>& result) {
    const int64_t outer = call.coarse_channels, inner = call.fine_channels;
    const int64_t rows = half(call.coarse[1]), columns = half(call.coarse[2]);
    const int64_t most = std::min(kSegment, kBandNumbers / (kPoints * (outer + inner)));  // tiles of a band
    const int64_t band = std::max<int64_t>(1, most / std::max<int64_t>(columns, 1));
    std::vector<float> sums(size_t(outer * inner * kPoints)), part(sums.size());
    result.assign(size_t(outer * inner * 9), 0.0f);
    std::vector<float> tiles, windows;
    const auto plane = [](const cg_tensor& t, int64_t n, int64_t channel, const int64_t* size) {
        const auto* data = static_cast<const float*>(t.data) + n * t.stride[0] + channel * t.stride[1];
        return Plane{data, size[1], size[2], t.stride[3], t.stride[4]};
    };
    int64_t done = 0;
    for (int64_t n = from; n < to; ++n)
        for (int64_t first = 0; first < rows; first += band) {
            const int64_t height = std::min(band, rows - first), count = height * columns;
            if (done && done + count > kSegment) {
                add_taps(sums, result);
                done = 0;
            }
            windows.resize(size_t(kPoints * inner * count));
            tiles.resize(size_t(kPoints * outer * count));
            for (int64_t c = 0; c < inner; ++c)
                transform_tiles<4>(plane(call.fine_operand, n, c, call.fine), 2 * first - call.pad[1], -call.pad[2],
                                   height, columns, inner * count, transform_input, &windows[size_t(c * count)]);
            for (int64_t c = 0; c < outer; ++c)
                transform_tiles<2>(plane(call.coarse_operand, n, c, call.coarse), 2 * first, 0, height, columns,
                                   outer * count, transform_gradient, &tiles[size_t(c * count)]);
            if (const int status = multiply(tiles, windows, outer, inner, count, call.threads, part.data()))
                return status;
            for (size_t i = 0; i < sums.size(); ++i) sums[i] += part[i];
            done += count;
        }
    add_taps(sums, result);
    return CG_OK;
}

// Level 3: the tree over samples, the largest power of two below their number on the left.
int sum_by_tree(const cg_problem& call, int64_t from, int64_t to, std::vector<float>& result) {
    if (to - from == 1) return sum_samples(call, from, to, result);
    int64_t half = 1;
    while (2 * half < to - from) half *= 2;
    std::vector<float> right;
    if (const int status = sum_by_tree(call, from, from + half, result)) return status;
    if (const int status = sum_by_tree(call, from + half, to, right)) return status;
    for (size_t i = 0; i < result.size(); ++i) result[i] += right[i];
    return CG_OK;
}

}  // namespace

bool is_taken(const Request& r, const cg_problem& p) {
    if (std::strcmp(CG_PRODUCT_KEYS[r.product], "950") != 0 || !r.runtime_conformance) return false;
    if (r.op != Operator::ConvolutionBackward || r.input->shape.size() < 4) return false;
    const auto pads = pad_pairs(*r.padding, int64_t(r.input->shape.size()) - 2);
    for (const auto& [low, high] : *pads)
        if (low != high) return false;
    const bool plain = channels_first(r.grad_output) && channels_first(r.input) && channels_first(r.weight);
    const bool wide = is_float32(r.grad_output) && is_float32(r.input) && is_float32(r.weight) &&
                      is_float32(r.grad_weight) && r.math == 0;  // 1 and 3: HF32, 2: float16 operands
    const bool flat = p.fine[0] == 1 && p.coarse[0] == 1 && p.window[0] == 1 && p.pad[0] == 0;
    if (!plain || !wide || !flat || p.groups != 1 || p.window[1] != 3 || p.window[2] != 3) return false;
    for (int axis = 0; axis < 3; ++axis)
        if (p.stride[axis] != 1 || p.dilation[axis] != 1 || p.pad[axis] > kMostPadding) return false;
    const bool padded = p.pad[1] || p.pad[2];
    // A window over the whole input is a matmul, which is asked for first.
    if (!r.transposed && !padded && p.fine[1] == 3 && p.fine[2] == 3) return false;
    const int64_t tiles = half(p.coarse[1]) * half(p.coarse[2]);
    if (__int128(tiles) * p.batch > kMostTiles) return false;
    if ((p.coarse_channels / kBlock) * (p.fine_channels / kBlock) < kLeastBlocks) return false;
    if (p.fine[1] < 3 || p.fine[2] < 3) return false;
    const int64_t valid = half(p.fine[1] - 2) * half(p.fine[2] - 2);
    return float(valid) / float(std::max<int64_t>(tiles, 1)) >= 0.5f;
}

int run(const cg_problem& call) {
    const int64_t outer = call.coarse_channels, inner = call.fine_channels;
    std::vector<float> result;
    const auto sum = call.deterministic == CG_TREE_LEVEL ? sum_by_tree : sum_samples;
    if (const int status = sum(call, 0, call.batch, result)) return status;
    const cg_tensor& to = call.to_weight;
    for (int64_t c = 0; c < outer; ++c)
        for (int64_t f = 0; f < inner; ++f)
            for (int64_t tap = 0; tap < 9; ++tap)
                static_cast<float*>(
                    to.data)[c * to.stride[0] + f * to.stride[1] + tap / 3 * to.stride[3] + tap % 3 * to.stride[4]] =
                    result[size_t((c * inner + f) * 9 + tap)];
    return CG_OK;
}

}  // namespace convgrad::winograd_950
