// The data contractions as an implicit matrix product: rows = output channels, columns = output pixels,
// reduction = source channels x taps.
//
//   C[m, pixel] = sum over (r, tap)  weight[r, m, tap] * tile[r][pixel + offset(tap)]
//
// Each element of C is one chain of multiply-adds in (r, tap) order per K block, and K blocks are added in order:
// how pixels and output channels are distributed over tasks cannot show.
#pragma once

// One step of a reduction that reads the tile itself: which weights meet which cells.
struct Step {
    int weight, cell;
};

// Where the microkernel finds its operands: both packed; cells in the tile, with all of the packed weights or with
// those of some taps; cells in the tile and weights in their tensor.
enum Reading { PACKED_BOTH, ALL_WEIGHTS, SOME_WEIGHTS, WEIGHTS_IN_PLACE, READINGS };

// C[MR][NV*LANES] (+)= sum_k A[k][MR] * B[k][NV*LANES]; rows of weights read in place are a_row apart.
template <int MR, int NV, int READING>
static void gather_kernel(index_t depth, const float* __restrict A, index_t a_row, const float* __restrict B,
                          const Step* __restrict steps, float* __restrict C, index_t c_row, bool add) {
    if (READING != WEIGHTS_IN_PLACE) a_row = 1;
    // The sums so far wait in L2 while this block is added up.
    UNROLL for (int i = 0; i < MR; ++i)
        UNROLL for (int j = 0; j < NV * LANES; j += 16) __builtin_prefetch(C + i * c_row + j, 1);
    vf c[MR][NV];
    UNROLL for (int i = 0; i < MR; ++i)
        UNROLL for (int j = 0; j < NV; ++j) c[i][j] = vf{};
#pragma GCC unroll 2
    for (index_t k = 0; k < depth; ++k) {
        const float* b = READING == PACKED_BOTH ? B + k * (NV * LANES) : B + steps[k].cell;
        const float* w = READING == WEIGHTS_IN_PLACE ? A + steps[k].weight
                         : READING == SOME_WEIGHTS   ? A + index_t(steps[k].weight) * MR : A + k * MR;
        if (MR < NV) {  // hold the broadcasts and stream B: MR*NV + MR + 1 registers
            vf a[MR];
            UNROLL for (int i = 0; i < MR; ++i) a[i] = broadcast(w[i * a_row]);
            UNROLL for (int j = 0; j < NV; ++j) {
                const vf x = load(b + j * LANES);
                UNROLL for (int i = 0; i < MR; ++i) c[i][j] = fma(a[i], x, c[i][j]);
            }
        } else {  // hold B and stream the broadcasts: MR*NV + NV + 1 registers
            vf x[NV];
            UNROLL for (int j = 0; j < NV; ++j) x[j] = load(b + j * LANES);
            UNROLL for (int i = 0; i < MR; ++i) {
                const vf a = broadcast(w[i * a_row]);
                UNROLL for (int j = 0; j < NV; ++j) c[i][j] = fma(a, x[j], c[i][j]);
            }
        }
    }
    UNROLL for (int i = 0; i < MR; ++i)
        UNROLL for (int j = 0; j < NV; ++j) {
            float* p = C + i * c_row + j * LANES;
            store(p, add ? load(p) + c[i][j] : c[i][j]);
        }
}

typedef void (*GatherKernel)(index_t, const float*, index_t, const float*, const Step*, float*, index_t, bool);

