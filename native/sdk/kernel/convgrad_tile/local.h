/* Local memory of a core: pipes, queues and buffers, copies between local and global memory, events. */
#ifndef CONVGRAD_TILE_LOCAL_H
#define CONVGRAD_TILE_LOCAL_H

#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "convgrad_tile/tensor.h"

enum pipe_t { PIPE_S = 0, PIPE_V, PIPE_M, PIPE_MTE1, PIPE_MTE2, PIPE_MTE3, PIPE_ALL, PIPE_FIX = 10 };
enum event_t { EVENT_ID0 = 0, EVENT_ID1, EVENT_ID2, EVENT_ID3, EVENT_ID4, EVENT_ID5, EVENT_ID6, EVENT_ID7 };
using TEventID = int8_t;

namespace convgrad_tile {

constexpr int64_t kBlockBytes = 32;

inline void local_finding(const char *rule, const char *call, long long first, long long bytes, long long size, Where where) {
    char text[200];
    std::snprintf(text, sizeof text, "%s: bytes %lld...%lld of a local tensor of %lld bytes", call, first, first + bytes - 1, size);
    cgt_found(rule, text, where);
}

/* Bytes of one local buffer; fresh ones are NaN. Kept while a tensor looks at them. */
struct LocalBytes {
    explicit LocalBytes(size_t size) : bytes((size + 63) / 64), count(size) {
        std::memset(static_cast<void *>(bytes.data()), 0xFF, bytes.size() * sizeof(Line));
    }
    struct alignas(64) Line {
        uint8_t of[64];
    };
    std::vector<Line> bytes;
    size_t count;
    uint8_t *start() { return reinterpret_cast<uint8_t *>(bytes.data()); }
};

/* Whether stores to global memory add to it: SetAtomicAdd. */
inline bool &adds_to_memory() {
    static thread_local bool adds = false;
    return adds;
}

/* Events that were set and not waited for, by (event, number). */
inline std::map<std::pair<int, int>, int> &events_set() {
    static thread_local std::map<std::pair<int, int>, int> all;
    return all;
}

}  // namespace convgrad_tile

namespace AscendC {

/* A view on a local buffer. */
template <typename T>
class LocalTensor {
public:
    using PrimType = T;
    LocalTensor() = default;

    uint32_t GetSize() const { return static_cast<uint32_t>(bytes_ / static_cast<int64_t>(sizeof(T))); }
    void SetSize(const uint32_t size) { bytes_ = static_cast<int64_t>(size) * static_cast<int64_t>(sizeof(T)); }
    uint32_t GetLength() const { return static_cast<uint32_t>(bytes_); }
    TPosition GetPosition() const { return position_; }
    /* From the start of the tensor on; the address may be made anywhere, as a pointer may. */
    uint64_t GetPhyAddr() const { return reinterpret_cast<uint64_t>(memory_ ? memory_->start() + first_ : nullptr); }
    uint64_t GetPhyAddr(const uint32_t offset) const { return GetPhyAddr() + offset * sizeof(T); }
    LocalTensor operator[](const uint32_t offset) const {
        LocalTensor moved = *this;
        const int64_t by = static_cast<int64_t>(offset) * static_cast<int64_t>(sizeof(T));
        moved.first_ += by, moved.bytes_ -= by;
        return moved;
    }
    T GetValue(const uint32_t index, convgrad_tile::Where where = {}) const {
        const uint8_t *at = cgt_bytes(static_cast<int64_t>(index) * size(), size(), "GetValue", where);
        T value = T();
        if (at) std::memcpy(static_cast<void *>(&value), at, sizeof value);
        return value;
    }
    template <typename V>
    void SetValue(const uint32_t index, const V value, convgrad_tile::Where where = {}) const {
        const T stored = static_cast<T>(value);
        uint8_t *at = cgt_bytes(static_cast<int64_t>(index) * size(), size(), "SetValue", where);
        if (at) std::memcpy(at, static_cast<const void *>(&stored), sizeof stored);
    }
    T &operator()(const uint32_t index, convgrad_tile::Where where = {}) const {
        static thread_local T nowhere;
        uint8_t *at = cgt_bytes(static_cast<int64_t>(index) * size(), size(), "operator()", where);
        return at ? *reinterpret_cast<T *>(at) : nowhere;
    }
    template <typename U>
    LocalTensor<U> ReinterpretCast() const {
        LocalTensor<U> other;
        other.cgt_take(memory_, first_, bytes_, position_);
        return other;
    }

