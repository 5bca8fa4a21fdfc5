#include "records.h"

#include <algorithm>

#include "tiling.h"

namespace convgrad {
namespace tile {
namespace {

Whole slack(Whole size, Whole out, Whole window, Whole stride, Whole dilation, Whole pads) {
    return size + pads - ((window - 1) * dilation + 1) - (out - 1) * stride;
}
template <class Record> Whole slack_planes(const Record& t) {
    return slack(t.di, t.dout, t.dk, t.strideD, t.dilationD, Whole(t.padFront) + t.padBack);
}
template <class Record> Whole slack_rows(const Record& t) {
    return slack(t.hi, t.ho, t.hk, t.strideH, t.dilationH, Whole(t.padUp) + t.padDown);
}
template <class Record> Whole slack_columns(const Record& t) {
    return slack(t.wi, t.wo, t.wk, t.strideW, t.dilationW, Whole(t.padLeft) + t.padRight);
}
template <class Record> Whole l0_buffers(const Record& t) { return least(t.al0Pbuffer, t.bl0Pbuffer); }
template <class Record> Whole l0a_bytes(const Record& t) {
    return Whole(t.baseM) * t.baseK * element_bytes(t) * l0_buffers(t);
}
template <class Record> Whole l0b_bytes(const Record& t) {
    return Whole(t.baseK) * t.baseN * element_bytes(t) * l0_buffers(t);
}
template <class Record> Whole l0c_bytes(const Record& t) { return Whole(t.baseM) * t.baseN * 4 * t.cl0Pbuffer; }

// Zero cells after the expanded gradOutput; outside 0...255 the unexpanded difference stands instead.
Whole trailing_pad(Whole size, Whole out, Whole stride, Whole pad_before) {
    const Whole exact = size - ((out - 1) * stride + 1) + pad_before;
    return exact >= 0 && exact <= 255 ? exact : most(0, size - out * stride + pad_before);
}
Whole trailing_pad_rows(const InputRecord& t) { return trailing_pad(t.hi, t.ho, t.strideH, t.padUp); }
Whole trailing_pad_columns(const InputRecord& t) { return trailing_pad(t.wi, t.wo, t.strideW, t.padLeft); }
Whole trailing_pad_planes(const InputRecord& t) { return trailing_pad(t.di, t.dout, t.strideD, t.padFront); }

bool reached(const InputRecord& t, int64_t plane) {
    for (int64_t kd = 0; kd < t.dk; ++kd)
        if (depth_tap(t, plane, kd) >= 0) return true;
    return false;
}

// Some gradInput plane has no window plane, or some bottom rows lie past the last window. Between the edges every plane
// is like the one a stride before it. A record with more planes and taps than any memory holds is not judged here.
bool leaves_elements_unwritten(const InputRecord& t) {
    if (slack_rows(t) > t.padDown) return true;
    const Whole first_end = least(t.di, (Whole(t.dk) - 1) * t.dilationD + t.strideD);
    const Whole last_start = most(0, (Whole(t.dout) - 1) * t.strideD - t.padFront - t.strideD);
    const Whole work = (first_end + most(0, Whole(t.di) - last_start)) * t.dk;
    if (work > (1 << 26)) return false;
    for (int64_t plane = 0; plane < first_end.clamped(); ++plane)
        if (!reached(t, plane)) return true;
    for (int64_t plane = last_start.clamped(); plane < t.di; ++plane)
        if (!reached(t, plane)) return true;
    return false;
}

Whole a1_bytes(const InputRecord& t) {
    return least(window_rows(t), expanded_rows(t)) * t.wo * t.strideW * (Whole(t.stepKa) * t.baseK / window_area(t)) *
           element_bytes(t);
}
Whole b1_bytes(const InputRecord& t) { return Whole(t.stepN) * t.baseN * t.stepKb * t.baseK * element_bytes(t); }
Whole a1_bytes(const FilterRecord& t) { return Whole(t.stepM) * t.baseM * t.stepKa * t.baseK * element_bytes(t); }
Whole b1_bytes(const FilterRecord& t) { return Whole(t.bl1Bound) * element_bytes(t); }
template <class Record> Whole l1_bytes(const Record& t) {
    return a1_bytes(t) * t.al1Pbuffer + b1_bytes(t) * t.bl1Pbuffer;
}

// Input elements that one L1 load touches at most.
Whole input_of_one_load(const FilterRecord& t) {
    return input_elements_in_l1(t, Whole(t.stepKb) * t.baseK, Whole(t.stepN) * t.baseN);
}

#include "../generated/tile_checks.inc"

template <class Record, size_t count>
Broken first_broken(const CheckRow<Record> (&rows)[count], const Record& record, const Sizes& sizes) {
    Broken found;
    int group = 0;
    for (const CheckRow<Record>& row : rows) {
        if (row.group != group && !found.ok()) break;
        group = row.group;
        const Whole value = row.value(record);
        if (row.store ? value <= sizes.*row.store : value != 0) continue;
        std::string got = row.shown(record);
        if (row.store) got += " = " + text(value) + " bytes of " + text(sizes.*row.store);
        found.text += (found.ok() ? "" : "; ") + std::string(row.demand) + ", got " + got;
        if (found.ok()) found.rule = row.rule;
    }
    return found;
}

}  // namespace

Whole rows_of_tile(Whole positions, Whole columns) {
    if (positions >= columns) return positions / columns + (positions % columns != 0 ? 2 : 0);
    return columns % positions == 0 ? 1 : 2;
}

Whole window_rows(const InputRecord& t) {
    return rows_of_tile(t.baseM, t.wi) - 1 + (Whole(t.hk) - 1) * t.dilationH + 1;
}

Whole expanded_rows(const InputRecord& t) { return (Whole(t.ho) - 1) * t.strideH + 1; }

int64_t depth_tap(const InputRecord& t, int64_t plane, int64_t kd) {
    const Whole reach = Whole(plane) + t.padFront - Whole(kd) * t.dilationD;
    const bool tied = reach >= 0 && reach % t.strideD == 0 && reach / t.strideD < t.dout;
    return tied ? (reach / t.strideD).clamped() : -1;
}

Whole input_elements_in_l1(const FilterRecord& t, Whole k_length, Whole columns) {
    const Whole per_block = window_area(t) * t.channelSize, rows = rows_of_tile(k_length, t.wo);
    const Whole input_rows = least(t.hi, (rows - 1) * t.strideH + (Whole(t.hk) - 1) * t.dilationH + 1);
    const Whole blocks = columns / per_block + (columns % per_block == 0 ? 0 : 2);
    return input_rows * t.wi * least(blocks, t.cin1G) * t.channelSize;
}
Whole l1_bytes_of(const FilterRecord& t) { return l1_bytes(t); }
bool some_elements_stay_unwritten(const InputRecord& t) { return leaves_elements_unwritten(t); }
Whole trailing_pad_of(Whole size, Whole out, Whole stride, Whole pad_before) {
    return trailing_pad(size, out, stride, pad_before);
}

Broken check(const InputRecord& record, const Sizes& sizes) { return first_broken(kInputChecks, record, sizes); }
Broken check(const FilterRecord& record, const Sizes& sizes) { return first_broken(kFilterChecks, record, sizes); }

}  // namespace tile
}  // namespace convgrad