template <int READING> static GatherKernel gather_kernel_for(int rows, int vectors) {
#define KERNEL(MR, NV) \
    if (rows == MR && vectors == NV) return gather_kernel<MR, NV, READING>;
    KERNEL(6, 2) KERNEL(5, 2) KERNEL(4, 2) KERNEL(3, 2) KERNEL(2, 2) KERNEL(1, 2)
    KERNEL(4, 3) KERNEL(3, 3) KERNEL(2, 3) KERNEL(1, 3)
    KERNEL(3, 4) KERNEL(2, 6) KERNEL(1, 8)
#undef KERNEL
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

struct GatherRun {
    const Gather& g;
    const GatherPass& pass;
    const Source source, weight;
    const Target target;
    int weight_broken = 0, padding_met = 0;
    float* packed = nullptr;  // shared packed weights of the chunks at hand
    bool source_in_place = false;  // 1x1 windows over contiguous float32: the source is its own tile
    index_t first_chunk = 0;
    GatherKernel kernel[READINGS][7] = {};  // by rows

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

// out[t][i] = from[i*row + at[t]]
template <int HEIGHT>
static void turn_rows(const float* from, index_t row, const index_t* at, index_t taps, float* out) {
    for (index_t t = 0; t < taps; ++t, out += HEIGHT)
        UNROLL for (int i = 0; i < HEIGHT; ++i) out[i] = from[i * row + at[t]];
}

static void turn_rows_any(index_t height, const float* from, index_t row, const index_t* at, index_t taps, float* out) {
    switch (height) {
    case 1: return turn_rows<1>(from, row, at, taps, out);
    case 2: return turn_rows<2>(from, row, at, taps, out);
    case 3: return turn_rows<3>(from, row, at, taps, out);
    case 4: return turn_rows<4>(from, row, at, taps, out);
    case 5: return turn_rows<5>(from, row, at, taps, out);
    default: return turn_rows<6>(from, row, at, taps, out);
    }
}

static bool all_finite(const float* p, index_t count) {
    FiniteCheck check;
    index_t i = 0;
    for (; i + 8 <= count; i += 8) check.see(load8(p + i));
    for (; i < count; ++i) check.see(p[i]);
    return !check.broken();
}

static INLINE index_t weight_offset(const Gather& g, const AxisTaps taps[3], index_t z, index_t y, index_t x) {
    return (taps[0].first_tap + z * taps[0].tap_step) * g.weight_tap[0] +
           (taps[1].first_tap + y * taps[1].tap_step) * g.weight_tap[1] +
           (taps[2].first_tap + x * taps[2].tap_step) * g.weight_tap[2];
}

// One tap whose rows lie side by side: whole panels of six, many rows converted at a time. Says how many rows it packed.
static index_t pack_side_by_side(const GatherRun& run, index_t at, index_t rows, index_t depth, float* to) {
    enum { ROWS = 480 };
    const Source& w = run.weight;
    const index_t whole = run.pass.panel_rows == 6 ? rows / 6 * 6 : 0;
    float line[ROWS];
    for (index_t begin = 0; begin < whole; begin += ROWS) {
        const index_t count = least(ROWS, whole - begin);
        for (index_t r = 0; r < depth; ++r) {
            const index_t first = at + begin + r * run.g.weight_depth;
            const float* from = (const float*)w.tensor->data + first;
            if (w.kind != LOAD_F32) {
                w.rows(w, first, 1, 0, count, 1, line, 0);
                from = line;
            }
            float* panel = to + begin * depth + r * 6;
            for (index_t i = 0; i < count; i += 6, panel += 6 * depth) __builtin_memcpy(panel, from + i, 24);
        }
    }
    return whole;
}

// to = for each class: for each panel of rows: [(r, tap)][row of the panel]. Rows begin + [0, rows) of a group.
static bool pack_weights(const GatherRun& run, index_t group, index_t begin, index_t rows, const KBlock& k, float* to) {
    const Gather& g = run.g;
    const Source& w = run.weight;
    const index_t depth = k.end - k.begin;
    const index_t at = group * g.weight_group + begin * g.weight_row + k.begin * g.weight_depth;
    enum { MOST = 512 };  // taps of a group, see MOST_TAPS of the plan
    index_t tap_at[MOST];
    float line[6 * MOST];
    bool finite = true;
    for (int c = 0; c < run.pass.classes.count; ++c) {
        AxisTaps taps[3];
        class_taps(run.pass, k, c, taps);
        const index_t count = tap_count(taps);
        if (count == 0) continue;
        index_t n = 0;
        for (index_t z = 0; z < taps[0].count; ++z)
            for (index_t y = 0; y < taps[1].count; ++y)
                for (index_t x = 0; x < taps[2].count; ++x)
                    tap_at[n++] = weight_offset(g, taps, z, y, x);
        // Taps of other dtypes are converted in one row where they are neighbours, one by one otherwise.
        const bool in_place = w.kind == LOAD_F32;
        const index_t first = tap_at[0], reach = tap_at[count - 1] - first + 1;
        for (index_t t = 0; t < count; ++t) tap_at[t] -= first;
        const bool neighbours = reach >= count && reach <= MOST && g.weight_tap[2] == 1;
        const index_t one_tap = count == 1 && g.weight_row == 1 ? pack_side_by_side(run, at + first, rows, depth, to) : 0;
        for (index_t row = one_tap; row < rows; row += run.pass.panel_rows) {
            const index_t height = least(run.pass.panel_rows, rows - row);
            float* panel = to + row * depth * count;
            if (!in_place && g.weight_depth == 1 && depth > 1) {  // channels to be reduced lie side by side
                for (index_t t = 0; t < count; ++t) {
                    w.rows(w, at + row * g.weight_row + first + tap_at[t], height, g.weight_row, depth, 1, line, depth);
                    for (index_t r = 0; r < depth; ++r)
                        for (index_t i = 0; i < height; ++i) panel[(r * count + t) * height + i] = line[i * depth + r];
                }
                continue;
            }
            for (index_t r = 0; r < depth; ++r) {
                float* out = panel + r * count * height;
                const index_t from = at + row * g.weight_row + r * g.weight_depth;
                if (in_place) {
                    turn_rows_any(height, (const float*)w.tensor->data + from + first, g.weight_row, tap_at, count, out);
                } else if (neighbours && count > 1) {
                    w.rows(w, from + first, height, g.weight_row, reach, 1, line, reach);
                    turn_rows_any(height, line, reach, tap_at, count, out);
                } else {
                    for (index_t t = 0; t < count; ++t)
                        w.rows(w, from + first + tap_at[t], 1, 0, height, g.weight_row, out + t * height, 0);
                }
            }
        }
        finite &= all_finite(to, rows * depth * count);
        to += rows * depth * count;
    }
    return finite;
}

// Steps of the taps within a box of the window, for every channel of a K block.
struct StepList {
    Step* steps;
    const int* offsets;   // tile cell of every tap of the class, first channel
    const Gather* in_place;  // whose weights are read where they lie; null when packed
    index_t depth, channel;
    AxisTaps taps[3];
    TapRange in[3];
    index_t length;

    void describe(const TapRange box[3]) {
        bool same = true;
        for (int a = 0; a < 3; ++a) {
            same &= in[a].begin == box[a].begin && in[a].end == box[a].end;
            in[a] = box[a];
        }
        if (same) return;
        const index_t next = in_place != nullptr ? in_place->weight_depth : tap_count(taps);
        length = 0;
        for (index_t z = in[0].begin; z < in[0].end; ++z)
            for (index_t y = in[1].begin; y < in[1].end; ++y)
                for (index_t x = in[2].begin; x < in[2].end; ++x) {
                    const index_t tap = (z * taps[1].count + y) * taps[2].count + x;
                    const index_t weight = in_place != nullptr ? weight_offset(*in_place, taps, z, y, x) : tap;
                    steps[length++] = Step{int(weight), offsets[tap]};
                }
        const index_t first = length;
        for (index_t r = 1; r < depth; ++r)
            for (index_t i = 0; i < first; ++i)
                steps[length++] = Step{int(steps[i].weight + r * next), int(steps[i].cell + r * channel)};
    }
};

// Images side by side become one plane per image, classes of columns back in their places:
//   planes[n][line][x*s + class] = from[class][line][x*images + n]
static void separate_images(const float* from, index_t c_class, index_t strip, index_t images, index_t lines,
                            index_t cells, int s, float* planes, index_t plane) {
    for (index_t r = 0; r < lines; ++r)
        for (index_t n = 0; n < images; n += 8) {
            const float* line = from + r * strip + n;
            float* to = planes + n * plane + r * cells * s;
            const index_t have = least(8, images - n);
            index_t x = 0;
            // Whole groups of eight overwrite up to seven cells that the next ones write again.
            if (have == 8 && s <= 2)
                for (; x < cells; x += 8) {
                    v8 a[8], b[8];
                    UNROLL for (int k = 0; k < 8; ++k) a[k] = load8(line + (x + k) * images);
                    transpose8(a);
                    if (s == 1) {
                        UNROLL for (int k = 0; k < 8; ++k) store8(to + k * plane + x, a[k]);
                        continue;
                    }
                    UNROLL for (int k = 0; k < 8; ++k) b[k] = load8(line + c_class + (x + k) * images);
                    transpose8(b);
                    UNROLL for (int k = 0; k < 8; ++k) {
                        float* pair = to + k * plane + 2 * x;
                        store8(pair, __builtin_shufflevector(a[k], b[k], 0, 8, 1, 9, 2, 10, 3, 11));
                        store8(pair + 8, __builtin_shufflevector(a[k], b[k], 4, 12, 5, 13, 6, 14, 7, 15));
                    }
                }
            for (; x < cells; ++x)
                for (int c = 0; c < s; ++c)
                    for (index_t k = 0; k < have; ++k) to[k * plane + x * s + c] = line[c * c_class + x * images + k];
        }
}

// Writes the accumulators of a block whose images lie side by side.
static void write_images(const GatherRun& run, const Box& box, index_t group, index_t begin, index_t rows,
                         const float* c, index_t c_row, index_t c_class, index_t strip, float* planes) {
    const Gather& g = run.g;
    const index_t* st = run.target.tensor->stride;
    const ClassSet& set = run.pass.classes;
    const int s = set.per[2];
    const index_t images = box.end[0] - box.begin[0], cells = box.end[3] - box.begin[3];
    const index_t all_lines = box.end[2] - box.begin[2];
    const index_t plane = all_lines * cells * s + 16;
    index_t total = 0;
    for (int x = 0; x < s; ++x) total += most(0, least(box.end[3], set.axis[2][x].cells) - box.begin[3]);
    for (index_t d = box.begin[1]; d < box.end[1]; ++d)
        for (int yz = 0; yz < set.per[0] * set.per[1]; ++yz) {
            const AxisClass& z = set.axis[0][yz / set.per[1]];
            const AxisClass& y = set.axis[1][yz % set.per[1]];
            const index_t lines = least(box.end[2], y.cells) - box.begin[2];
            if (d >= z.cells || lines <= 0) continue;
            const index_t at = box.begin[0] * st[0] + (group * g.rows + begin) * st[1] +
                               (z.residue + d * g.out_step[0]) * st[2] +
                               (y.residue + box.begin[2] * g.out_step[1]) * st[3] +
                               (set.axis[2][0].residue + box.begin[3] * g.out_step[2]) * st[4];
            const float* from = c + index_t(yz) * s * c_class + (d - box.begin[1]) * all_lines * strip;
            for (index_t m = 0; m < rows; ++m) {
                separate_images(from + m * c_row, c_class, strip, images, lines, cells, s, planes, plane);
                for (index_t n = 0; n < images; ++n)
                    run.target.rows(run.target, at + m * st[1] + n * st[0], lines, g.out_step[1] * st[3], total,
                                    s == 1 ? g.out_step[2] * st[4] : st[4], planes + n * plane, cells * s);
            }
        }
}

// Writes the accumulators of one block: classes are put back in their places.
static void write_block(const GatherRun& run, const Box& box, index_t group, index_t begin, index_t rows,
                        const float* c, index_t c_row, index_t c_class, const int* unit_column, index_t pitch,
                        float* plane) {
    const Gather& g = run.g;
    const Target& t = run.target;
    const index_t* st = t.tensor->stride;
    const ClassSet& set = run.pass.classes;
    const bool across = st[1] == 1 && st[4] != 1;
    const index_t column = g.out_step[2] * st[4];
    index_t unit = 0;
    for (index_t n = box.begin[0]; n < box.end[0]; ++n)
        for (index_t d = box.begin[1]; d < box.end[1]; ++d, ++unit)
            for (int yz = 0; yz < set.per[0] * set.per[1]; ++yz) {
                const AxisClass& z = set.axis[0][yz / set.per[1]];
                const AxisClass& y = set.axis[1][yz % set.per[1]];
                const index_t lines = least(box.end[2], y.cells) - box.begin[2];
                if (d >= z.cells || lines <= 0) continue;
                const index_t at = n * st[0] + (group * g.rows + begin) * st[1] +
                                   (z.residue + d * g.out_step[0]) * st[2] +
                                   (y.residue + box.begin[2] * g.out_step[1]) * st[3] +
                                   box.begin[3] * column;
                const float* from = c + index_t(yz) * set.per[2] * c_class + unit_column[unit];
                const index_t row = g.out_step[1] * st[3];
                if (across || set.per[2] == 1) {
                    for (int x = 0; x < set.per[2]; ++x) {
                        const AxisClass& xc = set.axis[2][x];
                        const index_t cells = least(box.end[3], xc.cells) - box.begin[3];
                        if (cells <= 0) continue;
                        const float* part = from + x * c_class;
                        const index_t first = at + xc.residue * st[4];
                        if (across)
                            for (index_t r = 0; r < lines; ++r)
                                t.transposed(t, first + r * row, rows, cells, column, part + r * pitch, c_row);
                        else
                            for (index_t m = 0; m < rows; ++m)
                                t.rows(t, first + m * st[1], lines, row, cells, column, part + m * c_row, pitch);
                    }
                    continue;
                }
                const int s = set.per[2];
                const index_t cells = box.end[3] - box.begin[3];
                // Pairs of a float32 result need no plane in between.
                const bool in_place = s == 2 && st[4] == 1 && t.kind == STORE_F32;
                index_t total = 0;
                for (int x = 0; x < s; ++x) total += most(0, least(box.end[3], set.axis[2][x].cells) - box.begin[3]);
                for (index_t m = 0; m < rows; ++m) {
                    for (index_t r = 0; r < lines; ++r) {
                        const float* part = from + m * c_row + r * pitch;
                        float* to = in_place ? (float*)t.tensor->data + at + m * st[1] + r * row : plane + r * cells * s;
                        index_t i = 0;
                        for (; s == 2 && 2 * (i + 8) <= total; i += 8) {
                            const v8 a = load8(part + i), b = load8(part + c_class + i);
                            store8(to + 2 * i, __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11));
                            store8(to + 2 * i + 8, __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15));
                        }
                        for (; i < cells; ++i)
                            for (int x = 0; x < s && i * s + x < total; ++x) to[i * s + x] = part[x * c_class + i];
                    }
                    if (!in_place) t.rows(t, at + m * st[1], lines, row, total, st[4], plane, cells * s);
                }
            }
}

