// The data contractions as an implicit matrix product: rows = output channels, columns = output pixels,
// reduction = source channels x taps.
//
//   C[m, pixel] = sum over (r, tap)  weight[r, m, tap] * tile[r][pixel + offset(tap)]
//
// Each element of C is a sum of chains of multiply-adds. Channels follow each other in pairs (where the plan says so):
// for every tap the first and the second channel, so that where both operands are bfloat16, or have no more bits, a
// pair can be one word and one multiplication. Chains begin at channels that depend on the problem only: how pixels and
// output channels are distributed over tasks cannot show.
#pragma once

enum { HEIGHT = LANES == 16 ? WIDE_PANEL_ROWS : PANEL_ROWS };  // of a panel two vectors wide, as the plan says

// One step of a reduction that reads the tile itself: which weights meet which cells.
struct Step {
    int weight, cell;
};

// Where the microkernel finds its operands: both packed; cells in the tile, with all of the packed weights or with
// those of some taps; cells in the tile and weights in their tensor.
enum Reading { PACKED_BOTH, ALL_WEIGHTS, SOME_WEIGHTS, WEIGHTS_IN_PLACE, READINGS };

// Where in a K block of `depth` channels the step of a channel and a tap stands.
static INLINE index_t step_number(index_t depth, index_t taps, bool paired, index_t channel, index_t tap) {
    const bool alone = !paired || channel == depth / 2 * 2;
    return alone ? channel * taps + tap : (channel / 2 * taps + tap) * 2 + channel % 2;
}

// c += a * b for one step of the reduction. A step that begins a chain adds what c held to C first: each vector of c is
// free again before the next one is put aside, so that this costs next to nothing.
template <int MR, int NV, bool PAIRS, bool BEGINS>
static INLINE void gather_step(const float* w, index_t a_row, const float* b, vf (&c)[MR][NV], float* C,
                               index_t c_row) {
    if (MR < NV) {  // hold the broadcasts and stream B: MR*NV + MR + 1 registers
        vf a[MR];
        UNROLL for (int i = 0; i < MR; ++i) a[i] = operand<PAIRS>(w + i * a_row);
        UNROLL for (int j = 0; j < NV; ++j) {
            const vf x = load(b + j * LANES);
            UNROLL for (int i = 0; i < MR; ++i) {
                float* p = C + i * c_row + j * LANES;
                if (BEGINS) store(p, load(p) + c[i][j]);
                c[i][j] = BEGINS ? multiply<PAIRS>(a[i], x) : multiply_add<PAIRS>(a[i], x, c[i][j]);
            }
        }
    } else {  // hold B and stream the broadcasts: MR*NV + NV + 1 registers
        vf x[NV];
        UNROLL for (int j = 0; j < NV; ++j) x[j] = load(b + j * LANES);
        UNROLL for (int i = 0; i < MR; ++i) {
            const vf a = operand<PAIRS>(w + i * a_row);
            UNROLL for (int j = 0; j < NV; ++j) {
                float* p = C + i * c_row + j * LANES;
                if (BEGINS) store(p, load(p) + c[i][j]);
                c[i][j] = BEGINS ? multiply<PAIRS>(a, x[j]) : multiply_add<PAIRS>(a, x[j], c[i][j]);
            }
        }
    }
}

// What the microkernel is told once for a column of panels.
struct PanelColumn {
    index_t depth, chain;    // steps of the reduction; of a chain of multiply-adds
    const Step* steps;
    index_t a_row, a_panel;  // from one row of weights read in place, and from one panel of any, to the next
    index_t c_row, to_row;   // from one row of sums, and of results, to the next
    bool add;                // to the sums of the K blocks before
};

