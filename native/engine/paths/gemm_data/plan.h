// Data gradients as an implicit matrix product: passes over the output, blocks of the reduction, chunks of output
// channels.
#pragma once

#include "blocking/gather.h"
#include "blocking/tile_size.h"
#include "scratch.h"

namespace cg {

struct Call;
struct Plan;

// One pass over the output: blocks of pixels, blocks of the reduction, chunks of output channels.
struct GatherPass {
    ClassSet classes;
    int64_t max_taps, sum_taps;  // of one class, of all classes, in one tap group
    index_t tap_groups[3];       // the window is cut into boxes when the tile or the reduction would not fit
    index_t channel_block;       // reduced channels per K block (fixes the order of the sum: problem only)
    bool paired;                 // two channels at a time, tap by tap; otherwise channel after channel
    index_t chain;               // steps, about, that one chain of multiply-adds sums
    index_t plain_chain;         // channels of a chain where sums go as those of the plain loops; otherwise 0
    bool direct;                 // microkernel reads the tile itself; otherwise panels are packed from it
    bool side_by_side;           // images are, in the tile: a vector is a few pixels of one row of one or several
    int mr, nr_vectors;          // register tile
    Blocks blocks;
    index_t span[3], slots[3];   // of the tile of every tap group
    index_t shared_columns;      // of padding, between two rows of the tile
    index_t tile_channel;        // floats of one channel of the largest tile
    index_t columns;             // padded pixel columns of the largest block, per class
    index_t chunk_rows, chunks;  // output channels per packed weight chunk, chunks per group
    index_t reduction;           // K: sum over tap groups of channels * taps, all classes
    bool weights_in_place;       // too few columns to pack weights for: the microkernel reads the tensor
    bool shared_weights;         // chunk weights packed once for all threads; otherwise per task
    index_t chunks_at_once;      // chunks packed together
    index_t groups_at_once;      // groups of one chunk that a task computes, their tiles filled together
    index_t row_splits;          // tasks per (chunk, block)
    Booking task, shared;
    Piece<float> tile, accumulators;
    Piece<float> panels;   // packed from the tile
    Piece<int> offsets;    // tile cell of every step
    Piece<int> steps;      // Step, two int each
    Piece<int> pixels;     // tile cells of columns, and Eight
    Piece<int> strips;     // first columns
    Piece<float> plane;    // where classes or images are put in order before they are written
    Piece<float> weights;  // packed by a task for itself
    Piece<float> flipped;  // depthwise rows: the window of a channel
    Piece<int> planes;     // depthwise rows: tile cells of the window's planes
    Piece<float> packed;   // shared: weights packed for all tasks
};

struct PassList {  // enumerates the passes of a gather without storing them
    bool merged[3];
    index_t count[3], total;
    bool zero_first;  // some output cells meet no tap and are in no pass
};

// The passes of a data contraction. The first one is planned here; others, where there are any, when their turn comes.
struct DataPlan {
    Gather g;
    PassList list;
    GatherPass first;
};

PassList list_passes(const cg_problem& p, bool to_fine, int path);
bool plan_pass(const Gather& g, const cg_problem& p, bool to_fine, const PassList& list, index_t number, int lanes,
               int threads, int path, GatherPass* pass);
// Reduced channels, with all of their taps, that one chain of multiply-adds sums: whole pairs where they are paired.
index_t chain_channels(const GatherPass& pass, index_t taps);

namespace gemm_data {
bool accepts(const Call& call, Plan* draft);
bool prefers_images(const Call& call, Plan* draft);
bool prefers_direct(const Call& call, Plan* draft);
void plan(const Call& call, int path, Plan* plan);
void plan_images(const Call& call, Plan* plan);
void plan_direct(const Call& call, Plan* plan);
size_t workspace(const Call& call, const Plan& plan);
void cuts(const Call& call, const Plan& plan, int64_t cuts[CG_CUTS]);
}  // namespace gemm_data

}  // namespace cg