// Panels of a window of one tap without padding are packed straight from contiguous float32 planes.
static bool source_is_tile(const Gather& g, const GatherPass& pass) {
    const index_t* st = g.source->stride;
    index_t next = 1, reach = 0;
    if (pass.direct) return false;  // a microkernel that jumps from plane to plane would pay for it every time
    for (int a = 2; a >= 0; --a) {
        const AxisTaps& taps = pass.classes.axis[a][0].taps;
        if (pass.classes.per[a] != 1 || taps.count != 1 || taps.first_offset != 0 || g.source_step[a] != 1 ||
            pass.classes.axis[a][0].cells > g.source_extent[a] || (g.source_extent[a] > 1 && st[a + 2] != next))
            return false;
        next *= g.source_extent[a];
    }
    const index_t channels = g.depth * g.groups;
    if (__builtin_mul_overflow(pass.depth_block + 1, next, &reach) || reach > (1 << 29)) return false;
    if (__builtin_mul_overflow(pass.blocks.per[0], channels * next, &reach) || reach > (1 << 29)) return false;
    return load_kind(*g.source) == LOAD_F32 && (channels == 1 || st[1] == next) &&
           (g.batch == 1 || st[0] == channels * next);
}

static void gather_task(GatherRun& run, index_t chunk, index_t block, index_t split, char* scratch) {
    const Gather& g = run.g;
    const GatherPass& pass = run.pass;
    const index_t group = chunk / pass.chunks, chunk_begin = chunk % pass.chunks * pass.chunk_rows;
    const index_t chunk_rows = least(g.rows - chunk_begin, pass.chunk_rows);
    const index_t panels = ceil_div(chunk_rows, pass.panel_rows);
    const index_t first_row = panels * split / pass.row_splits * pass.panel_rows;
    const index_t last_row = least(chunk_rows, panels * (split + 1) / pass.row_splits * pass.panel_rows);
    if (first_row >= last_row) return;
    Box box;
    block_box(pass.blocks, block, &box);
    const index_t panel = run.panel();
    const index_t k_most = pass.depth_block * most(1, pass.most_taps);

    Tile t;
    shape_tile(box, pass.span, pass.slots, pass.side_by_side, &t);
    const index_t lines = box.end[2] - box.begin[2], cells = box.end[3] - box.begin[3];
    const index_t depths = box.end[1] - box.begin[1];
    if (run.source_in_place) {
        t.pitch = g.source_extent[2];
        t.plane = g.source_extent[1] * t.pitch;
        t.channel = g.source_extent[0] * t.plane;
        t.unit = g.depth * g.groups * t.channel;
    }

    Scratch take{scratch};
    float* tile = take.take<float>(pass.depth_block * pass.tile_channel + 2 * panel + 64);
    float* accumulators = take.take<float>(pass.chunk_rows * pass.columns * pass.classes.count);
    float* panels_packed = pass.direct ? nullptr : take.take<float>(k_most * pass.columns);
    int* offsets = take.take<int>(pass.depth_block * most(1, pass.sum_taps));
    Step* steps = (Step*)take.take<int>(2 * k_most);
    int* pixels = take.take<int>(4 * pass.columns + 64);
    Eight* eights = (Eight*)(pixels + pass.columns);
    int* strip_columns = take.take<int>(pass.blocks.per[0] * pass.blocks.per[1] * pass.blocks.per[2]);
    float* plane = take.take<float>(pass.plane_floats);
    float* local = pass.shared_weights ? nullptr : (float*)take.at;

    // Columns of the accumulators, in strips: pixels one after the other when packed; the padded rows of one depth of
    // one image when direct; one row of all images when they lie side by side.
    const index_t strips = pass.side_by_side ? depths * lines : (box.end[0] - box.begin[0]) * depths;
    const index_t strip_width = !pass.direct ? lines * cells
                                : ceil_div(pass.side_by_side ? cells * t.images : (lines - 1) * t.pitch + cells, panel) * panel;
    const index_t count = strips * strip_width;
    const index_t columns = ceil_div(count, panel) * panel;
    for (index_t u = 0; u < strips; ++u) {
        strip_columns[u] = int(u * strip_width);
        const index_t at = pass.side_by_side ? u / lines * t.plane + u % lines * t.pitch
                                             : u / depths * t.unit + u % depths * t.plane;
        if (pass.direct) {
            for (index_t i = 0; i < strip_width; i += panel) pixels[(u * strip_width + i) / panel] = int(at + i);
        } else {
            for (index_t r = 0; r < lines; ++r)
                for (index_t i = 0; i < cells; ++i)
                    pixels[u * strip_width + r * cells + i] = int(at + r * t.pitch + i);
        }
    }
    if (!pass.direct) describe_columns(pixels, count, columns, run.source_in_place, eights);
    // Taps that meet the source from the pixels of a panel; the others would multiply padding.
    const auto reaching = [&](const AxisTaps taps[3], index_t strip, index_t within, TapRange in[3]) {
        const index_t z = box.begin[1] + (pass.side_by_side ? strip / lines : strip % depths);
        index_t y = box.begin[2], y_last = box.end[2] - 1, x = box.begin[3], x_last = box.end[3] - 1;
        if (pass.side_by_side) {
            y += strip % lines;
            y_last = y;
            x_last = least(x_last, x + (within + panel - 1) / t.images);
            x += within / t.images;
        }
        in[0] = reaching_taps(taps[0], g.source_step[0], g.source_extent[0], z, z);
        in[1] = reaching_taps(taps[1], g.source_step[1], g.source_extent[1], y, y_last);
        in[2] = reaching_taps(taps[2], g.source_step[2], g.source_extent[2], x, x_last);
    };

    FillReport report;
    bool weights_finite = true;
    index_t described = -1, described_depth = -1;
    const index_t c_class = pass.chunk_rows * columns;
    const index_t k_blocks = run.k_blocks(), per_group = ceil_div(g.depth, pass.depth_block);
    index_t before = 0;
    for (index_t kb = 0; kb < k_blocks; ++kb) {
        const KBlock k = k_block(run, kb);
        const index_t depth = k.end - k.begin;
        if (described != kb / per_group || described_depth != depth) {
            described = kb / per_group;
            described_depth = depth;
            place_tile(pass, g, k, &t);
            int* to = offsets;
            for (int c = 0; c < pass.classes.count; ++c) {
                AxisTaps taps[3];
                class_taps(pass, k, c, taps);
                const index_t n = tap_count(taps);
                if (n == 0) continue;
                tap_offsets(t, taps, to);
                for (index_t r = 1; r < depth; ++r)
                    for (index_t i = 0; i < n; ++i) to[r * n + i] = to[i] + int(r * t.channel);
                to += n * depth;
            }
        }
        AxisTaps depth_taps[3];
        class_taps(pass, k, 0, depth_taps);
        const float* cells_at = tile;
        if (run.source_in_place)
            cells_at = (const float*)g.source->data + box.begin[0] * t.unit + (group * g.depth + k.begin) * t.channel +
                       box.begin[1] * t.plane + box.begin[2] * t.pitch + box.begin[3];
        else
            fill_tile(run.source, g.source_extent, t, box, group * g.depth + k.begin, depth,
                      pass.classes.per[0] == 1 ? &depth_taps[0] : nullptr, tile, &report,
                      pass.side_by_side ? plane : nullptr);

        const int* offset = offsets;
        for (int c = 0; c < pass.classes.count; ++c) {
            StepList list{steps, offset, pass.weights_in_place ? &g : nullptr, depth, t.channel, {}, {{-1, -1}, {-1, -1}, {-1, -1}}, 0};
            class_taps(pass, k, c, list.taps);
            const index_t length = depth * tap_count(list.taps);
            float* acc = accumulators + c * c_class;
            if (length == 0) {
                if (kb == 0) zero(acc + first_row * columns, (last_row - first_row) * columns);
                continue;
            }
            if (!pass.direct)
                pack_panels(cells_at, offset, length, pixels, count, columns, eights, panel, panels_packed);
            const index_t cached = pass.weights_in_place ? 12000 : 45000;
            const index_t at_once = most(4 * pass.panel_rows, cached / length / pass.panel_rows * pass.panel_rows);
            for (index_t row = first_row; row < last_row; row += at_once) {
                const index_t stop = least(last_row, row + at_once);
                const float* weights;
                index_t per_row = length;
                if (pass.weights_in_place) {
                    per_row = g.weight_row;
                    weights = (const float*)g.weight->data + group * g.weight_group + (chunk_begin + row) * per_row +
                              k.begin * g.weight_depth;
                } else if (pass.shared_weights) {
                    weights = run.packed + (chunk - run.first_chunk) * pass.chunk_rows * pass.reduction +
                              before * chunk_rows + row * length;
                } else {
                    // One class only: merged classes always fit the shared memory or are not merged.
                    weights_finite &= pack_weights(run, group, chunk_begin + row, stop - row, k, local);
                    weights = local;
                }
                index_t reduced = length, strip = 0, within = 0;
                for (index_t i = 0; i < columns; i += panel, within += panel) {
                    const float* b = pass.direct ? cells_at + pixels[i / panel] : panels_packed + i * length;
                    if (pass.direct) {
                        if (within == strip_width) within = 0, ++strip;
                        if (within == 0 || pass.side_by_side) {
                            TapRange in[3];
                            reaching(list.taps, strip, within, in);
                            list.describe(in);
                            reduced = list.length;
                        }
                    }
                    const int reading = !pass.direct            ? PACKED_BOTH
                                        : pass.weights_in_place ? WEIGHTS_IN_PLACE
                                        : reduced == length     ? ALL_WEIGHTS : SOME_WEIGHTS;
                    for (index_t m = row; m < stop; m += pass.panel_rows) {
                        const index_t height = least(pass.panel_rows, stop - m);
                        run.kernel[reading][height](reduced, weights + (m - row) * per_row, per_row, b, steps,
                                           acc + m * columns + i, columns, kb > 0);
                    }
                }
            }
            before += length;
            offset += length;
        }
    }
    if (report.padded) raise_flag(&run.padding_met);
    const float* results = accumulators + first_row * columns;
    // Weights read in place were not looked at: one that is not finite shows in the sums.
    if (pass.weights_in_place && report.padded)
        for (int c = 0; c < pass.classes.count; ++c)
            weights_finite &= all_finite(results + c * c_class, (last_row - first_row) * columns);
    if (!weights_finite) raise_flag(&run.weight_broken);
    if (pass.side_by_side)
        write_images(run, box, group, chunk_begin + first_row, last_row - first_row, results, columns, c_class,
                     strip_width, plane);
    else
        write_block(run, box, group, chunk_begin + first_row, last_row - first_row, results, columns, c_class,
                    strip_columns, pass.direct ? t.pitch : cells, plane);
}