// to[MR][NV*LANES] = (C[MR][NV*LANES] +) sum_k A[k][MR] * B[k][NV*LANES]. The error of a sum grows with its longest chain.
// Chains but the last are added to C; `to` is C itself or, for the last K block, the result.
template <int MR, int NV, int READING, bool PAIRS>
static INLINE void gather_panel(const PanelColumn& panel, const float* __restrict A, const float* __restrict B,
                                float* C, float* to) {
    const index_t depth = panel.depth, chain = panel.chain, c_row = panel.c_row, to_row = panel.to_row;
    const index_t a_row = READING == WEIGHTS_IN_PLACE ? panel.a_row : 1;
    const Step* __restrict steps = panel.steps;
    const bool zero_first = !panel.add && depth > chain, add = panel.add || zero_first;
    // The sums so far wait in L2, and their places in memory, while this block is added up. A result begins anywhere in
    // a cache line: what the panel before wrote is here, what this one ends in may not be.
    UNROLL for (int i = 0; i < MR; ++i)
        UNROLL for (int j = 0; j < NV; ++j) {
            if (zero_first) store(C + i * c_row + j * LANES, vf{});
            else if (add && j * LANES % 16 == 0) __builtin_prefetch(C + i * c_row + j * LANES, 1);
            if ((j + 1) * LANES % 16 == 0 || j + 1 == NV) __builtin_prefetch(to + i * to_row + (j + 1) * LANES - 1, 1);
        }
    vf c[MR][NV];
    UNROLL for (int i = 0; i < MR; ++i)
        UNROLL for (int j = 0; j < NV; ++j) c[i][j] = vf{};
    const auto weights = [&](index_t k) {
        return READING == WEIGHTS_IN_PLACE ? A + steps[k].weight
               : READING == SOME_WEIGHTS   ? A + index_t(steps[k].weight) * MR : A + k * MR;
    };
    const auto cells = [&](index_t k) { return READING == PACKED_BOTH ? B + k * (NV * LANES) : B + steps[k].cell; };
    index_t k = 0;
    index_t end = least(depth, chain);
#pragma GCC unroll 2
    for (; k < end; ++k) gather_step<MR, NV, PAIRS, false>(weights(k), a_row, cells(k), c, C, c_row);
    while (k < depth) {
        end = least(depth, k + chain);
        gather_step<MR, NV, PAIRS, true>(weights(k), a_row, cells(k), c, C, c_row);
        ++k;
#pragma GCC unroll 2
        for (; k < end; ++k) gather_step<MR, NV, PAIRS, false>(weights(k), a_row, cells(k), c, C, c_row);
    }
    UNROLL for (int i = 0; i < MR; ++i)
        UNROLL for (int j = 0; j < NV; ++j) {
            const float* p = C + i * c_row + j * LANES;
            store(to + i * to_row + j * LANES, add ? load(p) + c[i][j] : c[i][j]);
        }
}

// One panel, or several one below the other over the same B: what is between two calls is 1 to 3 % of the time.
typedef void (*GatherKernel)(const PanelColumn&, index_t, const float*, const float*, float*, float*);

template <int MR, int NV, int READING, bool PAIRS>
static void gather_kernel(const PanelColumn& panel, index_t, const float* A, const float* B, float* C, float* to) {
    gather_panel<MR, NV, READING, PAIRS>(panel, A, B, C, to);
}

template <int MR, int NV, int READING, bool PAIRS>
static void gather_panels(const PanelColumn& panel, index_t panels, const float* A, const float* B, float* C, float* to) {
    for (index_t i = 0; i < panels; ++i)
        gather_panel<MR, NV, READING, PAIRS>(panel, A + i * panel.a_panel, B, C + i * MR * panel.c_row,
                                             to + i * MR * panel.to_row);
}

template <int READING, bool PAIRS> static GatherKernel gather_kernel_for(int rows, int vectors) {
#define KERNEL(MR, NV) \
    if (rows == MR && vectors == NV) return gather_kernel<MR, NV, READING, PAIRS>;
    KERNEL(8, 1) KERNEL(7, 1) KERNEL(6, 1) KERNEL(5, 1) KERNEL(4, 1) KERNEL(3, 1) KERNEL(2, 1) KERNEL(1, 1)
    KERNEL(8, 2) KERNEL(7, 2) KERNEL(6, 2) KERNEL(5, 2) KERNEL(4, 2) KERNEL(3, 2) KERNEL(2, 2) KERNEL(1, 2)
    KERNEL(4, 3) KERNEL(3, 3) KERNEL(2, 3) KERNEL(1, 3)
    KERNEL(3, 4) KERNEL(2, 6) KERNEL(1, 8)
#undef KERNEL
    return nullptr;
}

