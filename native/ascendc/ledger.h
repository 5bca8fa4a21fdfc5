// What happened to the bytes of a region, a cell for every two of them: the rows of the Python ledger.
//
// Tiles are stored in runs of 16 lanes, so neighbouring cells mostly have one history: a run of 32 bytes is one cell
// until a part of it is touched alone. A filter kernel that adds often spent half of its time on single cells.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <unordered_map>
#include <vector>

namespace convgrad {
namespace tile {

struct Cell {
    uint8_t stores = 0, adds = 0;  // up to 255
    uint8_t flags = 0;
    bool split = false;                          // of a run: its cells have histories of their own
    int16_t last = -1, plain = -1, filler = -1;  // cores: of the last store or add, the last store, the last fill
    uint16_t last_clock = 0, plain_clock = 0, fill_clock = 0;
};
static_assert(sizeof(Cell) == 16, "cells without gaps are compared byte by byte");
inline bool operator==(const Cell& a, const Cell& b) { return std::memcmp(&a, &b, sizeof a) == 0; }
enum CellFlag : uint8_t { kTwoCores = 1, kOverwritten = 2, kZeroedLate = 4, kAddedBlind = 8, kRacing = 16 };

class Ledger {
public:
    // So many cells, of which the first `zeroed` are zero when the launch begins: no whole run lies on both sides.
    void make(int64_t cells, int64_t zeroed) {
        if (!runs_.empty()) return;
        runs_.resize(static_cast<size_t>(cells / kRun + 1));
        if (zeroed % kRun != 0) split(zeroed / kRun);
    }
    const Cell& at(int64_t cell) const {
        const Cell& run = runs_[static_cast<size_t>(cell / kRun)];
        return run.split ? cells_.at(cell / kRun)[static_cast<size_t>(cell % kRun)] : run;
    }
    // change(cell, its number) for each history among the cells from `first` up to `last`.
    template <class Change> void change(int64_t first, int64_t last, Change change) {
        while (first < last) {
            const int64_t run = first / kRun, end = std::min(last, (run + 1) * kRun);
            Cell& whole = runs_[static_cast<size_t>(run)];
            if (!whole.split && end - first == kRun) change(whole, first);
            else
                for (Cells& cells = split(run); first < end; ++first)
                    change(cells[static_cast<size_t>(first % kRun)], first);
            first = end;
        }
    }
    // Where the history of a cell ends, at most `last`.
    int64_t end_of(int64_t cell, int64_t last) const {
        const int64_t run = cell / kRun;
        return runs_[static_cast<size_t>(run)].split ? cell + 1 : std::min(last, (run + 1) * kRun);
    }

private:
    static constexpr int64_t kRun = 16;
    using Cells = std::array<Cell, kRun>;

    Cells& split(int64_t run) {
        Cell& whole = runs_[static_cast<size_t>(run)];
        Cells& cells = cells_[run];
        if (!whole.split) cells.fill(whole), whole.split = true;
        return cells;
    }
    std::vector<Cell> runs_;
    std::unordered_map<int64_t, Cells> cells_;  // of runs that are split
};

}  // namespace tile
}  // namespace convgrad