static int run_pass(const Gather& g, const GatherPass& pass, int threads) {
    GatherRun run{g, pass, make_source(*g.source), make_source(*g.weight), make_target(*g.target)};
    for (int rows = 1; rows <= 6; ++rows) {
        run.kernel[PACKED_BOTH][rows] = gather_kernel_for<PACKED_BOTH>(rows, pass.panel_vectors);
        run.kernel[ALL_WEIGHTS][rows] = gather_kernel_for<ALL_WEIGHTS>(rows, pass.panel_vectors);
        run.kernel[SOME_WEIGHTS][rows] = gather_kernel_for<SOME_WEIGHTS>(rows, pass.panel_vectors);
        run.kernel[WEIGHTS_IN_PLACE][rows] = gather_kernel_for<WEIGHTS_IN_PLACE>(rows, pass.panel_vectors);
    }
    run.source_in_place = source_is_tile(g, pass);
    const index_t all_chunks = pass.chunks * g.groups;
    if (pass.shared_weights && !pass.weights_in_place) {
        run.packed = (float*)shared_scratch(pass.shared_bytes);
        if (run.packed == nullptr) return CG_OUT_OF_MEMORY;
    }
    for (run.first_chunk = 0; run.first_chunk < all_chunks; run.first_chunk += pass.chunks_at_once) {
        const index_t chunks = least(pass.chunks_at_once, all_chunks - run.first_chunk);
        if (pass.shared_weights && !pass.weights_in_place) {
            const index_t k_blocks = run.k_blocks();
            auto pack = [&](index_t task, char*) {
                const index_t chunk = run.first_chunk + task / k_blocks, kb = task % k_blocks;
                const index_t begin = chunk % pass.chunks * pass.chunk_rows;
                const index_t rows = least(g.rows - begin, pass.chunk_rows);
                float* to = run.packed + (chunk - run.first_chunk) * pass.chunk_rows * pass.reduction +
                            packed_before(run, kb) * rows;
                if (!pack_weights(run, chunk / pass.chunks, begin, rows, k_block(run, kb), to))
                    raise_flag(&run.weight_broken);
            };
            const int status = in_parallel(threads, chunks * k_blocks, 0, pack);
            if (status != CG_OK) return status;
        }
        auto compute = [&](index_t task, char* scratch) {
            const index_t split = task % pass.row_splits, rest = task / pass.row_splits;
            gather_task(run, run.first_chunk + rest / pass.blocks.total, rest % pass.blocks.total, split, scratch);
        };
        const int status = in_parallel(threads, chunks * pass.blocks.total * pass.row_splits, pass.task_bytes, compute);
        if (status != CG_OK) return status;
    }
    return is_raised(&run.weight_broken) && is_raised(&run.padding_met) ? int(STATUS_REDO_PLAIN) : int(CG_OK);
}