// Up to three rows are one panel: only the other register tiles come one below the other.
template <int READING, bool PAIRS> static GatherKernel gather_panels_for(int rows, int vectors) {
    if (rows == HEIGHT && vectors == 2) return gather_panels<HEIGHT, 2, READING, PAIRS>;
    if (rows == HEIGHT && vectors == 1) return gather_panels<HEIGHT, 1, READING, PAIRS>;
    if (rows == 4 && vectors == 2) return gather_panels<4, 2, READING, PAIRS>;
    if (rows == 4 && vectors == 3) return gather_panels<4, 3, READING, PAIRS>;
    return nullptr;
}

// Eight neighbouring columns of a packed panel: one run of the tile, two runs, or anything.
struct Eight {
    int first, second, split;
};
enum { ONE_RUN = 8, ANY_RUNS = -1, BEYOND = -2 };

// `exact`: nothing may be read beyond the last pixel.
static void describe_columns(const int* pixel, index_t count, index_t padded, bool exact, Eight* eights) {
    for (index_t i = 0; i < padded; i += 8) {
        Eight e{0, 0, BEYOND};
        if (i < count && exact && count - i < 8) {
            e.split = ANY_RUNS;
        } else if (i < count) {
            const int have = int(least(8, count - i));
            int run = 1;
            while (run < have && pixel[i + run] == pixel[i] + run) ++run;
            e.first = pixel[i];
            e.split = ONE_RUN;
            if (run < have) {
                e.second = pixel[i + run] - run;
                e.split = run;
                for (int j = run; j < have; ++j)
                    if (pixel[i + j] != e.second + j) e.split = ANY_RUNS;
            }
        }
        eights[i / 8] = e;
    }
}

static void pack_panels(const float* tile, const int* offset, index_t depth, const int* pixel, index_t count,
                        index_t padded, const Eight* eights, index_t panel, float* to) {
    for (index_t i = 0; i < padded; i += 8) {
        const Eight& e = eights[i / 8];
        float* out = to + i / panel * panel * depth + i % panel;
        if (e.split == ONE_RUN) {
            const float* from = tile + e.first;
            for (index_t k = 0; k < depth; ++k) store8(out + k * panel, load8(from + offset[k]));
        } else if (e.split > 0) {
            u8 first;
            for (int j = 0; j < 8; ++j) first[j] = j < e.split ? ~0u : 0u;
            const float *from = tile + e.first, *then = tile + e.second;
            for (index_t k = 0; k < depth; ++k)
                store8(out + k * panel,
                       (v8)select8(first, (u8)load8(from + offset[k]), (u8)load8(then + offset[k])));
        } else if (e.split == BEYOND) {
            for (index_t k = 0; k < depth; ++k) store8(out + k * panel, v8{});
        } else {
            int at[8];
            for (int j = 0; j < 8; ++j) at[j] = pixel[least(i + j, count - 1)];
            for (index_t k = 0; k < depth; ++k) {
                const float* from = tile + offset[k];
                for (int j = 0; j < 8; ++j) out[k * panel + j] = from[at[j]];
            }
        }
    }
}

// ---- one pass --------------------------------------------------------------------------------------------------

struct GatherKernels {
    GatherKernel one[READINGS][MOST_PANEL_ROWS + 1] = {};  // by rows
    GatherKernel several[READINGS] = {};                   // whole panels