    /* For the headers. */
    void cgt_take(std::shared_ptr<convgrad_tile::LocalBytes> memory, int64_t first, int64_t bytes, TPosition position) {
        memory_ = std::move(memory), first_ = first, bytes_ = bytes, position_ = position;
    }
    const std::shared_ptr<convgrad_tile::LocalBytes> &cgt_memory() const { return memory_; }
    /* `count` bytes from `start` on, or null and a finding when they do not lie inside. */
    uint8_t *cgt_bytes(int64_t start, int64_t count, const char *call, convgrad_tile::Where where) const {
        const int64_t all = memory_ ? static_cast<int64_t>(memory_->count) : 0, from = first_ + start;
        if (start < -all || start > (int64_t(1) << 40) || from < 0 || count < 0 || count > all || from > all - count) {
            convgrad_tile::local_finding("local.range", call, from, count, all, where);
            return nullptr;
        }
        return memory_->start() + from;
    }

private:
    static constexpr int64_t size() { return static_cast<int64_t>(sizeof(T)); }
    std::shared_ptr<convgrad_tile::LocalBytes> memory_;
    int64_t first_ = 0, bytes_ = 0;
    TPosition position_ = TPosition::VECCALC;
};

enum class HardEvent : uint8_t {
    MTE2_MTE1, MTE1_MTE2, MTE1_M, M_MTE1, MTE2_V, V_MTE2, MTE3_V, V_MTE3, M_V, V_M, V_V, MTE3_MTE1, MTE1_MTE3, MTE1_V,
    MTE2_M, M_MTE2, V_MTE1, M_FIX, FIX_M, MTE3_MTE2, MTE2_MTE3, S_V, V_S, S_MTE2, MTE2_S, S_MTE3, MTE3_S, MTE2_FIX,
    FIX_MTE2, FIX_S, M_S, FIX_MTE3, MTE1_FIX, FIX_MTE1, FIX_FIX, FIX_V, V_FIX, MAX
};

/* Buffers that go round: AllocTensor, EnQue, DeQue, FreeTensor. */
template <TPosition src, TPosition dst, int32_t depth, int32_t mask = 0>
class TQueBind {
public:
    template <typename T>
    LocalTensor<T> AllocTensor(convgrad_tile::Where where = {}) {
        if (free_.empty()) {
            convgrad_tile::go_on(cgt_stop(
                "queue.full", "AllocTensor: every buffer of the queue is in use; FreeTensor one first, on hardware this waits for ever", where));
            return {};
        }
        LocalTensor<T> tensor;
        const auto memory = free_.front();
        free_.pop_front();
        tensor.cgt_take(memory, 0, static_cast<int64_t>(memory->count), src);
        return tensor;
    }
    template <typename T>
    void AllocTensor(LocalTensor<T> &tensor, convgrad_tile::Where where = {}) {
        tensor = AllocTensor<T>(where);
    }
    template <typename T>
    void DeQue(LocalTensor<T> &tensor, convgrad_tile::Where where = {}) {
        tensor = DeQue<T>(where);
    }
    template <typename T>
    bool EnQue(const LocalTensor<T> &tensor) {
        queued_.push_back(tensor.cgt_memory());
        return true;
    }
    template <typename T>
    LocalTensor<T> DeQue(convgrad_tile::Where where = {}) {
        if (queued_.empty()) {
            convgrad_tile::go_on(
                cgt_stop("queue.empty", "DeQue: nothing is in the queue; EnQue comes first, on hardware this waits for ever", where));
            return {};
        }
        LocalTensor<T> tensor;
        const auto memory = queued_.front();
        queued_.pop_front();
        tensor.cgt_take(memory, 0, memory ? static_cast<int64_t>(memory->count) : 0, dst);
        return tensor;
    }
    template <typename T>
    void FreeTensor(const LocalTensor<T> &tensor, convgrad_tile::Where where = {}) {
        bool ours = false, is_free = false;
        for (const auto &one : all_) ours = ours || one == tensor.cgt_memory();
        for (const auto &one : free_) is_free = is_free || one == tensor.cgt_memory();
        if (ours && !is_free) free_.push_back(tensor.cgt_memory());
        else cgt_found("queue.free", "FreeTensor: the tensor is not one that AllocTensor of this queue gave and that is in use", where);
    }
    bool VacantInQue() const { return !free_.empty(); }
    bool HasTensorInQue() const { return !queued_.empty(); }
    int32_t GetTensorCountInQue() const { return static_cast<int32_t>(queued_.size()); }
    void FreeAllEvent() {}

