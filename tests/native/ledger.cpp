// The ledger of a region beside cells kept one by one: random stretches, whole runs and parts of them, have equal
// histories.
#include "ledger.h"

#include <cstdio>
#include <random>

using namespace convgrad::tile;

int main() {
    std::mt19937 random(1);
    auto below = [&](int64_t most) { return static_cast<int64_t>(random() % static_cast<uint64_t>(most)); };
    for (int round = 0; round < 400; ++round) {
        const int64_t cells = 1 + below(400), zeroed = below(cells + 1);
        Ledger ledger;
        ledger.make(cells, zeroed);
        std::vector<Cell> plain(static_cast<size_t>(cells));
        for (int step = below(60); step > 0; --step) {
            int64_t first = below(cells + 1), last = first + below(cells - first + 1);
            if (below(2)) first = first / 16 * 16, last = std::max(first, last / 16 * 16);
            auto change = [&](Cell& cell, int64_t number) {
                cell.stores = static_cast<uint8_t>(cell.stores + 1);
                cell.last = static_cast<int16_t>(step);
                if (number >= zeroed) cell.flags |= kAddedBlind;
            };
            ledger.change(first, last, change);
            for (int64_t cell = first; cell < last; ++cell) change(plain[static_cast<size_t>(cell)], cell);
        }
        int64_t end = 0;
        for (int64_t cell = 0; cell < cells; ++cell) {
            const Cell &kept = ledger.at(cell), &expected = plain[static_cast<size_t>(cell)];
            const bool equal =
                kept.stores == expected.stores && kept.last == expected.last && kept.flags == expected.flags;
            if (cell == end) end = ledger.end_of(cell, cells);
            else if (!(kept == ledger.at(cell - 1)) || cell == zeroed)
                return std::printf("round %d: cut at %d\n", round, int(cell)), 1;
            if (!equal || end <= cell || end > cells) return std::printf("round %d: cell %d\n", round, int(cell)), 1;
        }
    }
    return 0;
}