    template <bool PAIRS> void choose(int panel_rows, int vectors) {
        choose_reading<PACKED_BOTH, PAIRS>(panel_rows, vectors);
        choose_reading<ALL_WEIGHTS, PAIRS>(panel_rows, vectors);
        choose_reading<SOME_WEIGHTS, PAIRS>(panel_rows, vectors);
        choose_reading<WEIGHTS_IN_PLACE, false>(panel_rows, vectors);
    }
    template <int READING, bool PAIRS> void choose_reading(int panel_rows, int vectors) {
        for (int rows = 1; rows <= MOST_PANEL_ROWS; ++rows)
            one[READING][rows] = gather_kernel_for<READING, PAIRS>(rows, vectors);
        several[READING] = gather_panels_for<READING, PAIRS>(panel_rows, vectors);
    }
};

struct GatherRun {
    const Gather& g;
    const GatherPass& pass;
    const Source source, weight;
    const Target target;
    bool in_pairs;  // two channels are one word of the tile and of the packed weights
    int weight_broken = 0, padding_met = 0;
    int smallest_source = LARGEST_EXPONENT, smallest_weight = LARGEST_EXPONENT;
    float* packed = nullptr;  // shared packed weights of the chunks at hand
    bool source_in_place = false;  // 1x1 windows over contiguous float32: the source is its own tile
    index_t first_chunk = 0, chunks = 0;  // at hand
    GatherKernels kernels{}, last_kernels{};  // the latter of a single vector, for the last columns of a line

    index_t panel() const { return index_t(pass.panel_vectors) * LANES; }
    index_t k_blocks() const { return tap_group_count() * ceil_div(g.depth, pass.depth_block); }
    index_t tap_group_count() const { return pass.tap_groups[0] * pass.tap_groups[1] * pass.tap_groups[2]; }
};

// A K block: a box of the window and a range of reduced channels.
struct KBlock {
    index_t group[3], begin, end;
};

static KBlock k_block(const GatherRun& run, index_t number) {
    const index_t depths = ceil_div(run.g.depth, run.pass.depth_block);
    KBlock k;
    k.begin = number % depths * run.pass.depth_block;
    k.end = least(run.g.depth, k.begin + run.pass.depth_block);
    index_t group = number / depths;
    for (int a = 2; a >= 0; --a) {
        k.group[a] = group % run.pass.tap_groups[a];
        group /= run.pass.tap_groups[a];
    }
    return k;
}

static INLINE void class_taps(const GatherPass& pass, const KBlock& k, int number, AxisTaps taps[3]) {
    for (int a = 2; a >= 0; --a) {
        const AxisTaps& all = pass.classes.axis[a][number % pass.classes.per[a]].taps;
        taps[a] = pass.classes.count > 1 ? all : group_taps(all, pass.tap_groups[a], k.group[a]);
        number /= pass.classes.per[a];
    }
}

static INLINE index_t tap_count(const AxisTaps taps[3]) { return taps[0].count * taps[1].count * taps[2].count; }

// Where the tile of a K block begins: at the smallest offset of its taps, over all classes.
static void place_tile(const GatherPass& pass, const Gather& g, const KBlock& k, Tile* t) {
    for (int a = 0; a < 3; ++a) {
        bool any = false;
        t->axis[a] = TileAxis{g.source_step[a], 0, 0, 1, 0, 1};
        for (int c = 0; c < pass.classes.per[a]; ++c) {
            const AxisTaps& all = pass.classes.axis[a][c].taps;
            const AxisTaps taps = pass.classes.count > 1 ? all : group_taps(all, pass.tap_groups[a], k.group[a]);
            if (taps.count == 0) continue;
            const TileAxis one = tile_axis(taps, g.source_step[a]);
            if (any) t->axis[a].low = least(t->axis[a].low, one.low);
            else t->axis[a] = one;
            any = true;
        }
    }
}

// Floats per row of the packed weights before K block `number`.
static index_t packed_before(const GatherRun& run, index_t number) {
    index_t before = 0;
    const index_t depths = ceil_div(run.g.depth, run.pass.depth_block);
    for (index_t group = 0; group <= number / depths; ++group) {
        const KBlock k = k_block(run, group * depths);
        index_t taps = 0;
        for (int c = 0; c < run.pass.classes.count; ++c) {
            AxisTaps t[3];
            class_taps(run.pass, k, c, t);
            taps += tap_count(t);
        }
        before += taps * (group < number / depths ? run.g.depth : number % depths * run.pass.depth_block);
    }
    return before;
}