    static constexpr TPosition cgt_position = src;
    void cgt_init(uint64_t number, uint64_t bytes) {
        all_.clear(), free_.clear(), queued_.clear();
        for (uint64_t at = 0; at < number; ++at) all_.push_back(std::make_shared<convgrad_tile::LocalBytes>(bytes));
        free_.assign(all_.begin(), all_.end());
    }

private:
    std::vector<std::shared_ptr<convgrad_tile::LocalBytes>> all_;
    std::deque<std::shared_ptr<convgrad_tile::LocalBytes>> free_, queued_;
};
/* Where a tensor of a queue goes when it leaves: VECOUT to GM, A1 to A2 and so on; one memory here. */
template <TPosition pos, int32_t depth, int32_t mask = 0>
class TQue : public TQueBind<pos, pos, depth, mask> {};

/* One buffer that stays. */
template <TPosition pos = TPosition::LCM>
class TBuf {
public:
    template <typename T>
    LocalTensor<T> Get() {
        LocalTensor<T> tensor;
        tensor.cgt_take(memory_, 0, memory_ ? static_cast<int64_t>(memory_->count) : 0, pos);
        return tensor;
    }
    template <typename T>
    LocalTensor<T> Get(uint32_t size) {
        LocalTensor<T> tensor = Get<T>();
        tensor.SetSize(size);
        return tensor;
    }
    template <typename T>
    LocalTensor<T> GetWithOffset(uint32_t size, uint32_t bytes) {
        LocalTensor<T> tensor;
        tensor.cgt_take(memory_, bytes, static_cast<int64_t>(size) * static_cast<int64_t>(sizeof(T)), pos);
        return tensor;
    }
    template <typename T>
    void FreeTensor(const LocalTensor<T> &) {}
    void cgt_init(uint64_t bytes) { memory_ = std::make_shared<convgrad_tile::LocalBytes>(bytes); }
    static constexpr TPosition cgt_position = pos;

private:
    std::shared_ptr<convgrad_tile::LocalBytes> memory_;
};

class TPipe;
inline TPipe *&cgt_current_pipe() {
    static thread_local TPipe *current = nullptr;
    return current;
}

/* Gives buffers to queues, counts what lies in the vector core's buffer, hands out events. */
class TPipe {
public:
    TPipe() : before_(cgt_current_pipe()) { cgt_current_pipe() = this; }
    ~TPipe() {
        if (cgt_current_pipe() == this) cgt_current_pipe() = before_;
    }
    TPipe(const TPipe &) = delete;
    TPipe &operator=(const TPipe &) = delete;

    void Init() {}
    template <TPosition src, TPosition dst, int32_t depth, int32_t mask>
    bool InitBuffer(TQueBind<src, dst, depth, mask> &que, uint8_t num, uint32_t len, convgrad_tile::Where where = {}) {
        if (!fits(src, static_cast<uint64_t>(num) * len, where)) return false;
        que.cgt_init(num, len);
        return true;
    }
    template <TPosition pos>
    bool InitBuffer(TBuf<pos> &buf, uint32_t len, convgrad_tile::Where where = {}) {
        if (!fits(pos, len, where)) return false;
        buf.cgt_init(len);
        return true;
    }
    TEventID AllocEventID(HardEvent) { return static_cast<TEventID>(next_event_ = (next_event_ + 1) % 8); }
    template <HardEvent event>
    TEventID AllocEventID() {
        return AllocEventID(event);
    }
    template <HardEvent event>
    void ReleaseEventID(TEventID) {}
    TEventID FetchEventID(HardEvent) { return EVENT_ID0; }
    template <HardEvent event>
    TEventID FetchEventID() {
        return EVENT_ID0;
    }
    void Destroy() { used_.clear(); }
    void Reset() { used_.clear(); }

private:
    bool fits(TPosition position, uint64_t bytes, convgrad_tile::Where where) {
        static const struct {
            const char *name;
            uint64_t bytes;
        } stores[] = {{"UB", 192 * 1024}, {"L1", 512 * 1024}, {"L0A", 64 * 1024}, {"L0B", 64 * 1024}, {"L0C", 128 * 1024}};
        const bool in_l1 = position == TPosition::A1 || position == TPosition::B1 || position == TPosition::C1 ||
                           position == TPosition::TSCM || position == TPosition::SHM;
        const int store = in_l1                         ? 1
                          : position == TPosition::A2   ? 2
                          : position == TPosition::B2   ? 3
                          : position == TPosition::CO1  ? 4
                                                        : 0;
        const uint64_t all = used_[store] += (bytes + 31) / 32 * 32;
        if (all <= stores[store].bytes) return true;
        char rule[32], text[160];
        std::snprintf(rule, sizeof rule, "capacity.%s", stores[store].name);
        std::snprintf(text, sizeof text, "InitBuffer: the buffers in %s must fit, got %llu bytes of %llu", stores[store].name,
                      static_cast<unsigned long long>(all), static_cast<unsigned long long>(stores[store].bytes));
        convgrad_tile::go_on(cgt_stop(rule, text, where));
        return false;
    }
    std::map<int, uint64_t> used_;
    int next_event_ = -1;
    TPipe *before_;
};
/* The pipe made last on this core. */
inline TPipe *GetTPipePtr() {
    if (!cgt_current_pipe()) {
        static thread_local TPipe own;
        cgt_current_pipe() = &own;
    }
    return cgt_current_pipe();
}

/* ---- copies. Lengths and gaps in blocks of 32 bytes unless said otherwise. */
struct DataCopyParams {
    uint16_t blockCount = 1, blockLen = 0, srcStride = 0, dstStride = 0;
    DataCopyParams() = default;
    DataCopyParams(uint16_t count, uint16_t len, uint16_t srcStrideIn, uint16_t dstStrideIn)
        : blockCount(count), blockLen(len), srcStride(srcStrideIn), dstStride(dstStrideIn) {}
};
/* Of DataCopyPad: lengths in bytes, gaps in bytes on the global side and in blocks on the local side. */
struct DataCopyExtParams {
    uint16_t blockCount = 1;
    uint32_t blockLen = 0, srcStride = 0, dstStride = 0, rsv = 0;
    DataCopyExtParams() = default;
    DataCopyExtParams(uint16_t count, uint32_t len, uint32_t srcStrideIn, uint32_t dstStrideIn, uint32_t rsvIn)
        : blockCount(count), blockLen(len), srcStride(srcStrideIn), dstStride(dstStrideIn), rsv(rsvIn) {}
};
template <typename T>
struct DataCopyPadExtParams {
    bool isPad = false;
    uint8_t leftPadding = 0, rightPadding = 0;
    T paddingValue = T(0);
    DataCopyPadExtParams() = default;
    DataCopyPadExtParams(bool isPadIn, uint8_t left, uint8_t right, T value)
        : isPad(isPadIn), leftPadding(left), rightPadding(right), paddingValue(value) {}
};
struct DataCopyPadParams {
    bool isPad = false;
    uint8_t leftPadding = 0, rightPadding = 0;
    uint64_t paddingValue = 0;
    DataCopyPadParams() = default;
    DataCopyPadParams(bool isPadIn, uint8_t left, uint8_t right, uint64_t value)
        : isPad(isPadIn), leftPadding(left), rightPadding(right), paddingValue(value) {}
};

}  // namespace AscendC

