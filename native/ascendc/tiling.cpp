// What GetTiling refuses, in the documented order, and the fields that follow at once from what was set.
#include "tiling.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <new>

#include "convgrad_tile/enums.inc"
#include "runtime/settings.h"
#include "say.h"

namespace convgrad {
namespace tile {
namespace {

using Data = AscendC::tiling::Conv3DBackpropFilterTilingData;
enum Format : uint32_t { CGT_CONVFORMAT_ENUMERATORS };
constexpr Format kFormatMax = MAX;
namespace dtype {
enum Dtype : uint32_t { CGT_CONVDTYPE_ENUMERATORS };
}

std::string name_of_format(uint32_t format) {
    static const char* const names[] = {CGT_CONVFORMAT_NAMES};
    return format < kFormatMax ? names[format] : say("format %u", format);
}
std::string name_of_dtype(uint32_t number) {
    static const char* const names[] = {CGT_CONVDTYPE_NAMES};
    return number < dtype::CONVDTYPEMAX ? names[number] : say("dtype %u", number);
}

// Numbers as the Python model prints them: (1, 2, 3).
std::string listed(const int64_t* values, int count) {
    std::string all = "(";
    for (int at = 0; at < count; ++at) all += (at ? ", " : "") + text(values[at]);
    return all + ")";
}
int64_t smallest(const int64_t* values, int count) { return *std::min_element(values, values + count); }
int64_t largest(const int64_t* values, int count) { return *std::max_element(values, values + count); }

struct Row {
    bool broken;
    std::string text;
};
std::string first_of(std::initializer_list<Row> rows) {
    for (const Row& row : rows)
        if (row.broken) return row.text;
    return "";
}

std::string refused_attributes(const cgt_tiling_request& r) {
    return first_of({
        {r.groups != 1, "groups must be 1, got " + text(r.groups)},
        {r.cores <= 0, "the number of cores must be above 0, got " + text(r.cores)},
        {smallest(r.padding, 6) < 0, "pads must be 0 or more, got " + listed(r.padding, 6)},
        {smallest(r.backprop_padding, 4) < 0, "backprop pads must be 0 or more, got " + listed(r.backprop_padding, 4)},
        {smallest(r.stride, 3) <= 0, "strides must be above 0, got " + listed(r.stride, 3)},
        {smallest(r.dilation, 3) <= 0, "dilations must be above 0, got " + listed(r.dilation, 3)},
    });
}

// Every size must fit its field.
Row too_large(const cgt_tiling_request& r, const Whole* sizes) {
    std::string found;
    auto look = [&](Whole size) {
        if (size >= Whole(int64_t(1) << 32)) found += (found.empty() ? "" : ", ") + text(size);
    };
    for (const int64_t one : {r.batch, r.cin, r.cout}) look(one);
    for (int axis = 0; axis < 3; ++axis) look(sizes[axis]);
    for (int axis = 0; axis < 3; ++axis) look(r.out[axis]);
    for (int axis = 0; axis < 3; ++axis) look(r.window[axis]);
    return {!found.empty(), "sizes must be below 2^32, got [" + found + "]"};
}

// The size given, or in transpose mode the one that follows from gradOutput and the output padding.
void input_sizes(const cgt_tiling_request& r, Whole* sizes) {
    for (int axis = 0; axis < 3; ++axis)
        sizes[axis] = !r.transposed
                          ? Whole(r.input[axis])
                          : (Whole(r.out[axis]) - 1) * r.stride[axis] - r.padding[2 * axis] - r.padding[2 * axis + 1] +
                                Whole(r.dilation[axis]) * (Whole(r.window[axis]) - 1) + r.output_padding[axis] + 1;
}

std::string refused_axis(const cgt_tiling_request& r, int axis, Whole size) {
    const std::string name(1, "DHW"[axis]);
    const Whole out = r.out[axis], window = r.window[axis], stride = r.stride[axis], dilation = r.dilation[axis];
    const Whole low = r.padding[2 * axis], high = r.padding[2 * axis + 1];
    if (size <= 0) return name + ": the size of gradInput must be above 0, got " + text(size);
    const Whole reach = (window - 1) * dilation + 1;
    const Whole rest = size + low + high - reach - (r.transposed ? r.output_padding[axis] : 0);
    const Whole expected = rest / stride + 1;
    if (out != expected || rest < 0)
        return name + ": gradOutput must be (size " + text(size) + " + pads " + text(low) + " + " + text(high) +
               " - reach " + text(reach) + ") / stride " + text(stride) + " + 1 = " + text(expected) + ", got " +
               text(out);
    if (axis == 0 && stride > window)
        return "D: stride must be at most the window, got stride " + text(stride) + ", window " + text(window);
    const int64_t most_stride = axis == 0 ? 255 : 63;
    if (stride > most_stride) return name + ": stride must be at most " + text(most_stride) + ", got " + text(stride);
    const Whole limit = least(255, window - 1);
    if (most(low, high) > limit)
        return name + ": each pad must be at most min(255, window - 1) = " + text(limit) + ", got " + text(low) +
               " and " + text(high);
    const Whole before = (window - 1) * dilation - low, after = size - out * stride + low;
    if (axis > 0 && (before < 0 || before > 255))
        return name + ": backprop pad (window - 1) * dilation - pad must be in 0...255, got " + text(before);
    if (after < -255 || after > 255)
        return name + ": size - out * stride + pad must be in -255...255, got " + text(after);
    return "";
}

std::string refused_input(const cgt_tiling_request& r, const Whole* sizes) {
    const std::string attributes = refused_attributes(r);
    if (!attributes.empty()) return attributes;
    const bool one_dtype =
        r.weight_dtype == r.input_dtype && r.weight_dtype == r.grad_output_dtype && r.weight_dtype <= dtype::BF16;
    const std::string shapes = first_of({
        {smallest(r.output_padding, 3) < 0, "output padding must be 0 or more, got " + listed(r.output_padding, 3)},
        {smallest(r.window, 3) <= 0, "SetWeightShape: the window must be above 0, got " + listed(r.window, 3)},
        {r.batch <= 0, "batch must be above 0, got " + text(r.batch)},
        {r.cout <= 0, "cout must be above 0, got " + text(r.cout)},
        {smallest(r.out, 3) <= 0, "SetGradOutputShape: sizes must be above 0, got " + listed(r.out, 3)},
        {r.cin <= 0, "cin must be above 0, got " + text(r.cin)},
        too_large(r, sizes),
        {r.weight_format != FRACTAL_Z_3D,
         "weight must have layout FRACTAL_Z_3D, got " + name_of_format(r.weight_format)},
        {r.grad_output_format != NDC1HWC0,
         "gradOutput must have layout NDC1HWC0, got " + name_of_format(r.grad_output_format)},
        {!one_dtype, "weight, input and gradOutput must share one dtype out of FLOAT16, BF16, FLOAT32, got ['" +
                         name_of_dtype(r.weight_dtype) + "', '" + name_of_dtype(r.input_dtype) + "', '" +
                         name_of_dtype(r.grad_output_dtype) + "']"},
    });
    if (!shapes.empty()) return shapes;
    for (int axis = 0; axis < 3; ++axis) {
        const std::string broken = refused_axis(r, axis, sizes[axis]);
        if (!broken.empty()) return broken;
    }
    const Whole plane = sizes[1] * sizes[2];
    return plane > UINT32_MAX ? "hi * wi must be at most 2^32 - 1, got " + text(plane) : "";
}

std::string refused_filter(const cgt_tiling_request& r) {
    const std::string attributes = refused_attributes(r);
    if (!attributes.empty()) return attributes;
    const Whole sizes[3] = {r.input[0], r.input[1], r.input[2]};
    auto pair = [](const int64_t* values) { return listed(values, 2); };
    const bool one_dtype =
        r.input_dtype == r.grad_output_dtype && (r.input_dtype == dtype::FLOAT16 || r.input_dtype == dtype::BF16);
    return first_of({
        {smallest(r.window, 3) <= 0, "the window must be above 0, got " + listed(r.window, 3)},
        {r.window[2] > 32, "wk must be at most 32, got " + text(r.window[2])},
        {r.batch <= 0, "batch must be above 0, got " + text(r.batch)},
        {r.cin <= 0 || smallest(r.input, 3) <= 0,
         "input sizes must be above 0, got " + text(r.cin) + ", " + listed(r.input, 3)},
        {r.cout <= 0 || smallest(r.out, 3) <= 0,
         "gradOutput sizes must be above 0, got " + text(r.cout) + ", " + listed(r.out, 3)},
        too_large(r, sizes),
        {r.weight_format != FRACTAL_Z_3D, "gradWeight must have layout FRACTAL_Z_3D"},
        {r.input_format != NDC1HWC0, "input must have layout NDC1HWC0"},
        {largest(r.stride + 1, 2) > 63, "strides of rows and columns must be at most 63, got " + pair(r.stride + 1)},
        {largest(r.dilation + 1, 2) > 255, "dilations H and W must be at most 255, got " + pair(r.dilation + 1)},
        {largest(r.padding + 2, 4) > 255,
         "pads of rows and columns must be at most 255, got " + listed(r.padding + 2, 4)},
        {largest(r.window + 1, 2) > 511, "hk and wk must be at most 511, got " + pair(r.window + 1)},
        {!one_dtype, "input and gradOutput must both be FLOAT16 or both BF16, got " + name_of_dtype(r.input_dtype) +
                         " and " + name_of_dtype(r.grad_output_dtype)},
    });
}

template <class Record> void shared_fields(const cgt_tiling_request& r, const Whole* sizes, Record* t) {
    auto field = [](Whole value) { return static_cast<uint32_t>(value.clamped()); };
    t->batch = field(r.batch), t->cin = field(r.cin), t->cout = field(r.cout);
    t->dout = field(r.out[0]), t->ho = field(r.out[1]), t->wo = field(r.out[2]);
    t->di = field(sizes[0]), t->hi = field(sizes[1]), t->wi = field(sizes[2]);
    t->dk = field(r.window[0]), t->hk = field(r.window[1]), t->wk = field(r.window[2]);
    t->strideD = field(r.stride[0]), t->strideH = field(r.stride[1]), t->strideW = field(r.stride[2]);
    t->dilationD = field(r.dilation[0]), t->dilationH = field(r.dilation[1]), t->dilationW = field(r.dilation[2]);
    t->padFront = field(r.padding[0]), t->padBack = field(r.padding[1]);
    t->padUp = field(r.padding[2]), t->padDown = field(r.padding[3]);
    t->padLeft = field(r.padding[4]), t->padRight = field(r.padding[5]);
    t->group = t->cl0Pbuffer = t->stepM = t->stepN = t->iterateOrder = t->singleCoreGroup = 1;
    t->singleCoreBatch = 1;
    t->al0Pbuffer = t->bl0Pbuffer = 2;
    t->hf32Flag = static_cast<decltype(t->hf32Flag)>(r.hf32);
}

// Whether gradInput must be zeroed before the tiles are stored.
bool needs_zeroing(const cgt_tiling_request& r, const InputRecord& t) {
    const Whole rest_d = (Whole(t.di) + t.padFront + t.padBack - (Whole(t.dk) - 1) * t.dilationD - 1) % t.strideD;
    const Whole rest_h = (Whole(t.hi) + t.padUp + t.padDown - (Whole(t.hk) - 1) * t.dilationH - 1) % t.strideH;
    const Whole head = (Whole(t.dk) - 1) * t.dilationD - t.padFront;
    return r.zeroed_before == 1 || rest_d > t.padBack || rest_h > t.padDown || t.strideH > t.hk || t.dilationD > 1 ||
           (r.transposed && (t.backpropPadDown > 0 || head > 0)) || some_elements_stay_unwritten(t);
}

InputRecord input_fields(const cgt_tiling_request& r, const Whole* sizes) {
    InputRecord t;
    shared_fields(r, sizes, &t);
    auto field = [](Whole value) { return static_cast<uint32_t>(value.clamped()); };
    t.c0 = r.input_dtype == dtype::FLOAT32 ? 8 : 16, t.c0Bits = t.c0 == 8 ? 3 : 4;
    t.cout1 = t.cout1G = field(ceil_div(t.cout, t.c0)), t.cin1 = t.cin1G = field(ceil_div(t.cin, t.c0));
    t.backpropPadTail = field(trailing_pad_of(t.di, t.dout, t.strideD, t.padFront));
    t.backpropPadUp = field((Whole(t.hk) - 1) * t.dilationH - t.padUp);
    t.backpropPadDown = field(trailing_pad_of(t.hi, t.ho, t.strideH, t.padUp));
    t.backpropPadLeft = field((Whole(t.wk) - 1) * t.dilationW - t.padLeft);
    t.backpropPadRight = field(trailing_pad_of(t.wi, t.wo, t.strideW, t.padLeft));
    t.baseD = t.baseBatch = t.baseGroup = t.stepBatch = t.stepGroup = t.singleCoreDin = t.singleCoreHo = 1;
    t.initOutputFlag = needs_zeroing(r, t);
    return t;
}

Platform platform_of(const cgt_tiling_request& r) {
    auto size = [](uint64_t given, int64_t otherwise) {
        return given == 0 ? otherwise : static_cast<int64_t>(std::min<uint64_t>(given, INT32_MAX));
    };
    const Sizes usual;
    Platform platform;
    platform.l1Size = std::min(size(r.l1Size, usual.l1Size), usual.l1Size);
    platform.l0ASize = size(r.l0ASize, usual.l0ASize), platform.l0BSize = size(r.l0BSize, usual.l0BSize);
    platform.l0CSize = size(r.l0CSize, usual.l0CSize), platform.cores = r.cores;
    return platform;
}

std::string words_of(const cgt_tiling_request& r, const Platform& p) {
    return say(
        "PlatformInfo(l1Size=%lld, l0ASize=%lld, l0BSize=%lld, l0CSize=%lld, ubSize=%llu, btSize=1024, "
        "fbSize=2048, l2Size=150994944, cores=%lld)",
        (long long)p.l1Size, (long long)p.l0ASize, (long long)p.l0BSize, (long long)p.l0CSize,
        (unsigned long long)r.ubSize, (long long)p.cores);
}

std::string input_tiling(const cgt_tiling_request& r, void* record) {
    Whole sizes[3] = {0, 0, 0};
    input_sizes(r, sizes);
    std::string refused = refused_input(r, sizes);
    if (!refused.empty()) return refused;
    InputRecord t = input_fields(r, sizes);
    const Platform platform = platform_of(r);
    refused = cut_input(&t, platform, words_of(r, platform));
    if (refused.empty()) refused = check(t, platform.sizes()).text;
    if (refused.empty()) std::memcpy(record, &t, sizeof t);
    return refused;
}

std::string filter_tiling(const cgt_tiling_request& r, void* record) {
    std::string refused = refused_filter(r);
    if (!refused.empty()) return refused;
    const Whole sizes[3] = {r.input[0], r.input[1], r.input[2]};
    Data data;
    FilterRecord& t = data.dwTiling;
    shared_fields(r, sizes, &t);
    t.cin1G = static_cast<uint32_t>(ceil_div(t.cin, 16).clamped());
    t.cout1G = static_cast<uint32_t>(ceil_div(t.cout, 16).clamped());
    t.channelSize = t.m0 = t.k0 = t.n0 = 16, t.singleCoreDk = 1;
    const Platform platform = platform_of(r);
    refused = cut_filter(&data, platform);
    if (refused.empty()) refused = check(t, platform.sizes()).text;
    if (refused.empty()) std::memcpy(record, &data, sizeof data);
    return refused;
}

#include "../generated/tile_platforms.inc"

std::string& reason() {
    static thread_local std::string last;
    return last;
}

}  // namespace
}  // namespace tile
}  // namespace convgrad

using namespace convgrad::tile;

extern "C" {

int cgt_get_tiling(int gradient, const cgt_tiling_request* request, void* record) {
    try {
        reason() = gradient == CGT_INPUT ? input_tiling(*request, record) : filter_tiling(*request, record);
    } catch (const std::bad_alloc&) {
        reason().assign("no memory");
    }
    if (reason().empty()) return CGT_OK;
    const char* log = std::getenv("CONVGRAD_TILE_LOG");
    if (log && std::strcmp(log, "1") == 0) std::fprintf(stderr, "GetTiling: %s\n", reason().c_str());
    return CGT_REFUSED;
}

const char* convgrad_tile_reason(void) { return reason().c_str(); }

int cgt_platform(const char* name, cgt_platform_facts* facts) {
    const int product = name && *name ? convgrad::product_named(name) : convgrad::settings().product;
    for (const PlatformRow& row : kPlatforms)
        if (row.product == product) return *facts = row.facts, CGT_OK;
    return CGT_REFUSED;
}

}  // extern "C"