// The first COUNT of eight.
template <int COUNT> static INLINE void store_first(float* p, v8 v) {
    if (COUNT == 8) return store8(p, v);
    if (COUNT >= 4) {
        __builtin_memcpy(p, &v, 16);
        p += 4;
        v = __builtin_shufflevector(v, v, 4, 5, 6, 7, 4, 5, 6, 7);
    }
    if (COUNT % 4 >= 2) {
        __builtin_memcpy(p, &v, 8);
        p += 2;
        v = __builtin_shufflevector(v, v, 2, 3, 2, 3, 2, 3, 2, 3);
    }
    if (COUNT % 2 == 1) *p = v[0];
}

// Where the taps of a channel lie from the first one on.
struct TapPlaces {
    index_t count;
    index_t reach;           // elements from the first tap to the farthest; 0 where one lies before the first
    bool side_by_side;
    index_t at[MOST_TAPS];
};

// out[t*step][i] = from[i*row + taps.at[t]]
template <int ROWS>
static void turn_rows(const float* from, index_t row, const TapPlaces& taps, float* out, index_t step) {
    const index_t count = taps.count;
    index_t t = 0;
    if (taps.side_by_side) {
        for (; t + 8 <= count; t += 8) {
            v8 v[8] = {};
            UNROLL for (int i = 0; i < ROWS; ++i) v[i] = load8(from + i * row + t);
            transpose8(v);
            UNROLL for (int k = 0; k < 8; ++k) store_first<ROWS>(out + (t + k) * step * ROWS, v[k]);
        }
        for (; t + 4 <= count; t += 4) {
            v8 v[8] = {}, turned[4];
            UNROLL for (int i = 0; i < ROWS; ++i) v[i] = load_four(from + i * row + t);
            transpose8x4(v, turned);
            UNROLL for (int k = 0; k < 4; ++k) store_first<ROWS>(out + (t + k) * step * ROWS, turned[k]);
        }
        for (; ROWS >= 4 && t + 2 <= count; t += 2) {
            const v8 v = load_four_pairs(from + t, row);
            float *first = out + t * step * ROWS, *second = first + step * ROWS;
            store_first<4>(first, __builtin_shufflevector(v, v, 0, 2, 4, 6, 0, 2, 4, 6));
            store_first<4>(second, __builtin_shufflevector(v, v, 1, 3, 5, 7, 1, 3, 5, 7));
            UNROLL for (int i = 4; i < ROWS; ++i) {
                first[i] = from[i * row + t];
                second[i] = from[i * row + t + 1];
            }
        }
    }
    for (; t < count; ++t)
        UNROLL for (int i = 0; i < ROWS; ++i) out[t * step * ROWS + i] = from[i * row + taps.at[t]];
}

static void turn_rows_any(index_t height, const float* from, index_t row, const TapPlaces& taps, float* out,
                          index_t step) {
    switch (height) {
    case 1: return turn_rows<1>(from, row, taps, out, step);
    case 2: return turn_rows<2>(from, row, taps, out, step);
    case 3: return turn_rows<3>(from, row, taps, out, step);
    case 4: return turn_rows<4>(from, row, taps, out, step);
    case 5: return turn_rows<5>(from, row, taps, out, step);
    case 6: return turn_rows<6>(from, row, taps, out, step);
    case 7: return turn_rows<7>(from, row, taps, out, step);
    default: return turn_rows<8>(from, row, taps, out, step);
    }
}

static bool all_finite(const float* p, index_t count) {
    FiniteCheck check;
    index_t i = 0;
    for (; i + 8 <= count; i += 8) check.see(load8(p + i));
    for (; i < count; ++i) check.see(p[i]);
    return check.below(INF_BITS);
}

