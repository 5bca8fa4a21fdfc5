// Any sequence of calls, in any order, with null, live, stale and made-up handles and wrong sizes: every call returns.
//
// The bytes of one input are a program: each call takes its choices from them. Handles come from pools that keep what
// was destroyed, so stale ones turn up all the time. Built with -fsanitize=fuzzer it is a fuzz target; built with
// -DSTANDALONE it is `program SEED COUNT [THREADS]`: so many random inputs of its own on every thread. Threads share
// handles of everything that has no memory behind it: what one uses another destroys. Outside strict mode they free their
// blocks at the end of a sequence only, as a stale address may soon be a live block of another thread.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_convolution_backward.h"

namespace {

const char *const setting = std::getenv("CONVGRAD_STRICT");
const bool strict = setting && std::strcmp(setting, "0") != 0;
std::atomic<bool> several_threads{false};
std::atomic<long> calls{0};

class Choices {
public:
    Choices(const uint8_t *data, size_t size) : data_(data), size_(size) {}
    bool left() const { return at_ < size_; }
    uint8_t byte() { return left() ? data_[at_++] : 0; }
    unsigned below(unsigned limit) { return byte() % limit; }
    bool rarely() { return byte() < 16; }

private:
    const uint8_t *data_;
    size_t size_, at_ = 0;
};

// The last handles of one kind that any thread made.
class Shared {
public:
    void add(void *handle) {
        std::lock_guard<std::mutex> hold(lock_);
        last_[made_++ % 16] = handle;
    }
    void *at(unsigned place) {
        std::lock_guard<std::mutex> hold(lock_);
        return last_[place % 16];
    }

private:
    std::mutex lock_;
    size_t made_ = 0;
    void *last_[16] = {};
};

// Handles given out so far; picking may give null, nonsense, a live one, one that was destroyed, or another thread's.
struct Pool {
    explicit Pool(Shared *shared = nullptr) : shared(shared) {}
    std::vector<void *> handles;
    Shared *shared;
    template <class Type = void>
    Type *pick(Choices &c) {
        static const uintptr_t nonsense[] = {1, 64, 0x00C6040000000010ull, UINTPTR_MAX};
        if (c.rarely()) return nullptr;
        if (shared && several_threads && c.below(3) == 0) return static_cast<Type *>(shared->at(c.byte()));
        if (c.rarely() || handles.empty()) return reinterpret_cast<Type *>(nonsense[c.below(4)]);
        return static_cast<Type *>(handles[handles.size() - 1 - c.below(unsigned(std::min<size_t>(handles.size(), 8)))]);
    }
    void add(void *handle) {
        if (!handle) return;
        handles.push_back(handle);
        if (shared && several_threads) shared->add(handle);
    }
};

Shared shared_contexts, shared_streams, shared_events, shared_ints, shared_bools, shared_floats, shared_scalars;

struct State {
    Pool contexts{&shared_contexts}, streams{&shared_streams}, events{&shared_events}, ints{&shared_ints},
        bools{&shared_bools}, floats{&shared_floats}, scalars{&shared_scalars};
    Pool tensors, lists, scalar_lists, executors, blocks, pinned;
    std::vector<void *> live_blocks;
    char host[4096] = {};
};

int64_t number(Choices &c) {
    static const int64_t edges[] = {-1, 0, 255, 256, 65536, INT32_MAX, INT64_MAX, INT64_MIN, int64_t(1) << 60};
    return c.rarely() ? edges[c.below(9)] : int64_t(c.below(5));
}

size_t size(Choices &c) { return c.rarely() ? (c.rarely() ? SIZE_MAX - c.byte() : 0) : 1 + c.byte() * size_t(c.below(16)); }

// Data of a tensor: an address that is only ever looked up, so it may be anything.
void *address(State &s, Choices &c) {
    char *block = s.blocks.pick<char>(c);
    return block && c.below(4) == 0 ? reinterpret_cast<void *>(reinterpret_cast<uintptr_t>(block) + 4 * c.byte()) : block;
}

aclTensor *make_tensor(State &s, Choices &c, int rank) {
    static const aclDataType dtypes[] = {ACL_FLOAT, ACL_FLOAT, ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_INT8, ACL_HIFLOAT8, ACL_DOUBLE};
    static const aclFormat formats[] = {ACL_FORMAT_ND, ACL_FORMAT_NCL, ACL_FORMAT_NCHW, ACL_FORMAT_NCDHW, ACL_FORMAT_NHWC};
    int64_t shape[6], strides[6];
    for (int i = 0; i < 6; ++i) shape[i] = number(c), strides[i] = number(c);
    const aclFormat usual = rank == 5 ? ACL_FORMAT_NCDHW : rank == 4 ? ACL_FORMAT_NCHW : ACL_FORMAT_ND;
    const int64_t *stride = c.below(4) == 0 ? strides : nullptr;
    aclTensor *made = aclCreateTensor(c.rarely() ? nullptr : shape, uint64_t(rank), dtypes[c.below(8)], stride, c.rarely() ? number(c) : 0,
                                      c.rarely() ? formats[c.below(5)] : usual, shape, uint64_t(rank), address(s, c));
    s.tensors.add(made);
    return made;
}

aclIntArray *make_ints(State &s, Choices &c, unsigned length) {
    int64_t values[8];
    for (int64_t &value : values) value = number(c);
    aclIntArray *made = aclCreateIntArray(c.rarely() ? nullptr : values, length);
    s.ints.add(made);
    return made;
}

// A call that is often accepted: one shape for all, window 1, everything of one rank.
void consistent_call(State &s, Choices &c) {
    const int rank = 3 + int(c.below(3));
    int64_t shape[5] = {int64_t(c.below(3)), 1 + int64_t(c.below(3)), 1 + int64_t(c.below(4)), 1 + int64_t(c.below(4)), 1 + int64_t(c.below(2))};
    int64_t kernel[5] = {shape[1], shape[1], 1, 1, 1}, bias[1] = {shape[1]};
    const aclFormat format = rank == 5 ? ACL_FORMAT_NCDHW : rank == 4 ? ACL_FORMAT_NCHW : ACL_FORMAT_NCL;
    const aclDataType dtype = c.below(2) ? ACL_FLOAT : ACL_FLOAT16;
    aclTensor *tensors[6];
    for (int i = 0; i < 6; ++i) {
        const bool is_kernel = i == 2 || i == 4;
        const int64_t *dims = i == 5 ? bias : is_kernel ? kernel : shape;
        const uint64_t count = i == 5 ? 1 : uint64_t(rank);
        tensors[i] = aclCreateTensor(dims, count, dtype, nullptr, 0, i == 5 ? ACL_FORMAT_ND : format, dims, count, address(s, c));
        s.tensors.add(tensors[i]);
    }
    const int64_t ones[3] = {1, 1, 1}, zeros[3] = {0, 0, 0};
    const bool mask[3] = {c.below(2) == 0, c.below(2) == 0, c.below(2) == 0};
    aclIntArray *one = aclCreateIntArray(ones, uint64_t(rank - 2)), *zero = aclCreateIntArray(zeros, uint64_t(rank - 2)),
                *sizes = aclCreateIntArray(bias, 1);
    aclBoolArray *flags = aclCreateBoolArray(mask, 3);
    uint64_t workspace = 0;
    aclOpExecutor *executor = nullptr;
    if (aclnnConvolutionBackwardGetWorkspaceSize(tensors[0], tensors[1], tensors[2], sizes, one, zero, one, c.below(2) == 0, zero, 1, flags,
                                                 int8_t(c.below(4)), tensors[3], tensors[4], tensors[5], &workspace, &executor) == 0)
        s.executors.add(executor);
    aclDestroyIntArray(one);
    aclDestroyIntArray(zero);
    aclDestroyIntArray(sizes);
    aclDestroyBoolArray(flags);
}

void phase_one(State &s, Choices &c) {
    uint64_t workspace = 0;
    aclOpExecutor *executor = nullptr;
    uint64_t *where = c.rarely() ? nullptr : &workspace;
    aclOpExecutor **result = c.rarely() ? nullptr : &executor;
    const int rank = int(c.below(6));
    aclTensor *t[7];
    for (aclTensor *&tensor : t) tensor = c.below(3) ? make_tensor(s, c, rank) : s.tensors.pick<aclTensor>(c);
    int status;
    if (c.below(2)) {
        aclIntArray *a[5];
        for (aclIntArray *&array : a) array = c.below(3) ? make_ints(s, c, c.below(5)) : s.ints.pick<aclIntArray>(c);
        status = aclnnConvolutionBackwardGetWorkspaceSize(t[0], t[1], t[2], a[0], a[1], a[2], a[3], c.below(2) == 0, a[4], int(number(c)),
                                                          s.bools.pick<aclBoolArray>(c), int8_t(number(c)), t[3], t[4], t[5], where, result);
    } else {
        status = aclnnConvTbcBackwardGetWorkspaceSize(t[0], t[1], t[2], t[3], number(c), int8_t(number(c)), t[4], t[5], t[6], where, result);
    }
    if (status == 0) s.executors.add(executor);
}

void phase_two(State &s, Choices &c) {
    auto *executor = s.executors.pick<aclOpExecutor>(c);
    void *workspace = s.blocks.pick(c), *stream = c.below(3) ? nullptr : s.streams.pick(c);
    const uint64_t bytes = c.below(2) ? 0 : size(c);
    c.below(8) ? aclnnConvolutionBackward(workspace, bytes, executor, stream) : aclnnConvTbcBackward(workspace, bytes, executor, stream);
}

void executors(State &s, Choices &c) {
    auto *executor = s.executors.pick<aclOpExecutor>(c);
    auto *tensor = s.tensors.pick<aclTensor>(c);
    switch (c.below(5)) {
        case 0: aclSetAclOpExecutorRepeatable(executor); break;
        case 1: aclDestroyAclOpExecutor(executor); break;
        case 2: aclSetInputTensorAddr(executor, c.byte(), tensor, address(s, c)); break;
        case 3: AclSetOutputTensorAddr(executor, c.byte(), tensor, address(s, c)); break;
        case 4: aclSetDynamicTensorAddr(executor, c.byte(), c.below(4), s.lists.pick<aclTensorList>(c), address(s, c)); break;
    }
}

void memory(State &s, Choices &c) {
    void *made = nullptr;
    switch (c.below(7)) {
        case 0: case 1:
            if (aclrtMalloc(c.rarely() ? nullptr : &made, size(c), aclrtMemMallocPolicy(c.below(9))) == 0 && made) {
                s.blocks.add(made);
                s.live_blocks.push_back(made);
            }
            break;
        case 2: {
            void *block = several_threads && !strict ? nullptr : s.blocks.pick(c);
            if (aclrtFree(block) == 0)
                s.live_blocks.erase(std::find(s.live_blocks.begin(), s.live_blocks.end(), block));
            break;
        }
        case 3:
            if (aclrtMallocHost(&made, 1 + c.byte()) == 0) s.pinned.add(made);
            break;
        case 4: aclrtFreeHost(s.pinned.pick(c)); break;
        default: {
            // Outside strict mode an address that is no block is the program's own memory, so it must be real.
            void *block = strict ? s.blocks.pick(c) : s.live_blocks.empty() ? nullptr : s.live_blocks[c.below(unsigned(s.live_blocks.size()))];
            if (strict && std::find(s.blocks.handles.begin(), s.blocks.handles.end(), block) == s.blocks.handles.end()) block = nullptr;
            const size_t count = c.byte() * size_t(c.below(16)), limit = c.rarely() ? c.byte() : SIZE_MAX;
            void *stream = c.below(3) ? nullptr : s.streams.pick(c);
            switch (c.below(4)) {
                case 0: aclrtMemcpy(block, limit, s.host, count, aclrtMemcpyKind(c.below(9))); break;
                case 1: aclrtMemcpyAsync(s.host, sizeof s.host, block, count, aclrtMemcpyKind(c.below(9)), stream); break;
                case 2: aclrtMemset(block, limit, c.byte(), count); break;
                case 3: aclrtMemsetAsync(block, limit, c.byte(), count, stream); break;
            }
        }
    }
}

void runtime(State &s, Choices &c) {
    void *made = nullptr;
    float ms;
    aclrtStreamStatus stream_status;
    aclrtEventRecordedStatus recorded;
    aclrtEventStatus event_status;
    int64_t value;
    int32_t device;
    uint64_t count;
    switch (c.below(26)) {
        case 0: aclInit(nullptr); break;
        case 1: aclFinalize(); break;
        case 2: aclFinalizeReference(c.rarely() ? nullptr : &count); break;
        case 3: case 4: aclrtSetDevice(c.rarely() ? 1 : 0); break;
        case 5: c.below(2) ? aclrtResetDevice(0) : aclrtResetDeviceForce(0); break;
        case 6: aclrtGetDevice(c.rarely() ? nullptr : &device); break;
        case 7: if (aclrtCreateContext(&made, c.rarely() ? 5 : 0) == 0) s.contexts.add(made); break;
        case 8: aclrtDestroyContext(s.contexts.pick(c)); break;
        case 9: aclrtSetCurrentContext(s.contexts.pick(c)); break;
        case 10: if (aclrtGetCurrentContext(&made) == 0) s.contexts.add(made); break;
        case 11: if (aclrtCreateStreamWithConfig(c.rarely() ? nullptr : &made, c.below(9), c.below(70)) == 0) s.streams.add(made); break;
        case 12: c.below(2) ? aclrtDestroyStream(s.streams.pick(c)) : aclrtDestroyStreamForce(s.streams.pick(c)); break;
        case 13: aclrtSynchronizeStreamWithTimeout(s.streams.pick(c), int32_t(number(c))); break;
        case 14: aclrtStreamQuery(s.streams.pick(c), c.rarely() ? nullptr : &stream_status); break;
        case 15: if (aclrtCreateEventWithFlag(c.rarely() ? nullptr : &made, c.below(130)) == 0) s.events.add(made); break;
        case 16: aclrtDestroyEvent(s.events.pick(c)); break;
        case 17: aclrtRecordEvent(s.events.pick(c), c.below(2) ? nullptr : s.streams.pick(c)); break;
        case 18: aclrtResetEvent(s.events.pick(c), nullptr); break;
        case 19: aclrtQueryEventStatus(s.events.pick(c), &recorded); aclrtQueryEvent(s.events.pick(c), &event_status); break;
        case 20: aclrtEventElapsedTime(&ms, s.events.pick(c), s.events.pick(c)); break;
        case 21: aclrtSynchronizeEvent(s.events.pick(c)); aclrtStreamWaitEvent(s.streams.pick(c), s.events.pick(c)); break;
        case 22: aclrtSetSysParamOpt(aclSysParamOpt(number(c)), number(c)); aclrtCtxGetSysParamOpt(aclSysParamOpt(number(c)), &value); break;
        case 23: aclGetRecentErrMsg(); aclrtGetLastError(aclrtLastErrLevel(c.below(2))); break;
        case 24: aclDataTypeSize(aclDataType(number(c))); aclFloatToFloat16(aclFloat16ToFloat(aclFloat16(c.byte() << 8 | c.byte()))); break;
        case 25: aclrtSynchronizeDevice(); break;
    }
}

void objects(State &s, Choices &c) {
    int64_t *values = nullptr;
    uint64_t count = 0;
    int64_t offset;
    aclFormat format;
    aclDataType dtype;
    void *where;
    auto *tensor = s.tensors.pick<aclTensor>(c);
    switch (c.below(16)) {
        case 0: make_tensor(s, c, int(c.below(7))); break;
        case 1: make_ints(s, c, c.below(8)); break;
        case 2: { const bool flags[4] = {c.below(2) == 0, true, false, true}; s.bools.add(aclCreateBoolArray(flags, c.below(5))); break; }
        case 3: { const float value[1] = {1}; s.floats.add(aclCreateFloatArray(c.rarely() ? nullptr : value, 1)); break; }
        case 4: { double value = 1; s.scalars.add(aclCreateScalar(c.rarely() ? nullptr : &value, c.rarely() ? ACL_STRING : ACL_FLOAT)); break; }
        case 5: { const aclTensor *members[2] = {tensor, s.tensors.pick<aclTensor>(c)}; s.lists.add(aclCreateTensorList(members, c.below(3))); break; }
        case 6: { const aclScalar *members[1] = {s.scalars.pick<aclScalar>(c)}; s.scalar_lists.add(aclCreateScalarList(members, 1)); break; }
        case 7: aclDestroyTensor(tensor); break;
        case 8: aclDestroyIntArray(s.ints.pick<aclIntArray>(c)); aclDestroyBoolArray(s.bools.pick<aclBoolArray>(c)); break;
        case 9: aclDestroyFloatArray(s.floats.pick<aclFloatArray>(c)); aclDestroyScalar(s.scalars.pick<aclScalar>(c)); break;
        case 10: aclDestroyTensorList(s.lists.pick<aclTensorList>(c)); aclDestroyScalarList(s.scalar_lists.pick<aclScalarList>(c)); break;
        case 11: if (aclGetViewShape(tensor, &values, c.rarely() ? nullptr : &count) == 0) delete[] values; break;
        case 12: if (aclGetViewStrides(tensor, c.rarely() ? nullptr : &values, &count) == 0) delete[] values; break;
        case 13: aclGetViewOffset(tensor, &offset); aclGetFormat(tensor, &format); aclGetDataType(tensor, &dtype); aclGetRawTensorAddr(tensor, &where); break;
        case 14: aclSetRawTensorAddr(tensor, address(s, c)); aclGetTensorListSize(s.lists.pick<aclTensorList>(c), &count); break;
        case 15: {
            int64_t shape[4] = {number(c), number(c), number(c), number(c)};
            aclInitTensor(tensor, shape, c.below(5), ACL_FLOAT, c.below(2) ? nullptr : shape, number(c), ACL_FORMAT_NCHW, shape, 4, address(s, c));
            break;
        }
    }
}

void end(State &s) {
    for (void *h : s.executors.handles) aclDestroyAclOpExecutor(static_cast<aclOpExecutor *>(h));
    for (void *h : s.lists.handles) aclDestroyTensorList(static_cast<aclTensorList *>(h));
    for (void *h : s.scalar_lists.handles) aclDestroyScalarList(static_cast<aclScalarList *>(h));
    for (void *h : s.tensors.handles) aclDestroyTensor(static_cast<aclTensor *>(h));
    for (void *h : s.ints.handles) aclDestroyIntArray(static_cast<aclIntArray *>(h));
    for (void *h : s.bools.handles) aclDestroyBoolArray(static_cast<aclBoolArray *>(h));
    for (void *h : s.floats.handles) aclDestroyFloatArray(static_cast<aclFloatArray *>(h));
    for (void *h : s.scalars.handles) aclDestroyScalar(static_cast<aclScalar *>(h));
    for (void *h : s.live_blocks) aclrtFree(h);
    for (void *h : s.pinned.handles) aclrtFreeHost(h);
    for (void *h : s.contexts.handles) aclrtDestroyContext(h);
    for (void *h : s.events.handles) aclrtDestroyEvent(h);
    for (void *h : s.streams.handles) aclrtDestroyStream(h);
    aclrtResetDeviceForce(0);
    aclFinalize();
    aclGetRecentErrMsg();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Choices choices(data, size);
    State state;
    if (choices.byte() < 240) {  // most programs begin properly
        aclInit(nullptr);
        aclrtSetDevice(0);
    }
    while (choices.left()) {
        calls.fetch_add(1, std::memory_order_relaxed);  // at least one each
        switch (choices.below(16)) {
            case 0: case 1: case 2: memory(state, choices); break;
            case 3: case 4: runtime(state, choices); break;
            case 5: case 6: case 7: objects(state, choices); break;
            case 8: case 9: phase_one(state, choices); break;
            case 10: case 11: consistent_call(state, choices); break;
            case 12: case 13: case 14: phase_two(state, choices); break;
            case 15: executors(state, choices); break;
        }
    }
    end(state);
    return 0;
}

#ifdef STANDALONE
int main(int count, char **arguments) {
    const unsigned seed = count > 1 ? unsigned(std::strtoul(arguments[1], nullptr, 10)) : 0;
    const int inputs = count > 2 ? std::atoi(arguments[2]) : 100, threads = count > 3 ? std::atoi(arguments[3]) : 1;
    several_threads = threads > 1;
    const auto work = [=](int thread) {
        for (int i = 0; i < inputs; ++i) {
            std::mt19937 random(seed * 1000003u + unsigned(i) + unsigned(thread) * 500000003u);
            std::vector<uint8_t> bytes(64 + random() % 2048);
            for (uint8_t &byte : bytes) byte = uint8_t(random() >> 11);
            LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
        }
    };
    std::vector<std::thread> others;
    for (int i = 1; i < threads; ++i) others.emplace_back(work, i);
    work(0);
    for (std::thread &other : others) other.join();
    std::printf("%d sequences, %ld calls\n", inputs * threads, calls.load());
}
#endif
