// A fuzz target: any bytes as a tiling record, then any calls on the kernel object, in any order. Refused or run.
//
// The first byte: bit 0 the gradient, bit 1 the format, bit 2 NCDHW, bit 3 a record that is right with fields changed, else
// the next 280 bytes as they are. Then a byte per call, with the bytes of its arguments.
#include <cstdint>
#include <cstring>

#include "convgrad_tile.h"
#include "convgrad_tile/records.h"

namespace {

struct Bytes {
    const uint8_t* at;
    size_t left;
    uint8_t byte() { return left ? (--left, *at++) : 0; }
    void copy(void* to, size_t count) {
        const size_t some = count < left ? count : left;
        std::memcpy(to, at, some);
        at += some, left -= some;
    }
    // A small number mostly; now and then any.
    int64_t number() {
        const uint8_t kind = byte();
        if (kind < 200) return static_cast<int64_t>(byte()) * (kind % 8 == 0 ? 16 : 1) * (kind % 16 == 15 ? -1 : 1);
        int64_t any = 0;
        copy(&any, kind < 230 ? 2 : 8);
        return any;
    }
};

// One problem of 16 channels that passes every check: 2 planes of 4x4, a window of 1x3x3 with pads.
TConv3DBackpropInputTiling right_input() {
    TConv3DBackpropInputTiling t;
    t.batch = t.cout1 = t.cin1 = t.cout1G = t.cin1G = t.group = t.dk = 1;
    t.cin = t.cout = t.c0 = 16, t.c0Bits = 4, t.dout = t.di = 2, t.ho = t.wo = t.hi = t.wi = 4, t.hk = t.wk = 3;
    t.strideD = t.strideH = t.strideW = t.dilationD = t.dilationH = t.dilationW = 1;
    t.padUp = t.padDown = t.padLeft = t.padRight = 1;
    t.backpropPadUp = t.backpropPadDown = t.backpropPadLeft = t.backpropPadRight = 1;
    t.al0Pbuffer = t.bl0Pbuffer = t.al1Pbuffer = t.bl1Pbuffer = 2, t.cl0Pbuffer = 1;
    t.singleCoreGroup = t.singleCoreCout1 = t.singleCoreCin1 = t.singleCoreDin = t.singleCoreHo = 1;
    t.singleCoreCout = 16, t.singleCoreBatch = 1, t.singleCoreM = 16, t.singleCoreCin = 16;
    t.baseM = t.baseK = t.baseN = 16, t.baseD = t.baseBatch = t.baseGroup = t.stepM = t.stepN = t.stepBatch = t.stepGroup = 1;
    t.stepKa = t.stepKb = 9, t.iterateOrder = 1;
    return t;
}

TConv3DBpFilterTiling right_filter() {
    TConv3DBpFilterTiling t;
    t.batch = t.cin1G = t.cout1G = t.group = t.dk = 1, t.cin = t.cout = t.channelSize = 16;
    t.dout = t.di = 2, t.ho = t.wo = t.hi = t.wi = 4, t.hk = t.wk = 3;
    t.strideD = t.strideH = t.strideW = t.dilationD = t.dilationH = t.dilationW = 1;
    t.padUp = t.padDown = t.padLeft = t.padRight = 1;
    t.al0Pbuffer = t.bl0Pbuffer = t.al1Pbuffer = t.bl1Pbuffer = 2, t.cl0Pbuffer = 1;
    t.baseM = t.baseK = t.baseN = t.m0 = t.k0 = t.n0 = 16, t.stepM = t.stepN = t.stepKa = t.stepKb = 1, t.iterateOrder = 1;
    t.bl1Bound = 4 * 4 * 16, t.singleCoreDk = t.singleCoreGroup = 1, t.singleCoreCout = 16, t.singleCoreHo = 4;
    t.singleCoreBatch = 1, t.singleCoreCin = 16;
    return t;
}

struct Case {
    Bytes bytes;
    uint8_t flags;
    void* tensors[3];
};

constexpr size_t kElements = 1 << 14;

int body(void* context) {
    auto* one = static_cast<Case*>(context);
    Bytes& bytes = one->bytes;
    const int gradient = one->flags & 1 ? CGT_FILTER : CGT_INPUT, number = one->flags & 2 ? CGT_BFLOAT16 : CGT_HALF;
    unsigned char record[280] = {};
    const size_t size = gradient == CGT_INPUT ? sizeof(TConv3DBackpropInputTiling) : sizeof(TConv3DBpFilterTiling);
    if (one->flags & 8) {
        const TConv3DBackpropInputTiling input = right_input();
        const TConv3DBpFilterTiling filter = right_filter();
        std::memcpy(record, gradient == CGT_INPUT ? static_cast<const void*>(&input) : &filter, size);
        for (int changes = bytes.byte() % 4; changes > 0; --changes) {
            const size_t at = bytes.byte() % (size / 4) * 4;
            const auto value = static_cast<uint32_t>(bytes.number());
            std::memcpy(record + at, &value, sizeof value);
        }
    } else {
        bytes.copy(record, size);
    }
    const cgt_where where{"fuzz", 1};
    uint8_t first = 0;
    cgt_object* object = cgt_make(gradient, number, one->flags & 4 ? 1 : 0, where);
    auto view = [&](int tensor, int element_bytes) {
        return cgt_view{one->tensors[tensor], 0, bytes.number(), element_bytes};
    };
    int answer = object ? CGT_OK : CGT_STOP;
    for (int calls = 0; calls < 64 && bytes.left > 0 && answer != CGT_STOP; ++calls) {
        cgt_view pointer{};
        cgt_tile tile{};
        int more = 0;
        switch (bytes.byte() % 12) {
            case 0: answer = cgt_init(object, &first, bytes.byte() == 255 ? nullptr : record, where); break;
            case 1: {
                const auto m = static_cast<uint64_t>(bytes.number()), k = static_cast<uint64_t>(bytes.number());
                answer = cgt_set_single_shape(object, &first, m, k, static_cast<uint64_t>(bytes.number()), where);
                break;
            }
            case 2: answer = gradient == CGT_INPUT ? cgt_set_single_shape(object, &first, 16, 144, 16, where)
                                                   : cgt_set_single_shape(object, &first, 16, 144, 16, where); break;
            case 3: {
                const int64_t plane = bytes.number();
                answer = cgt_set_start(object, &first, plane, bytes.number(), where);
                break;
            }
            case 4: answer = cgt_set_start(object, &first, 0, gradient == CGT_INPUT ? -1 : 0, where); break;
            case 5: pointer = view(0, 2); answer = cgt_set_grad_output(object, &first, &pointer, where); break;
            case 6: pointer = view(1, 2); answer = cgt_set_other(object, &first, &pointer, where); break;
            case 7:
            case 8: answer = cgt_iterate(object, &first, 0, &tile, &more, where); break;
            case 9:
                pointer = view(2, gradient == CGT_INPUT ? 2 : 4);
                answer = cgt_get_tensor_c(object, &first, &pointer, bytes.byte() % 3, bytes.byte() % 8 == 0, where);
                break;
            case 10: first = bytes.byte() & 1; break;
            default: answer = cgt_end(object, &first, where);
        }
    }
    cgt_drop(object);
    return answer == CGT_STOP ? CGT_STOP : CGT_OK;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0) return 0;
    Case one{{data + 1, size - 1}, data[0], {}};
    for (void*& tensor : one.tensors) {
        tensor = cgt_gm_alloc(kElements * 4);
        if (!tensor) return 0;
    }
    const void* arguments[3] = {one.tensors[0], one.tensors[1], one.tensors[2]};
    cgt_launch("fuzz", 1, "1, gradOutput, other, result", arguments, 3, body, &one, {"fuzz", 2});
    for (void* tensor : one.tensors) cgt_gm_free(tensor, {"fuzz", 3});
    return 0;
}