static INLINE index_t weight_offset(const Gather& g, const AxisTaps taps[3], index_t z, index_t y, index_t x) {
    return (taps[0].first_tap + z * taps[0].tap_step) * g.weight_tap[0] +
           (taps[1].first_tap + y * taps[1].tap_step) * g.weight_tap[1] +
           (taps[2].first_tap + x * taps[2].tap_step) * g.weight_tap[2];
}

// What packing saw of the weights.
struct WeightReport {
    bool finite = true;
    PairCheck pairs;
    void note(GatherRun* run) const {
        if (!finite) raise_flag(&run->weight_broken);
        pairs.merge_into(&run->smallest_weight);
    }
};

// One tap whose rows lie side by side: whole panels, many rows converted at a time. Says how many rows it packed.
static index_t pack_side_by_side(const GatherRun& run, index_t at, index_t rows, index_t depth, float* to,
                                 WeightReport* report) {
    enum { ROWS = 480 };
    const Source& w = run.weight;
    const index_t whole = run.pass.panel_rows == HEIGHT ? rows / HEIGHT * HEIGHT : 0;
    const index_t channels = run.in_pairs ? 2 : 1, words = ceil_div(depth, channels);
    float line[2][ROWS];
    for (index_t begin = 0; begin < whole; begin += ROWS) {
        const index_t count = least(ROWS, whole - begin);
        for (index_t r = 0; r < depth; r += channels) {
            const index_t first = at + begin + r * run.g.weight_depth;
            const float* from = (const float*)w.tensor->data + first;
            if (w.kind != LOAD_F32) {
                report->finite &= w.rows(w, first, 1, 0, count, 1, line[0], 0);
                from = line[0];
            } else {
                report->finite &= all_finite(from, count);
            }
            if (run.in_pairs) {
                const bool second = r + 1 < depth;
                if (second) report->finite &= w.rows(w, first + run.g.weight_depth, 1, 0, count, 1, line[1], 0);
                pair_up(line[0], second ? line[1] : nullptr, count, line[0], &report->pairs);
            }
            float* panel = to + begin * words + r / channels * HEIGHT;
            for (index_t i = 0; i < count; i += HEIGHT, panel += HEIGHT * words)
                __builtin_memcpy(panel, from + i, HEIGHT * 4);
        }
    }
    return whole;
}

// A panel of `height` rows: [step][row], steps as step_number says.
static void pack_panel(const GatherRun& run, index_t at, index_t height, index_t depth, const TapPlaces& taps,
                       float* panel) {
    const Gather& g = run.g;
    const Source& w = run.weight;
    const index_t count = taps.count, reach = taps.reach;
    float line[MOST_PANEL_ROWS * MOST_TAPS];
    // Taps of other dtypes are converted in one row where they are neighbours, one by one otherwise.
    const bool in_place = w.kind == LOAD_F32;
    const bool neighbours = reach >= count && reach <= MOST_TAPS && g.weight_tap[2] == 1;
    const bool paired = run.pass.paired;
    if (!in_place && g.weight_depth == 1 && depth > 1) {  // channels to be reduced lie side by side
        for (index_t t = 0; t < count; ++t) {
            w.rows(w, at + taps.at[t], height, g.weight_row, depth, 1, line, depth);
            for (index_t r = 0; r < depth; ++r)
                for (index_t i = 0; i < height; ++i)
                    panel[step_number(depth, count, paired, r, t) * height + i] = line[i * depth + r];
        }
        return;
    }
    for (index_t r = 0; r < depth; ++r) {
        const index_t step = paired && r < depth / 2 * 2 ? 2 : 1, from = at + r * g.weight_depth;
        float* out = panel + step_number(depth, count, paired, r, 0) * height;
        if (in_place) {
            const float* weights = (const float*)w.tensor->data + from;
            // Channels lie far apart: no processor guesses where the ones to come are.
            const index_t to_come = r + 6 < depth ? 6 * g.weight_depth : 0;
            const uintptr_t later = (uintptr_t)(weights + to_come);  // may reach beyond the last weight
            for (index_t i = 0; i < height * count * 4; i += 64) __builtin_prefetch((const void*)(later + size_t(i)));
            turn_rows_any(height, weights, g.weight_row, taps, out, step);
        } else if (neighbours && count > 1) {
            w.rows(w, from, height, g.weight_row, reach, 1, line, reach);
            turn_rows_any(height, line, reach, taps, out, step);
        } else {
            for (index_t t = 0; t < count; ++t)
                w.rows(w, from + taps.at[t], 1, 0, height, g.weight_row, out + t * step * height, 0);
        }
    }
}

