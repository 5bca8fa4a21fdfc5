// Winograd's minimal filtering with points on the unit circle: a tile of results from fewer multiplications than one
// per result and tap. See transforms.inl.h for the algebra.
//
//   data gradients     V = transformed source tiles, U = transformed windows, S = U * V summed over channels, results
//   back weight gradients   X = transformed fine tiles, Y = transformed coarse tiles, S = X * Y summed over tiles,
//   windows back
//
// The elementwise product is `products` matrix products. Height and width are transformed (square tiles) or one axis
// alone (lines, oriented() turns it to height or width); the taps of the depth are a sum of such products over planes.
// A dilation is that many interleaved problems (phases).
#pragma once

#include "scratch.h"

namespace cg {

struct Call;
struct Plan;

// The cells that are cut into tiles, and those that are read under the window: source = cell - before + tap * dilation.
struct TileGrid {
    index_t cells[3], source[3], before[3], dilation[3];
    index_t taps;       // of the depth
    index_t tile[3];    // cells of a tile along each axis
    index_t side[3];    // ... and of the source under it: the tile and the window's other taps
    index_t window[3];  // taps of the transformed axes, 1 along the others
    // An item is up to sixteen tiles of one row of tiles, over a run of planes; of all phases of the width, and one of
    // the height.
    index_t images, depth_runs, phases, tile_rows, segments, items;
    index_t run;             // planes of an item
    index_t length;          // tiles along the width, of each phase of it
    index_t tiles;           // of a plane of an item
    index_t source_planes;   // read for a run
    index_t source_columns;  // of a row of an item's tiles, side by side
};

enum WinogradMode {
    WEIGHTS_STAY,  // data gradients: windows transformed once for all; a task is a block of items
    TILES_STAY,    // ... the tiles of many items transformed once; a task is a panel of output channels
    RUNS,          // weight gradients: a task is a run of items and a chunk of channels
    SHARED_TILES   // ... fine tiles of many items transformed at once; a task is a chunk of coarse channels
};

enum WinogradForm {
    SQUARE,  // tiles of height and width: 3x3 and 5x5 windows
    LINE     // tiles along one axis: its three to nine taps
};

struct WinogradPlan {
    int roots;  // of unity: 4, 7 or 8; of lines 4, 8 or 16
    WinogradForm form;
    index_t products;  // of a tile
    WinogradMode mode;
    TileGrid grid;
    index_t block_items;               // items of a block: V and S, or X and Y, of that many
    index_t blocks;                    // of all items
    index_t rows, source_rows;         // tiles of a block: of its cells, of the source planes
    index_t chunk_coarse, chunk_fine;  // weight gradients: channels whose products are summed together
    index_t shared_fine;               // ... fine channels whose tiles are shared
    index_t partials;                  // runs of blocks summed separately (fixes the order of the sum: problem only)
    index_t weights_apart, source_apart, window_apart, sums_apart;  // floats from one product to the next
    Booking task, shared;
    Piece<float> strip;         // cells of one vector of channels: [row][column][channel]
    Piece<float> weights;       // U: [depth tap][product][panel][reduced channel][channel of the panel]
    Piece<float> source;        // V or X: [product][item][plane][tile][channel]
    Piece<float> window;        // Y, like X
    Piece<float> sums;          // S: [product][row][channel]; weights: [depth tap][product][coarse][fine]
    Piece<float> partial_sums;  // shared: [run][coarse][depth tap][tap][fine]
};

namespace winograd {
// The problem whose height or width is the axis that lines run along, whose depth has the taps that are summed; other
// problems as they are.
cg_problem oriented(const cg_problem& p, WinogradForm form);

template <int ROOTS, WinogradForm FORM> bool accepts(const Call& call, Plan* draft);
template <int ROOTS, WinogradForm FORM> bool prefers(const Call& call, Plan* draft);
template <int ROOTS, WinogradForm FORM> void plan(const Call& call, Plan* plan);
size_t workspace(const Call& call, const Plan& plan);
void cuts(const Call& call, const Plan& plan, int64_t cuts[CG_CUTS]);
}  // namespace winograd

}  // namespace cg
