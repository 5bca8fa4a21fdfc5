// Every number that decides how loops are cut, with its reason. All planners read them here.
#pragma once

#include "numbers/integers.h"

namespace cg {

// Floats. A task holds a tile, a packed block and an output block in a 512 KiB L2 plus some L3.
const index_t TILE_FLOATS = 64 << 10;
const index_t ACCUMULATOR_FLOATS = 256 << 10;
const index_t SHARED_FLOATS = 1100 << 10;  // packed weights, or partial weight gradients, of all threads
const size_t TASK_BYTES = 4 << 20;         // of scratch memory, at most: what a thread is promised to cost

enum { CACHE_LINE = 16 };  // floats

// gemm_data
const index_t LOCAL_WEIGHT_FLOATS = 45000;  // weights a task walks through per packed block: 180 KB of L2
const index_t REDUCTION_BLOCK = 240;        // KC, steps of a K block: a panel of 240 x 16 floats stays in L1
const double IN_PLACE_PIXELS = 256;         // up to so many pixels weights are read in place: packing would cost more

// Rows along another axis than the width (problem.h). From 32 cells on rows fill vectors whatever the batch: 24 of them
// were up to three times slower, 32 up to eight times faster (k3x31 on 32x32). Shares of taps that meet the source at
// which it pays were measured with AVX2, AVX-512 and pairs of bfloat16: 1.1 to 8 times on 19 shapes.
const index_t MIN_TURNED_ROW = 32, LONG_TURNED_ROW = 64, MIN_TURNED_CHANNELS = 8, MAX_TURNED_TAPS = 1024;
const double TURNED_SHARE = 0.6, LONG_TURNED_SHARE = 0.76, FULL_ROW_SHARE = 0.9;

// plain: below so many multiplications the tables and tiles of the other paths cost more than the sum itself.
const double PLAIN_MULTIPLICATIONS = 4096;

// gemm_weight, few_channels: pixels of a block, before rows are kept whole.
const index_t WEIGHT_BLOCK_PIXELS = 256;        // packed coarse values of a block stay in L1 and L2
const index_t LARGE_RESULT_BLOCK_PIXELS = 448;  // results beyond 2 MB: each is loaded and stored less often
const index_t WIDE_WINDOW_BLOCK_PIXELS = 1024;  // few taps far from each other: most of a small tile would be halo
const index_t NARROW_BLOCK_PIXELS = 800;        // up to eight coarse channels: a packed pixel is small
const index_t MIN_FEW_PIXELS = 192;             // few_channels: smaller blocks for several threads, but not below this
const index_t WEIGHT_TILE_FLOATS = 40000;       // fine cells of a block: 160 KB of L2, beside what is packed
const index_t MAX_WEIGHT_TAPS = 2048;           // of a tap group

const index_t LISTED_TAPS = 32;  // that leave padding out: of each the pixels are listed

// gemm_columns: where it beats gemm_weight, by up to 1.7 times; beyond, packing pays on AVX2 and AVX-512 alike.
const index_t FEW_PIXELS = 56, FEW_IMAGES = 4;

// depthwise_rows
const index_t DEPTHWISE_PIXELS = 2048;           // of a block of a data gradient
const index_t DEPTHWISE_WEIGHT_PIXELS = 4096;    // ... of a weight gradient
const index_t MAX_DEPTHWISE_TAPS = 16384;        // of a tap group
const index_t WIDE_WINDOW = 9;                   // columns from which vectors go along the window
const index_t DEPTHWISE_TASK_FLOATS = 1 << 17;   // tiles and sums of channels copied together: 512 KB
const index_t DEPTHWISE_TASK_PRODUCTS = 400000;  // make a task worth handing out
const index_t DEPTHWISE_TASKS = 64;              // of a weight gradient at least, where a task takes several channels

// depthwise_channels, grouped_channels
const index_t CHANNEL_BLOCK_PIXELS = 1024;  // of a block, before threads are taken into account
const index_t MAX_TAPS_IN_PLACE = 12;       // beyond, a copy without cache-set collisions pays

// winograd
const index_t WINOGRAD_TASK_FLOATS = 960 << 10;   // transformed tiles and sums of a task: what it may hold at most
const index_t WINOGRAD_BLOCK_FLOATS = 256 << 10;  // ... and what it holds where weights stay: 1 MiB of L2
const index_t WINOGRAD_DEPTH = 128;               // reduced channels whose windows a task transforms at a time
const index_t WINOGRAD_WIDEST_PANEL = 32;         // output channels multiplied at once, of the widest vectors
const index_t WINOGRAD_CHUNK = 64;                // coarse x fine channels of a weight gradient, summed together
const index_t WINOGRAD_RUNS = 8;                  // of blocks, summed separately and transformed back
const index_t WINOGRAD_CHANNELS = 16;             // channels come in whole vectors, whatever the machine's
const index_t WINOGRAD_LONG_ROW = 16;             // tiles of four cells in a row that are copied at once
const index_t WINOGRAD_DILATION = 32, WINOGRAD_DEPTH_TAPS = 8;  // at most: a dilation is that many phases
// Multiply-adds in a row, of data gradients (divides WINOGRAD_DEPTH) and of weight gradients. A sum in the transformed
// domain errs with its chain: 64 channels of wide numbers at 2.3 times the error of direct in chains of 64, 2.0 in 32.
enum { WINOGRAD_DATA_CHAIN = 32, WINOGRAD_WEIGHT_CHAIN = 64 };
// Its costs in multiply-adds: of a source cell and of a result or window cell transformed; of a number of a transformed
// window, and of one of a weight gradient that is transformed back. Fitted to 38 problems; direct must cost this much
// more. The batch of the problem whose costs decide about data gradients, whatever their own batch is.
const double WINOGRAD_CELL_IN = 10, WINOGRAD_CELL_OUT = 23, WINOGRAD_WINDOW_IN = 5.5, WINOGRAD_WINDOW_OUT = 7;
// Of lines: a cell, to which the number of roots is added; times WINOGRAD_ACROSS where they do not run along the width;
// a number of a window that is read from L3.
const double WINOGRAD_LINE_IN = 12, WINOGRAD_LINE_OUT = 15, WINOGRAD_ACROSS = 2, WINOGRAD_FAR_WINDOW = 12;
const index_t WINOGRAD_BATCH = 4;
const double WINOGRAD_MARGIN = 0.92;

// bias: runs of lines, at most.
enum { BIAS_PARTS = 16 };

// MR, rows of a register tile two vectors wide: with two vectors and a broadcast they take 15 of 16 registers, and 19
// of the 32 of AVX-512, where whole panels of eight leave no rest of the usual numbers of channels.
enum { MR_OF_16_REGISTERS = 6, MR_OF_32_REGISTERS = 8, MAX_MR = 8 };

// Multiply-adds in a row before a sum is spilled to memory: its error grows with the square root of this.
enum { CHAIN = 72, SHORT_CHAIN = 12 };

namespace {

[[maybe_unused]] inline int mr_of_two_vectors(int lanes) {
    return lanes == 16 ? MR_OF_32_REGISTERS : MR_OF_16_REGISTERS;
}

// Pitch of the accumulators, floats from one row of sums to the next: an odd number of cache lines, or no whole number,
// so that the rows a microkernel has at hand do not fall on a few sets of the cache.
[[maybe_unused]] inline index_t sums_pitch(index_t columns) {
    return columns % (2 * CACHE_LINE) == 0 ? columns + CACHE_LINE : columns;
}

}  // namespace
}  // namespace cg