// Pairs of channels of a panel become words. A last channel without another is its own word's first half.
static void pair_panel(index_t height, index_t depth, index_t taps, const float* panel, float* to, PairCheck* check) {
    const index_t pairs = depth / 2 * taps;
    if (2 * height == LANES) {  // both rows in one vector
        PairCheck seen = *check;
        for (index_t i = 0; i < pairs; ++i) {
            const float* both = panel + i * LANES;
            seen.see((uf)load(both));
            store8(to + i * 8, (v8)((u8)load8(both) | (u8)load8(both + 8) >> 16));
        }
        *check = seen;
    } else {
        for (index_t i = 0; i < pairs; ++i)
            pair_up(panel + 2 * i * height, panel + (2 * i + 1) * height, height, to + i * height, check);
    }
    if (depth % 2 != 0) pair_up(panel + 2 * pairs * height, nullptr, taps * height, to + pairs * height, check);
}

static TapPlaces tap_places(const Gather& g, const AxisTaps taps[3], index_t first) {
    TapPlaces places;
    places.count = 0;
    places.side_by_side = true;
    index_t low = 0, high = 0;  // strides of either sign: the last tap is not always the farthest
    for (index_t z = 0; z < taps[0].count; ++z)
        for (index_t y = 0; y < taps[1].count; ++y)
            for (index_t x = 0; x < taps[2].count; ++x) {
                const index_t at = weight_offset(g, taps, z, y, x) - first;
                places.side_by_side &= at == places.count;
                places.at[places.count++] = at;
                low = least(low, at);
                high = most(high, at);
            }
    places.reach = low < 0 ? 0 : high + 1;
    return places;
}

// Rows of a chunk that are packed together: whole panels, and the rest of the chunk.
struct PackedRows {
    index_t chunk, begin, end;
};

// to = for each class: for each panel of the chunk: its steps. The chunk begins at row `first` of a group.
static WeightReport pack_weights(const GatherRun& run, index_t group, index_t first, const PackedRows& rows,
                                 const KBlock& k, float* to) {
    const Gather& g = run.g;
    const index_t depth = k.end - k.begin;
    float apart[MOST_PANEL_ROWS * MOST_TAPS];  // a panel before its channels are paired: a K block has no more steps
    WeightReport report;
    for (int c = 0; c < run.pass.classes.count; ++c) {
        AxisTaps taps[3];
        class_taps(run.pass, k, c, taps);
        const index_t count = tap_count(taps);
        if (count == 0) continue;
        const index_t first_tap = weight_offset(g, taps, 0, 0, 0);
        const TapPlaces places = tap_places(g, taps, first_tap);
        const index_t at = group * g.weight_group + first * g.weight_row + k.begin * g.weight_depth + first_tap;
        const index_t words = run.in_pairs ? ceil_div(depth, 2) * count : depth * count;
        index_t row = rows.begin;
        if (count == 1 && g.weight_row == 1)
            row += pack_side_by_side(run, at + row, rows.end - row, depth, to + row * words, &report);
        for (; row < rows.end; row += run.pass.panel_rows) {
            const index_t height = least(run.pass.panel_rows, rows.end - row);
            float* panel = run.in_pairs ? apart : to + row * words;
            pack_panel(run, at + row * g.weight_row, height, depth, places, panel);
            report.finite &= all_finite(panel, height * depth * count);
            if (run.in_pairs) pair_panel(height, depth, count, apart, to + row * words, &report.pairs);
        }
        to += rows.chunk * depth * count;
    }
    return report;
}