namespace convgrad_tile {

/* `bytes` of a global tensor from byte `start` on that may be read; null and a finding when they may not. */
template <typename T>
const uint8_t *readable_bytes(const AscendC::GlobalTensor<T> &gm, int64_t start, int64_t bytes, const char *call, Where where) {
    const int64_t size = static_cast<int64_t>(sizeof(T));
    const cgt_view view = gm.cgt_pointer();
    const int64_t first = start / size, count = (start % size + bytes + size - 1) / size;
    if (cgt_touch(&view, first, count, CGT_READ, call, where) != CGT_OK) return nullptr;
    return reinterpret_cast<const uint8_t *>(gm.GetPhyAddr(static_cast<uint64_t>(first))) + start % size;
}

/* Stores elements to a global tensor, or adds them after SetAtomicAdd. */
template <typename T>
void store_bytes(const AscendC::GlobalTensor<T> &gm, int64_t start, const uint8_t *from, int64_t bytes, const char *call, Where where) {
    const int64_t size = static_cast<int64_t>(sizeof(T));
    const cgt_view view = gm.cgt_pointer();
    const bool adds = adds_to_memory();
    const int64_t first = start / size, count = bytes / size;
    if (bytes % size || start % size) {
        cgt_found("copy.length", "a copy to global memory must be whole elements", where);
        return;
    }
    bool zeros = true;
    for (int64_t at = 0; at < bytes && zeros; ++at) zeros = from[at] == 0;
    if (cgt_touch(&view, first, count, adds ? CGT_ADD : zeros ? CGT_ZERO : CGT_STORE, call, where) != CGT_OK) return;
    T *to = gm.GetPhyAddr(static_cast<uint64_t>(first));
    if (!adds) {
        std::memcpy(static_cast<void *>(to), from, static_cast<size_t>(bytes));
        return;
    }
    for (int64_t at = 0; at < count; ++at) {
        T value;
        std::memcpy(static_cast<void *>(&value), from + at * size, sizeof value);
        to[at] = static_cast<T>(to[at] + value);
    }
}

struct Runs {
    int64_t count, bytes, from_step, to_step; /* of a run, and from the start of one to the start of the next */
};

template <typename T>
void gm_to_local(const AscendC::LocalTensor<T> &to, const AscendC::GlobalTensor<T> &from, Runs runs, const char *call, Where where) {
    for (int64_t run = 0; run < runs.count && runs.bytes > 0; ++run) {
        const uint8_t *source = readable_bytes(from, run * runs.from_step, runs.bytes, call, where);
        uint8_t *target = source ? to.cgt_bytes(run * runs.to_step, runs.bytes, call, where) : nullptr;
        if (!target) return;
        std::memcpy(target, source, static_cast<size_t>(runs.bytes));
    }
}
template <typename T>
void local_to_gm(const AscendC::GlobalTensor<T> &to, const AscendC::LocalTensor<T> &from, Runs runs, const char *call, Where where) {
    for (int64_t run = 0; run < runs.count && runs.bytes > 0; ++run) {
        const uint8_t *source = from.cgt_bytes(run * runs.from_step, runs.bytes, call, where);
        if (!source) return;
        store_bytes(to, run * runs.to_step, source, runs.bytes, call, where);
    }
}
template <typename T>
void local_to_local(const AscendC::LocalTensor<T> &to, const AscendC::LocalTensor<T> &from, Runs runs, const char *call, Where where) {
    for (int64_t run = 0; run < runs.count && runs.bytes > 0; ++run) {
        const uint8_t *source = from.cgt_bytes(run * runs.from_step, runs.bytes, call, where);
        uint8_t *target = source ? to.cgt_bytes(run * runs.to_step, runs.bytes, call, where) : nullptr;
        if (!target) return;
        std::memmove(target, source, static_cast<size_t>(runs.bytes));
    }
}

inline Runs runs_of(const AscendC::DataCopyParams &p) {
    const int64_t bytes = p.blockLen * kBlockBytes;
    return {p.blockCount, bytes, bytes + p.srcStride * kBlockBytes, bytes + p.dstStride * kBlockBytes};
}
template <typename T>
Runs runs_of_count(uint32_t count, Where where) {
    const int64_t bytes = static_cast<int64_t>(count) * static_cast<int64_t>(sizeof(T));
    if (bytes % kBlockBytes)
        cgt_found("copy.length", "DataCopy: copies whole blocks of 32 bytes; DataCopyPad takes any length", where);
    return {1, bytes / kBlockBytes * kBlockBytes, 0, 0};
}
inline int64_t in_blocks(int64_t bytes) { return (bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes; }

}  // namespace convgrad_tile

namespace AscendC {

template <typename T>
void DataCopy(const LocalTensor<T> &dst, const GlobalTensor<T> &src, const uint32_t count, convgrad_tile::Where where = {}) {
    convgrad_tile::gm_to_local(dst, src, convgrad_tile::runs_of_count<T>(count, where), "DataCopy", where);
}
template <typename T>
void DataCopy(const LocalTensor<T> &dst, const GlobalTensor<T> &src, const DataCopyParams &params, convgrad_tile::Where where = {}) {
    convgrad_tile::gm_to_local(dst, src, convgrad_tile::runs_of(params), "DataCopy", where);
}
template <typename T>
void DataCopy(const GlobalTensor<T> &dst, const LocalTensor<T> &src, const uint32_t count, convgrad_tile::Where where = {}) {
    convgrad_tile::local_to_gm(dst, src, convgrad_tile::runs_of_count<T>(count, where), "DataCopy", where);
}
template <typename T>
void DataCopy(const GlobalTensor<T> &dst, const LocalTensor<T> &src, const DataCopyParams &params, convgrad_tile::Where where = {}) {
    convgrad_tile::local_to_gm(dst, src, convgrad_tile::runs_of(params), "DataCopy", where);
}
template <typename T>
void DataCopy(const LocalTensor<T> &dst, const LocalTensor<T> &src, const uint32_t count, convgrad_tile::Where where = {}) {
    convgrad_tile::local_to_local(dst, src, convgrad_tile::runs_of_count<T>(count, where), "DataCopy", where);
}
template <typename T>
void DataCopy(const LocalTensor<T> &dst, const LocalTensor<T> &src, const DataCopyParams &params, convgrad_tile::Where where = {}) {
    convgrad_tile::local_to_local(dst, src, convgrad_tile::runs_of(params), "DataCopy", where);
}

/* Each run of bytes lands at a block of 32, `leftPadding` elements further on. */
template <typename T>
void DataCopyPad(const LocalTensor<T> &dst, const GlobalTensor<T> &src, const DataCopyExtParams &params,
                 const DataCopyPadExtParams<T> &pad, convgrad_tile::Where where = {}) {
    using namespace convgrad_tile;
    const int64_t size = static_cast<int64_t>(sizeof(T)), bytes = params.blockLen;
    const int64_t left = pad.isPad ? pad.leftPadding * size : 0, right = pad.isPad ? pad.rightPadding * size : 0;
    const int64_t step = in_blocks(left + bytes + right) + static_cast<int64_t>(params.dstStride) * kBlockBytes;
    for (int64_t run = 0; run < params.blockCount; ++run) {
        const uint8_t *source = bytes ? readable_bytes(src, run * (bytes + params.srcStride), bytes, "DataCopyPad", where) : nullptr;
        uint8_t *target = source || !bytes ? dst.cgt_bytes(run * step, left + bytes + right, "DataCopyPad", where) : nullptr;
        if (!target) return;
        if (bytes) std::memcpy(target + left, source, static_cast<size_t>(bytes));
        for (int64_t at = 0; at < left; at += size) std::memcpy(target + at, static_cast<const void *>(&pad.paddingValue), sizeof(T));
        for (int64_t at = 0; at < right; at += size)
            std::memcpy(target + left + bytes + at, static_cast<const void *>(&pad.paddingValue), sizeof(T));
    }
}
template <typename T>
void DataCopyPad(const LocalTensor<T> &dst, const GlobalTensor<T> &src, const DataCopyParams &params,
                 const DataCopyPadParams &pad, convgrad_tile::Where where = {}) {
    T value;
    std::memcpy(static_cast<void *>(&value), &pad.paddingValue, sizeof value < 8 ? sizeof value : 8);
    DataCopyPad(dst, src, DataCopyExtParams(params.blockCount, params.blockLen, params.srcStride, params.dstStride, 0),
                DataCopyPadExtParams<T>(pad.isPad, pad.leftPadding, pad.rightPadding, value), where);
}
template <typename T>
void DataCopyPad(const GlobalTensor<T> &dst, const LocalTensor<T> &src, const DataCopyExtParams &params,
                 convgrad_tile::Where where = {}) {
    const int64_t bytes = params.blockLen;
    const int64_t from_step = convgrad_tile::in_blocks(bytes) + static_cast<int64_t>(params.srcStride) * convgrad_tile::kBlockBytes;
    convgrad_tile::local_to_gm(dst, src, {params.blockCount, bytes, from_step, bytes + params.dstStride}, "DataCopyPad", where);
}
template <typename T>
void DataCopyPad(const GlobalTensor<T> &dst, const LocalTensor<T> &src, const DataCopyParams &params,
                 convgrad_tile::Where where = {}) {
    DataCopyPad(dst, src, DataCopyExtParams(params.blockCount, params.blockLen, params.srcStride, params.dstStride, 0), where);
}

/* ---- a few vector instructions */
template <typename T>
void Duplicate(const LocalTensor<T> &dst, const T &scalarValue, const int32_t count, convgrad_tile::Where where = {}) {
    const int64_t size = static_cast<int64_t>(sizeof(T));
    uint8_t *to = count > 0 ? dst.cgt_bytes(0, count * size, "Duplicate", where) : nullptr;
    for (int64_t at = 0; to && at < count; ++at) std::memcpy(to + at * size, static_cast<const void *>(&scalarValue), sizeof(T));
}
/* `mask` elements of each repeat of 256 bytes; strides in blocks. */
template <typename T>
void Duplicate(const LocalTensor<T> &dst, const T &scalarValue, uint64_t mask, const uint8_t repeatTimes, const uint16_t dstBlockStride,
               const uint8_t dstRepeatStride, convgrad_tile::Where where = {}) {
    const int64_t size = static_cast<int64_t>(sizeof(T)), per_block = convgrad_tile::kBlockBytes / size;
    for (int64_t repeat = 0; repeat < repeatTimes; ++repeat)
        for (int64_t at = 0; at < static_cast<int64_t>(mask) && at < 8 * per_block; ++at) {
            const int64_t block = repeat * dstRepeatStride + at / per_block * dstBlockStride;
            uint8_t *to = dst.cgt_bytes(block * convgrad_tile::kBlockBytes + at % per_block * size, size, "Duplicate", where);
            if (!to) return;
            std::memcpy(to, static_cast<const void *>(&scalarValue), sizeof(T));
        }
}

/* The mask by bits, 64 elements a word. */
template <typename T>
void Duplicate(const LocalTensor<T> &dst, const T &scalarValue, const uint64_t mask[], const uint8_t repeatTimes,
               const uint16_t dstBlockStride, const uint8_t dstRepeatStride, convgrad_tile::Where where = {}) {
    const int64_t per_block = convgrad_tile::kBlockBytes / static_cast<int64_t>(sizeof(T));
    for (uint32_t repeat = 0; repeat < repeatTimes; ++repeat)
        for (int64_t at = 0; at < 8 * per_block; ++at) {
            const int64_t block = repeat * dstRepeatStride + at / per_block * dstBlockStride;
            if (mask[at / 64] >> at % 64 & 1)
                dst.SetValue(static_cast<uint32_t>(block * per_block + at % per_block), scalarValue, where);
        }
}

struct TransDataTo5HDParams {
    bool dstHighHalf = false, srcHighHalf = false;
    uint8_t repeatTimes = 1;
    uint16_t dstRepStride = 0, srcRepStride = 0;
    TransDataTo5HDParams() = default;
    TransDataTo5HDParams(bool dstHigh, bool srcHigh, uint8_t repeats, uint16_t dstStride, uint16_t srcStride)
        : dstHighHalf(dstHigh), srcHighHalf(srcHigh), repeatTimes(repeats), dstRepStride(dstStride), srcRepStride(srcStride) {}
};
/* Sixteen rows of sixteen 16-bit elements become columns: dst[j][i] = src[i][j], repeat after repeat. */
template <typename T>
void TransDataTo5HD(const LocalTensor<T> (&dstList)[16], const LocalTensor<T> (&srcList)[16], const TransDataTo5HDParams &params,
                    convgrad_tile::Where where = {}) {
    static_assert(sizeof(T) == 2, "TransDataTo5HD turns 16 x 16 elements of 16 bits here");
    for (int64_t repeat = 0; repeat < params.repeatTimes; ++repeat) {
        uint16_t square[16][16];
        const int64_t from = repeat * params.srcRepStride * convgrad_tile::kBlockBytes;
        const int64_t to = repeat * params.dstRepStride * convgrad_tile::kBlockBytes;
        for (int row = 0; row < 16; ++row) {
            const uint8_t *source = srcList[row].cgt_bytes(from, sizeof square[row], "TransDataTo5HD", where);
            if (!source) return;
            std::memcpy(square[row], source, sizeof square[row]);
        }
        for (int column = 0; column < 16; ++column) {
            uint8_t *target = dstList[column].cgt_bytes(to, sizeof square[0], "TransDataTo5HD", where);
            if (!target) return;
            for (int row = 0; row < 16; ++row) std::memcpy(target + 2 * row, &square[row][column], 2);
        }
    }
}
/* The same with addresses, as GetPhyAddr gives them; these are not checked. */
template <typename T>
void TransDataTo5HD(const uint64_t *dstList, const uint64_t *srcList, const TransDataTo5HDParams &params) {
    static_assert(sizeof(T) == 2, "TransDataTo5HD turns 16 x 16 elements of 16 bits here");
    for (uint64_t repeat = 0; repeat < params.repeatTimes; ++repeat) {
        uint16_t square[16][16];
        for (int row = 0; row < 16; ++row)
            std::memcpy(square[row], reinterpret_cast<const void *>(srcList[row] + repeat * params.srcRepStride * 32), sizeof square[row]);
        for (int column = 0; column < 16; ++column)
            for (uint64_t row = 0; row < 16; ++row)
                std::memcpy(reinterpret_cast<void *>(dstList[column] + repeat * params.dstRepStride * 32 + 2 * row),
                            &square[row][column], 2);
    }
}

/* ---- the cube's own instructions, enough for tiles of zeros: fractals of 16 x 16 */
template <typename T>
struct InitConstValueParams {
    uint16_t repeatTimes = 0, blockNum = 0, dstGap = 0;
    T initValue = T(0);
    InitConstValueParams() = default;
    InitConstValueParams(uint16_t repeats, uint16_t blocks, uint16_t gap, T value)
        : repeatTimes(repeats), blockNum(blocks), dstGap(gap), initValue(value) {}
    InitConstValueParams(uint16_t repeats, T value) : repeatTimes(repeats), blockNum(1), dstGap(0), initValue(value) {}
};
/* Blocks are 32 bytes in L1 and 512 in L0. */
template <typename T, typename U = T>
void InitConstValue(const LocalTensor<T> &dst, const InitConstValueParams<U> &params, convgrad_tile::Where where = {}) {
    const int64_t block = dst.GetPosition() == TPosition::A2 || dst.GetPosition() == TPosition::B2 ? 512 : 32;
    const T value = static_cast<T>(params.initValue);
    for (int64_t repeat = 0; repeat < params.repeatTimes; ++repeat) {
        const int64_t bytes = params.blockNum * block;
        uint8_t *to = dst.cgt_bytes(repeat * (bytes + params.dstGap * block), bytes, "InitConstValue", where);
        if (!to) return;
        for (int64_t at = 0; at < bytes; at += static_cast<int64_t>(sizeof(T)))
            std::memcpy(to + at, static_cast<const void *>(&value), sizeof(T));
    }
}

struct MmadParams {
    uint16_t m = 0, n = 0, k = 0;
    bool isBias = false;
    int32_t fmOffset = 0;
    bool enSsparse = false, enWinogradA = false, enWinogradB = false;
    int8_t unitFlag = 0;
    bool kDirectionAlign = false, cmatrixSource = false, cmatrixInitVal = true;
    MmadParams() = default;
    MmadParams(uint16_t mIn, uint16_t nIn, uint16_t kIn, uint8_t unitFlagIn, bool cmatrixSourceIn, bool cmatrixInitValIn)
        : m(mIn), n(nIn), k(kIn), unitFlag(static_cast<int8_t>(unitFlagIn)), cmatrixSource(cmatrixSourceIn),
          cmatrixInitVal(cmatrixInitValIn) {}
};
/* A in L0A as [m/16][k/16][16][16], B in L0B as [k/16][n/16][16 of n][16 of k], C in L0C as [n/16][m rounded up][16]. */
template <typename C, typename A, typename B>
void Mmad(const LocalTensor<C> &dst, const LocalTensor<A> &fm, const LocalTensor<B> &filter, const MmadParams &params,
          convgrad_tile::Where where = {}) {
    static_assert(sizeof(A) == 2 && std::is_same<A, B>::value && std::is_same<C, float>::value, "Mmad takes half or bfloat16_t here");
    const int64_t m16 = (params.m + 15) / 16, n16 = (params.n + 15) / 16, k16 = (params.k + 15) / 16;
    const uint8_t *a = fm.cgt_bytes(0, m16 * k16 * 512, "Mmad", where);
    const uint8_t *b = a ? filter.cgt_bytes(0, k16 * n16 * 512, "Mmad", where) : nullptr;
    uint8_t *c = b ? dst.cgt_bytes(0, n16 * m16 * 1024, "Mmad", where) : nullptr;
    if (!c) return;
    const auto element = [](const uint8_t *from, int64_t at) {
        A value;
        std::memcpy(static_cast<void *>(&value), from + at * 2, 2);
        return static_cast<float>(value);
    };
    for (int64_t i = 0; i < m16 * 16; ++i)
        for (int64_t j = 0; j < n16 * 16; ++j) {
            uint8_t *to = c + ((j / 16 * m16 * 16 + i) * 16 + j % 16) * 4;
            float sum = 0;
            if (!params.cmatrixInitVal) std::memcpy(&sum, to, sizeof sum);
            for (int64_t k = 0; k < params.k; ++k)
                sum += element(a, ((i / 16 * k16 + k / 16) * 16 + i % 16) * 16 + k % 16) *
                       element(b, ((k / 16 * n16 + j / 16) * 16 + j % 16) * 16 + k % 16);
            std::memcpy(to, &sum, sizeof sum);
        }
}
template <typename C, typename A, typename B>
void MmadImpl(const LocalTensor<C> &dst, const LocalTensor<A> &fm, const LocalTensor<B> &filter, const MmadParams &params,
              convgrad_tile::Where where = {}) {
    Mmad(dst, fm, filter, params, where);
}

enum class CO2Layout : uint8_t { NZ = 0, ROW_MAJOR, COLUMN_MAJOR };
struct FixpipeConfig {
    CO2Layout format;
};
inline constexpr FixpipeConfig CFG_NZ = {CO2Layout::NZ};
inline constexpr FixpipeConfig CFG_ROW_MAJOR = {CO2Layout::ROW_MAJOR};

}  // namespace AscendC

enum QuantMode_t { NoQuant = 0, F322F16, F322BF16 };

namespace AscendC {

struct FixpipeParamsV220 {
    uint16_t nSize = 0, mSize = 0, srcStride = 0;
    uint32_t dstStride = 0;
    QuantMode_t quantPre = QuantMode_t::NoQuant;
    uint64_t deqScalar = 0;
    uint16_t ndNum = 1, srcNdStride = 0, dstNdStride = 0;
    bool reluEn = false;
    uint8_t unitFlag = 0;
    bool isChannelSplit = false;
    FixpipeParamsV220() = default;
    FixpipeParamsV220(uint16_t n, uint16_t m, uint16_t srcStrideIn, uint32_t dstStrideIn, bool relu)
        : nSize(n), mSize(m), srcStride(srcStrideIn), dstStride(dstStrideIn), reluEn(relu) {}
};

/* From L0C to global memory, rounded once. Rows after each other (dstStride in elements), or blocks of 16 columns (dstStride
 * in blocks of 32 bytes from one to the next); srcStride is the rows from one block of columns to the next in L0C. */
template <typename T, typename U, const FixpipeConfig &config = CFG_ROW_MAJOR>
void Fixpipe(const GlobalTensor<T> &dst, const LocalTensor<U> &src, const FixpipeParamsV220 &params, convgrad_tile::Where where = {}) {
    static_assert(std::is_same<U, float>::value, "Fixpipe takes float tiles of L0C here");
    static_assert(config.format != CO2Layout::COLUMN_MAJOR, "Fixpipe stores rows or blocks of columns here");
    const int64_t size = static_cast<int64_t>(sizeof(T));
    for (int64_t i = 0; i < params.mSize; ++i)
        for (int64_t j = 0; j < params.nSize; ++j) {
            const uint8_t *from = src.cgt_bytes(((j / 16 * params.srcStride + i) * 16 + j % 16) * 4, 4, "Fixpipe", where);
            if (!from) return;
            float value;
            std::memcpy(&value, from, sizeof value);
            if (params.reluEn && value < 0) value = 0;
            const T stored = static_cast<T>(value);
            const int64_t at = config.format == CO2Layout::ROW_MAJOR ? (i * params.dstStride + j) * size
                                                                     : j / 16 * params.dstStride * 32 + (i * 16 + j % 16) * size;
            convgrad_tile::store_bytes(dst, at, reinterpret_cast<const uint8_t *>(&stored), size, "Fixpipe", where);
        }
}

/* ---- order inside a core: pipes run one after the other here, so only what would hang is told */
template <HardEvent event>
void SetFlag(int32_t eventID) {
    ++convgrad_tile::events_set()[{static_cast<int>(event), eventID}];
}
template <HardEvent event>
void WaitFlag(int32_t eventID, convgrad_tile::Where where = {}) {
    int &set = convgrad_tile::events_set()[{static_cast<int>(event), eventID}];
    if (set > 0) --set;
    else cgt_found("sync.event", "WaitFlag: the event was not set; SetFlag of the same event and number comes first, on hardware this waits for ever",
                   where);
}
template <pipe_t pipe>
void PipeBarrier() {}
/* Global memory is seen by every core at once here: nothing is cached. */
enum class CacheLine { SINGLE_CACHE_LINE = 0, ENTIRE_DATA_CACHE };
enum class DcciDst { CACHELINE_ALL = 0, CACHELINE_UB, CACHELINE_OUT, CACHELINE_ATOMIC };
enum class MemDsbT { ALL = 0, DDR, UB, SEQ };
template <typename T, CacheLine entireType, DcciDst dcciDst = DcciDst::CACHELINE_OUT>
void DataCacheCleanAndInvalid(const GlobalTensor<T> &) {}
template <MemDsbT type>
void DataSyncBarrier() {}
/* Stores to global memory (DataCopy, DataCopyPad, Fixpipe) add to it. */
template <typename T>
void SetAtomicAdd() {
    convgrad_tile::adds_to_memory() = true;
}
inline void SetAtomicNone() { convgrad_tile::adds_to_memory() = false; }
/* Operands are 16 bits: HF32 has nothing to round. */
inline void SetHF32Mode(bool) {}
inline void SetHF32TransMode(bool) {}

}  // namespace AscendC

#endif
