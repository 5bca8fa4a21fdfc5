// Queues, buffers and copies, element by element; with an argument, one mistake.
#include "kernel_operator.h"
#include "tikicpulib.h"

#include <cstdio>
#include <cstring>

using namespace AscendC;

static const char *mistake = "";
static bool wrong = false;
static void expect(bool holds, int line) {
    if (!holds) std::printf("line %d\n", line), wrong = true;
}
#define EXPECT(condition) expect(condition, __LINE__)
static bool is(const char *name) { return std::strcmp(mistake, name) == 0; }

__global__ __aicore__ void copies(GM_ADDR numbers, GM_ADDR results) {
    GlobalTensor<float> from, to;
    from.SetGlobalBuffer((__gm__ float *)numbers, 64);
    to.SetGlobalBuffer((__gm__ float *)results);
    TPipe pipe;
    TQue<QuePosition::VECIN, 2> que;
    TBuf<TPosition::VECCALC> buf;
    pipe.InitBuffer(que, 2, 256);
    pipe.InitBuffer(buf, 512);
    EXPECT(GetTPipePtr() == &pipe);
    LocalTensor<float> a = que.AllocTensor<float>();
    EXPECT(a.GetSize() == 64 && a.GetValue(3) != a.GetValue(3));  // fresh memory is NaN
    DataCopy(a, from, 64);
    que.EnQue(a);
    a = que.DeQue<float>();
    EXPECT(a.GetValue(63) == 63);
    LocalTensor<float> b = que.AllocTensor<float>();
    if (is("alloc")) que.AllocTensor<float>();
    if (is("deque")) que.DeQue<float>();
    Duplicate<float>(b, -1.0f, 64);
    DataCopy(b, from, DataCopyParams(2, 1, 2, 1));  // 8 of every 24, to every second block
    EXPECT(b.GetValue(7) == 7 && b.GetValue(8) == -1 && b.GetValue(16) == 24 && b.GetValue(23) == 31);
    Duplicate<float>(b, -1.0f, 64);
    DataCopyPad(b, from, DataCopyExtParams(2, 12, 8, 0, 0), DataCopyPadExtParams<float>(true, 1, 2, 9.0f));
    EXPECT(b.GetValue(0) == 9 && b.GetValue(1) == 0 && b.GetValue(3) == 2 && b.GetValue(5) == 9 && b.GetValue(6) == -1);
    EXPECT(b.GetValue(8) == 9 && b.GetValue(9) == 5);
    DataCopyPad(to, b, DataCopyExtParams(2, 12, 0, 4, 0));  // three of each block, an element left out between
    EXPECT(to.GetValue(0) == 9 && to.GetValue(2) == 1 && to.GetValue(4) == 9 && to.GetValue(5) == 5);
    SetAtomicAdd<float>();
    DataCopyPad(to, a[10], DataCopyParams(1, 4, 0, 0));
    SetAtomicNone();
    EXPECT(to.GetValue(0) == 19);
    LocalTensor<half> halves = buf.Get<half>(), rows[16], columns[16];
    for (int i = 0; i < 256; ++i) halves.SetValue(i, float(i));
    TBuf<TPosition::VECCALC> other;
    pipe.InitBuffer(other, 512);
    LocalTensor<half> turned = other.Get<half>();
    for (int i = 0; i < 16; ++i) rows[i] = halves[16 * i], columns[i] = turned[16 * i];
    TransDataTo5HD<half>(columns, rows, TransDataTo5HDParams(false, false, 1, 0, 0));
    for (int i = 0; i < 256; ++i) EXPECT(float(turned.GetValue(i)) == float(i % 16 * 16 + i / 16));
    TBuf<TPosition::A2> a2;
    TBuf<TPosition::B2> b2;
    TBuf<TPosition::CO1> c;
    pipe.InitBuffer(a2, 1024), pipe.InitBuffer(b2, 1024), pipe.InitBuffer(c, 2048);
    LocalTensor<half> l0a = a2.Get<half>(), l0b = b2.Get<half>();
    LocalTensor<float> l0c = c.Get<float>();
    InitConstValue(l0a, InitConstValueParams<half>(1, 2, 0, half(2)));
    InitConstValue(l0b, InitConstValueParams<half>(1, 2, 0, half(0)));
    MmadParams product(16, 32, 16, 0, false, true);
    MmadImpl(l0c, l0a, l0b, product);
    FixpipeParamsV220 store(32, 2, 16, 32, false);
    Fixpipe<float, float, CFG_ROW_MAJOR>(to, l0c, store);
    for (int i = 0; i < 64; ++i) EXPECT(to.GetValue(i) == 0);
    InitConstValue(l0b, InitConstValueParams<half>(1, 2, 0, half(3)));
    product.cmatrixInitVal = false;
    MmadImpl(l0c, l0a, l0b, product);
    EXPECT(l0c.GetValue(5) == 96 && l0c.GetValue(511) == 96);
    SetFlag<HardEvent::MTE2_V>(GetTPipePtr()->FetchEventID(HardEvent::MTE2_V));
    WaitFlag<HardEvent::MTE2_V>(EVENT_ID0);
    SetHF32Mode(false);
    if (is("free")) que.FreeTensor(halves);
    if (is("range")) a.SetValue(1024, 0.0f);
    if (is("length")) DataCopy(a, from, 3);
    if (is("capacity")) pipe.InitBuffer(other, 198720);
    if (is("event")) WaitFlag<HardEvent::MTE2_V>(EVENT_ID1);
    if (is("past")) DataCopy(a, from[60], 8);
    que.FreeTensor(a);
    que.FreeTensor(b);
    EXPECT(que.VacantInQue() && !que.HasTensorInQue());
}

int main(int count, char **arguments) {
    mistake = count > 1 ? arguments[1] : "";
    auto *numbers = static_cast<float *>(GmAlloc(64 * sizeof(float)));
    auto *results = static_cast<float *>(GmAlloc(64 * sizeof(float)));
    for (int i = 0; i < 64; ++i) numbers[i] = float(i);
    SetKernelMode(KernelMode::AIV_MODE);
    ICPU_RUN_KF(copies, 1, reinterpret_cast<uint8_t *>(numbers), reinterpret_cast<uint8_t *>(results));
    if (!wrong && !*mistake) std::printf("all as expected\n");
    GmFree(numbers);
    GmFree(results);
    return 0;
}
