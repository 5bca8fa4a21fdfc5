// What the files of this planner share.
#pragma once

#include "paths/gemm_data/plan.h"

namespace cg {

void fill_classes(const Gather& g, const cg_problem& p, bool to_fine, const PassList& list, index_t number,
                  ClassSet* set);

// pixel_blocks.cpp
index_t block_columns(const GatherPass& pass, const Blocks& b, const Spread spread[3], index_t panel);
index_t pixels_wanted(const Gather& g, const ClassSet& classes, int path);
void choose_blocks(const Gather& g, const index_t extent[4], index_t target, const Spread spread[3], index_t panel,
                   int threads, GatherPass* pass);
void deepen_blocks(const Spread spread[3], index_t panel, int threads, GatherPass* pass);

// What the machine's vectors make of the costs: multiplications in the time AVX2 takes for one, where copying takes as
// long as there; and how much longer a multiplication takes over packed panels, whose small blocks read the weights
// again and again, and over images side by side, whose taps are listed panel by panel. Fitted to eleven layers.
struct VectorCosts {
    int lanes;
    double speed, packed, images;
};
VectorCosts vector_costs(const Call& call);

bool reading_beats_packing(const cg_problem& p, bool to_fine, const VectorCosts& costs);

// images.cpp
Blocks image_blocks(const ClassSet& set, const Gather& g, const index_t extent[4]);
void share_lines(const Spread spread[3], index_t panel, int threads, GatherPass* pass);
bool images_beat_packing(const cg_problem& p, bool to_fine, const VectorCosts& costs);

}  // namespace cg
