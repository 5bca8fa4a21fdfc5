// Mistakes that authors make, put into documented_input.cpp by name: the variable MISTAKE chooses one.
#pragma once

#include <cstdlib>
#include <cstring>

inline bool mistaken(const char *name) {
    const char *chosen = std::getenv("MISTAKE");
    return chosen && std::strcmp(chosen, name) == 0;
}

#define MISTAKE(place) MISTAKE_##place
#define MISTAKE_init                                                               \
    if (mistaken("init_twice")) gradInput_.Init(&(tilingData->conv3DDxTiling));    \
    if (mistaken("set_value")) gradInputGm_.SetValue(uint64_t(1) << 40, NUMBER(0));
#define MISTAKE_sync                                          \
    if (mistaken("vector_meeting")) SyncAll();                \
    if (mistaken("one_misses") && GetBlockIdx() == 1) return; \
    if (mistaken("no_meeting")) { /* goes on */               \
    } else
#define MISTAKE_offsets                                                                    \
    if (mistaken("plane_in_c")) offsetC_ += uint64_t(dinStartIdx_) * t.cin1 * t.hi * t.wi * t.c0; \
    if (mistaken("row_itself")) curHoStartIdx_ += t.backpropPadUp;                         \
    if (mistaken("row_of_a")) offsetA_ += uint64_t(t.wo) * t.c0;                           \
    if (mistaken("past_the_end")) offsetC_ += uint64_t(1) << 40;                           \
    if (mistaken("swapped")) singleShapeN_ = singleShapeK_, singleShapeK_ = 16;            \
    if (mistaken("fill_on_cube")) Fill<uint16_t>(zeros_, 0, 0);
#define MISTAKE_tile                                                       \
    if (mistaken("tile_not_taken")) gradInput_.Iterate();                  \
    if (mistaken("taken_twice")) gradInput_.GetTensorC(gradInputGm_[offsetC_]); \
    if (mistaken("atomic")) gradInput_.GetTensorC(gradInputGm_[offsetC_], 2);   \
    if (mistaken("sequential")) gradInput_.GetTensorC(gradInputGm_[offsetC_], 0, true); \
    if (mistaken("set_mid_walk")) gradInput_.SetWeight(weightGm_);
#define MISTAKE_walk \
    if (mistaken("first_iter")) gradInput_.ctx.isFirstIter_ = false;
#define MISTAKE_end                        \
    if (mistaken("no_end")) return;        \
    if (mistaken("end_twice")) gradInput_.End();
