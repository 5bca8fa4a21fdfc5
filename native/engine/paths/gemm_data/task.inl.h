// One task of a data contraction: a block of pixels and some output channels, over the whole reduction.
#pragma once

#include "isa.h"
#include "paths/gemm_data/pack_cells.inl.h"
#include "paths/gemm_data/passes.inl.h"
#include "paths/gemm_data/prefetch.inl.h"
#include "paths/gemm_data/results.inl.h"
#include "paths/gemm_data/steps.inl.h"
#include "scratch.inl.h"

namespace cg {
namespace {

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
    const index_t channels = g.in_channels * g.groups;
    if (__builtin_mul_overflow(pass.channel_block + 1, next, &reach) || reach > (1 << 29)) return false;
    if (__builtin_mul_overflow(pass.blocks.per[0], channels * next, &reach) || reach > (1 << 29)) return false;
    return load_kind(*g.source) == LOAD_F32 && (channels == 1 || st[1] == next) &&
           (g.batch == 1 || st[0] == channels * next);
}

// A block of pixels and some rows of a chunk, or all of the chunks of several groups: the rows of one group follow
// those of the other, in the accumulators as in the result.
struct GatherTask {
    index_t chunk, groups, block, split;
};

static GatherTask gather_task_number(const GatherRun& run, index_t number) {
    const GatherPass& pass = run.pass;
    const index_t parts = ceil_div(run.chunks, pass.groups_at_once), rest = number / pass.row_splits;
    // Groups that share cache lines follow each other; otherwise the blocks that share weights do.
    const bool lines_shared = run.g.groups > 1 && channels_touch(*run.g.source);
    const index_t part = lines_shared ? rest % parts : rest / pass.blocks.total;
    const index_t first = part * pass.groups_at_once;
    return GatherTask{run.first_chunk + first, min(pass.groups_at_once, run.chunks - first),
                      lines_shared ? rest / parts : rest % pass.blocks.total, number % pass.row_splits};
}

// A task at work: what it multiplies, where it keeps it, and the K block it has come to.
struct GatherWork {
    GatherRun& run;
    const Gather& g;
    const GatherPass& pass;
    const GatherTask task;
    const index_t panel;
    const bool paired;  // bf16 pairs follow each other channel by channel

    index_t group, chunk_begin, chunk_rows;  // of the first chunk
    index_t first_row, last_row, rows;       // of each chunk; of all groups together
    Box box;
    index_t depths, lines, cells;  // of the block
    Tile t;

    float *tile, *accumulators, *panels_packed;
    int* offsets;  // tile cell of every step, class after class
    Step* steps;
    int* pixels;  // tile cell of every column, or of the first of every strip
    Eight* eights;
    int* strip_columns;
    float *plane, *packed_here;

    // Columns of the accumulators, in strips: pixels one after the other when packed; the padded rows of one depth of
    // one image when direct; one row of all images when they lie side by side.
    index_t strips, strip_width, filled, columns;
    index_t pitch;         // columns from one line of a strip to the next
    index_t sums_row;      // floats from one row of the accumulators to the next
    index_t class_floats;  // of the accumulators
    Straight straight;

    index_t number = 0;  // of the K block
    KBlock k{};
    index_t k_channels = 0;     // its channels, or pairs of them
    index_t floats_before = 0;  // of each row of packed weights
    const float* cells_at = nullptr;
    bool last_block = false;
    index_t described = -1, described_channels = -1;  // group of taps and channels of the steps
    index_t padding_zeroed = -1;                      // group of taps whose padding the tile has
    Prefetch cells_prefetch, sums_prefetch;
    index_t cells_pace = 0, sums_pace = 0;
    FillReport report;
    PairCheck source_pairs;

    GatherWork(GatherRun& whole, const GatherTask& which)
        : run(whole),
          g(whole.g),
          pass(whole.pass),
          task(which),
          panel(whole.panel()),
          paired(whole.pass.paired && !whole.in_pairs) {
        group = task.chunk / pass.chunks;
        chunk_begin = task.chunk % pass.chunks * pass.chunk_rows;
        chunk_rows = min(g.out_channels - chunk_begin, pass.chunk_rows);
        const index_t panels = ceil_div(chunk_rows, pass.mr);
        first_row = panels * task.split / pass.row_splits * pass.mr;
        last_row = min(chunk_rows, panels * (task.split + 1) / pass.row_splits * pass.mr);
        rows = max(0, task.groups * (last_row - first_row));
        block_box(pass.blocks, task.block, &box);
        depths = box.end[1] - box.begin[1];
        lines = box.end[2] - box.begin[2];
        cells = box.end[3] - box.begin[3];
    }

    void prepare(char* scratch) {
        shape_tile(box, pass.span, pass.slots, pass.side_by_side, &t, pass.shared_columns, 0, pass.direct);
        if (run.source_in_place) {
            t.pitch = g.source_extent[2];
            t.plane = g.source_extent[1] * t.pitch;
            t.channel = g.source_extent[0] * t.plane;
            t.unit = g.in_channels * g.groups * t.channel;
        } else {
            join_planes(g.source_extent, pass.groups_at_once * pass.channel_block, &t);
        }
        const index_t all_rows = pass.groups_at_once * pass.chunk_rows;
        const Scratch pieces{scratch};
        tile = pieces.at(pass.tile);
        sums_row = sums_pitch(pass.columns);  // smaller blocks too: a row of theirs can be the longer one otherwise
        class_floats = all_rows * sums_row;
        accumulators = pieces.at(pass.accumulators);
        panels_packed = pass.direct ? nullptr : pieces.at(pass.panels);
        offsets = pieces.at(pass.offsets);
        steps = (Step*)pieces.at(pass.steps);
        pixels = pieces.at(pass.pixels);
        eights = (Eight*)(pixels + pass.columns);
        strip_columns = pieces.at(pass.strips);
        plane = pieces.at(pass.plane);
        packed_here = pass.shared_weights ? nullptr : pieces.at(pass.weights);
        lay_out_strips();
        if (t.images == 1)
            straight = straight_strips(run, box, group * g.out_channels + chunk_begin, strip_width, pitch);
    }

    void lay_out_strips() {
        strips = pass.side_by_side ? depths * lines : (box.end[0] - box.begin[0]) * depths;
        strip_width = !pass.direct        ? lines * cells
                      : pass.side_by_side ? ceil_div(cells * t.images, LANES) * LANES
                                          : ceil_div((lines - 1) * t.pitch + cells, panel) * panel;
        filled = strips * strip_width;
        columns = pass.direct ? filled : ceil_div(filled, panel) * panel;
        pitch = pass.side_by_side ? strip_width : pass.direct ? t.pitch : cells;
        for (index_t u = 0; u < strips; ++u) {
            if (!pass.side_by_side) strip_columns[u] = int(u * strip_width);
            else if (u % lines == 0) strip_columns[u / lines] = int(u * strip_width);  // of one image: its depths
            const index_t at = pass.side_by_side ? u / lines * t.plane + u % lines * t.pitch
                                                 : u / depths * t.unit + u % depths * t.plane;
            if (pass.direct) {
                pixels[u] = int(at);
            } else {
                for (index_t r = 0; r < lines; ++r)
                    for (index_t i = 0; i < cells; ++i)
                        pixels[u * strip_width + r * cells + i] = int(at + r * t.pitch + i);
            }
        }
        if (!pass.direct) describe_columns(pixels, filled, columns, run.source_in_place, eights);
    }

    void go_to(index_t block) {
        number = block;
        k = k_block(run, block);
        k_channels = run.in_pairs ? ceil_div(k.end - k.begin, 2) : k.end - k.begin;
        last_block = block + 1 == run.k_blocks();
    }

    // Where the taps of the K block find the cell of a pixel; the same for all channels of a group of taps.
    void place_taps() {
        const index_t tap_group = number / ceil_div(g.in_channels, pass.channel_block);
        if (described == tap_group && described_channels == k_channels) return;
        described = tap_group;
        described_channels = k_channels;
        place_tile(pass, g, k, &t);
        int* to = offsets;
        for (int c = 0; c < pass.classes.count; ++c) {
            AxisTaps taps[3];
            class_taps(pass, k, c, taps);
            const index_t n = tap_count(taps);
            if (n == 0) continue;
            int first[MAX_TAPS];
            tap_offsets(t, taps, first);
            for (index_t r = 0; r < k_channels; ++r)
                for (index_t i = 0; i < n; ++i)
                    to[step_number(k_channels, n, paired, r, i)] = first[i] + int(r * t.channel);
            to += n * k_channels;
        }
    }

    void load_tile() {
        if (run.source_in_place) {
            cells_at = (const float*)g.source->data + box.begin[0] * t.unit +
                       (group * g.in_channels + k.begin) * t.channel + box.begin[1] * t.plane + box.begin[2] * t.pitch +
                       box.begin[3];
            return;
        }
        cells_at = tile;
        const index_t channels = task.groups * (k.end - k.begin);
        const bool has_zeros = padding_zeroed == described;
        AxisTaps taps[3];
        class_taps(pass, k, 0, taps);
        fill_tile(run.source, g.source_extent, t, box, group * g.in_channels + k.begin, channels,
                  pass.classes.per[0] == 1 && !run.in_pairs ? &taps[0] : nullptr, tile, &report,
                  pass.side_by_side ? plane : nullptr, has_zeros);
        padding_zeroed = described;  // a pair of zeros is zero
        if (!run.in_pairs) return;
        if (!has_zeros) zero_gaps(t, t.images > 1 ? 1 : box.end[0] - box.begin[0], channels, tile);
        const index_t units = t.unit > t.channel ? box.end[0] - box.begin[0] : 1;
        for (index_t n = 0; n < units; ++n)
            for (index_t r = 0; r < channels; r += 2) {
                float* first = tile + n * t.unit + r * t.channel;
                pair_up(first, r + 1 < channels ? first + t.channel : nullptr, t.channel, first - r / 2 * t.channel,
                        &source_pairs);
            }
    }

    // Software prefetch. While this K block is multiplied, the cells of the next one are prefetched, or of the first
    // one of what this thread is likely to take after this task; and the place of the results.
    void start_prefetch(const GatherTask& next) {
        const KBlock next_k = k_block(run, last_block ? 0 : number + 1);
        Box next_box = box;
        if (last_block) block_box(pass.blocks, next.block, &next_box);
        const index_t next_group = last_block ? next.chunk / pass.chunks : group;
        cells_prefetch = source_prefetch(g, pass, next_box, t, next_group * g.in_channels + next_k.begin,
                                         (last_block ? next.groups : task.groups) * (next_k.end - next_k.begin));
        if (last_block && !straight.possible)
            sums_prefetch = result_prefetch(g, pass, box, group * g.out_channels + chunk_begin + first_row, rows);
        const index_t calls = ceil_div(rows, pass.mr) * ceil_div(columns, panel);
        sums_pace = ceil_div(sums_prefetch.cache_lines(), calls);
        cells_pace = clamp(ceil_div(cells_prefetch.cache_lines(), calls), 4, 16);
    }

    void multiply() {
        const int* offset = offsets;
        for (int c = 0; c < pass.classes.count; ++c) {
            AxisTaps taps[3];
            class_taps(pass, k, c, taps);
            StepList list(steps, offset, pass.weights_in_place ? &g : nullptr, paired, k_channels, t.channel, taps);
            const index_t length = k_channels * tap_count(list.taps);
            float* acc = accumulators + c * class_floats;
            if (length == 0) {
                if (number == 0) zero(acc + first_row * sums_row, rows * sums_row);
                straight.possible = false;
                continue;
            }
            const index_t cached = pass.weights_in_place ? 12000 : 45000;
            const index_t at_once = max(4 * pass.mr, cached / length / pass.mr * pass.mr);
            for (index_t j = 0; j < task.groups; ++j, acc += g.out_channels * sums_row) {
                const float* cells_of_group = cells_at + j * k_channels * t.channel;
                if (!pass.direct)
                    pack_panels(cells_of_group, offset, length, pixels, filled, columns, eights, panel, panels_packed);
                for (index_t row = first_row; row < last_row; row += at_once)
                    multiply_rows(&list, length, j, row, min(last_row, row + at_once), cells_of_group, acc);
            }
            floats_before += (k.end - k.begin) * tap_count(list.taps);
            offset += length;
        }
    }

    // Rows [row, stop) of group j: their weights in the tensor, packed for all tasks, or packed now.
    const float* weights_of(index_t j, index_t row, index_t stop, index_t length) {
        if (pass.weights_in_place)
            return (const float*)g.weight->data + group * g.weight_group + (chunk_begin + row) * g.weight_out +
                   k.begin * g.weight_in;
        if (pass.shared_weights)
            return run.packed + (task.chunk + j - run.first_chunk) * pass.chunk_rows * pass.reduction +
                   floats_before * chunk_rows + row * length;
        // One class only: merged classes always fit the shared memory or are not merged.
        pack_weights(run, group, chunk_begin + row, PackedRows{stop - row, 0, stop - row}, k, packed_here).note(&run);
        return packed_here;
    }

    void multiply_rows(StepList* list, index_t length, index_t j, index_t row, index_t stop,
                       const float* cells_of_group, float* acc) {
        const float* weights = weights_of(j, row, stop, length);
        const index_t per_row = pass.weights_in_place ? g.weight_out : length, mr = pass.mr;
        const index_t whole = (stop - row) / mr;
        const index_t chain = chain_channels(pass, tap_count(list->taps)) / (run.in_pairs ? 2 : 1);
        const bool straight_now = straight.possible && last_block;
        // Taps are listed panel by panel only where that leaves out taps; those of several rows only if it leaves out
        // many multiplications as well.
        const bool one_line = pass.side_by_side || lines == 1;
        const int axis = one_line ? 2 : 1;
        const bool edge = !all_reach(*list, axis, box.begin[axis + 1], box.begin[axis + 1]) ||
                          !all_reach(*list, axis, box.end[axis + 1] - 1, box.end[axis + 1] - 1);
        const bool by_panel = edge && (one_line || stop - row >= 4 * mr);
        index_t reduced = length, strip = 0, within = 0;
        for (index_t i = 0, width; i < columns; i += width, within += width) {
            const float* b = panels_packed + i * length;
            width = panel;
            if (pass.direct) {
                if (within == strip_width) within = 0, ++strip;
                b = cells_of_group + pixels[strip] + within;
                if (pass.side_by_side && strip_width - within <= LANES) width = LANES;
                if (within == 0 || by_panel) {
                    list_reaching(list, strip, within, by_panel ? within + panel : strip_width);
                    reduced = list->length;
                }
            }
            const int reading = !pass.direct            ? PACKED_BOTH
                                : pass.weights_in_place ? WEIGHTS_IN_PLACE
                                : reduced == length     ? ALL_WEIGHTS
                                                        : SOME_WEIGHTS;
            const GatherKernels& kernels = width < panel ? run.last_kernels : run.kernels;
            const bool inside = straight_now && straight.holds(i, width);
            float* to = inside ? straight.at(j * g.out_channels, i) : acc + i;
            const PanelColumn column{reduced,  chain * (reduced / k_channels),   steps,     per_row, mr * per_row,
                                     sums_row, inside ? straight.row : sums_row, number > 0};
            // Whole panels in one go; where memory is prefetched in between, a few at a time.
            const index_t at_once = cells_prefetch.left > 0 || sums_prefetch.left > 0 ? 3 : whole;
            for (index_t m = row, panels, left = whole; m < stop; m += panels * mr, left -= panels) {
                panels = left > 1 ? min(left, at_once) : 1;
                cells_prefetch.advance<READS>(panels * cells_pace);
                sums_prefetch.advance<WRITES>(panels * sums_pace);
                const GatherKernel kernel =
                    panels > 1 ? kernels.several[reading] : kernels.one[reading][min(mr, stop - m)];
                kernel(column, panels, weights + (m - row) * per_row, b, acc + m * sums_row + i,
                       to + m * column.to_row);
            }
            if (straight_now && !inside)
                straight.copy(j * g.out_channels + row, stop - row, i, min(width, filled - i), acc + row * sums_row + i,
                              sums_row);
        }
    }

    // Whether every tap meets the source from some of the output cells [first, last] of an axis.
    bool all_reach(const StepList& list, int axis, index_t first, index_t last) const {
        return g.source_step[axis] * last + list.low[axis] >= 0 &&
               g.source_step[axis] * first + list.high[axis] < g.source_extent[axis];
    }

    // Lists the taps that meet the source from some cell of the columns [begin, end) of a strip; the others would
    // multiply padding. Called from the innermost loops, which are faster without its code.
    OUTLINE void list_reaching(StepList* list, index_t strip, index_t begin, index_t end) const {
        index_t first[3] = {box.begin[1], box.begin[2], box.begin[3]}, last[3] = {0, 0, box.end[3] - 1};
        if (pass.side_by_side) first[0] += strip / lines, first[1] += strip % lines;
        else first[0] += strip % depths;
        last[0] = first[0];
        last[1] = first[1];
        if (lines > 1 && !pass.side_by_side) {
            first[1] += begin / t.pitch;
            last[1] = min(box.end[2] - 1, last[1] + (end - 1) / t.pitch);
        } else {
            last[2] = min(last[2], first[2] + (end - 1) / t.images);
            first[2] += begin / t.images;
        }
        const bool all = all_reach(*list, 0, first[0], last[0]) && all_reach(*list, 1, first[1], last[1]) &&
                         all_reach(*list, 2, first[2], last[2]);
        TapRange in[3];
        for (int a = 0; a < 3; ++a)
            in[a] = all ? TapRange{0, list->taps[a].count}
                        : reaching_taps(list->taps[a], g.source_step[a], g.source_extent[a], first[a], last[a]);
        list->describe(in);
    }

    // Weights read in place were not checked: one that is not finite shows in the sums. Columns between and beyond the
    // pixels hold whatever was in memory.
    bool sums_are_finite() const {
        const index_t runs = pass.side_by_side ? 1 : lines, length = cells * t.images;
        bool finite = true;
        for (index_t m = 0; m < pass.classes.count * rows; ++m) {
            const float* row = accumulators + m / rows * class_floats + (first_row + m % rows) * sums_row;
            for (index_t u = 0; u < strips * runs; ++u)
                finite &= all_finite(row + u / runs * strip_width + u % runs * t.pitch, length);
        }
        return finite;
    }

    void finish() {
        if (report.padded) raise_flag(&run.padding_met);
        source_pairs.merge_into(&run.smallest_source);
        if (pass.weights_in_place && report.padded && !sums_are_finite()) raise_flag(&run.weight_broken);
        if (straight.possible) return;
        const float* results = accumulators + first_row * sums_row;
        if (pass.side_by_side && t.images > 1)
            write_images(run, box, group, chunk_begin + first_row, rows, results, sums_row, class_floats, strip_width,
                         plane);
        else
            write_block(run, box, group, chunk_begin + first_row, rows, results, sums_row, class_floats, strip_columns,
                        pitch, plane);
    }
};

static void gather_task(GatherRun& run, const GatherTask& task, const GatherTask& next, char* scratch) {
    GatherWork work(run, task);
    if (work.rows == 0) return;
    work.prepare(scratch);
    for (index_t kb = 0; kb < run.k_blocks(); ++kb) {
        work.go_to(kb);
        work.place_taps();
        work.load_tile();
        work.start_prefetch(next);
        work.multiply();
    }
    work.finish();
}

// Sums that are not finite may have it from a sample, and samples of another batch would not: the weights tell.
static bool weights_are_finite(const Gather& g, const GatherPass& pass) {
    const float* w = (const float*)g.weight->data;
    const auto all = [](const AxisTaps& taps, auto each) {
        for (index_t i = 0; i < taps.count; ++i) each(taps.first_tap + i * taps.tap_step);
    };
    bool finite = true;
    for (int c = 0; c < pass.classes.count; ++c) {
        const int x = c % pass.classes.per[2], y = c / pass.classes.per[2] % pass.classes.per[1];
        const int z = c / pass.classes.per[2] / pass.classes.per[1];
        for (index_t row = 0; row < g.groups * g.out_channels * g.in_channels; ++row) {
            const index_t r = row % g.in_channels, m = row / g.in_channels % g.out_channels;
            const index_t group = row / g.in_channels / g.out_channels;
            const float* from = w + group * g.weight_group + m * g.weight_out + r * g.weight_in;
            all(pass.classes.axis[0][z].taps, [&](index_t tz) {
                all(pass.classes.axis[1][y].taps, [&](index_t ty) {
                    all(pass.classes.axis[2][x].taps, [&](index_t tx) {
                        finite &=
                            all_finite(from + tz * g.weight_tap[0] + ty * g.weight_tap[1] + tx * g.weight_tap[2], 1);
                    });
                });
            });
        }
    }
    return finite;
}

enum { FLOATS_TO_PACK = 4096 };  // make a task worth handing out

static int run_pass(const Gather& g, const GatherPass& pass, int threads, bool in_pairs) {
    GatherRun run{g, pass, make_source(*g.source), make_source(*g.weight), make_target(*g.target), in_pairs};
    const auto choose = in_pairs ? &GatherKernels::choose<HAS_PAIRS> : &GatherKernels::choose<false>;
    (run.kernels.*choose)(pass.mr, pass.nr_vectors);
    if (pass.side_by_side) (run.last_kernels.*choose)(pass.mr, 1);
    run.source_in_place = source_is_tile(g, pass);
    const index_t all_chunks = pass.chunks * g.groups;
    if (pass.shared_weights && !pass.weights_in_place) {
        const SharedScratch shared(pass.shared);
        if (shared.memory == nullptr) return CG_OUT_OF_MEMORY;
        run.packed = shared.at(pass.packed);
    }
    for (run.first_chunk = 0; run.first_chunk < all_chunks; run.first_chunk += pass.chunks_at_once) {
        run.chunks = min(pass.chunks_at_once, all_chunks - run.first_chunk);
        if (pass.shared_weights && !pass.weights_in_place) {
            const index_t k_blocks = run.k_blocks(), panels = ceil_div(pass.chunk_rows, pass.mr);
            const index_t worth = pass.chunk_rows * pass.reduction / max(1, k_blocks) / FLOATS_TO_PACK;
            const index_t parts = clamp(4 * threads / max(1, run.chunks * k_blocks), 1, clamp(worth, 1, panels));
            auto pack = [&](index_t task, char*) {
                const index_t chunk = run.first_chunk + task / parts / k_blocks, kb = task / parts % k_blocks;
                const index_t begin = chunk % pass.chunks * pass.chunk_rows, part = task % parts;
                const index_t rows = min(g.out_channels - begin, pass.chunk_rows);
                const PackedRows some{rows, min(rows, panels * part / parts * pass.mr),
                                      min(rows, panels * (part + 1) / parts * pass.mr)};
                float* to = run.packed + (chunk - run.first_chunk) * pass.chunk_rows * pass.reduction +
                            packed_before(run, kb) * rows;
                pack_weights(run, chunk / pass.chunks, begin, some, k_block(run, kb), to).note(&run);
            };
            const int status = in_parallel(threads, run.chunks * k_blocks * parts, 0, pack);
            if (status != CG_OK) return status;
        }
        const index_t tasks = ceil_div(run.chunks, pass.groups_at_once) * pass.blocks.total * pass.row_splits;
        auto compute = [&](index_t number, char* scratch) {
            gather_task(run, gather_task_number(run, number), gather_task_number(run, min(number + 1, tasks - 1)),
                        scratch);
        };
        const int status = in_parallel(threads, tasks, pass.task.bytes, compute);
        if (status != CG_OK) return status;
    }
    if (is_raised(&run.weight_broken) && is_raised(&run.padding_met) &&
        (!pass.weights_in_place || !weights_are_finite(g, pass)))
        return STATUS_REDO_PLAIN;
    const bool exact = !in_pairs || pairs_are_exact(run.smallest_source, run.smallest_weight);
    return exact ? int(CG_OK) : int(STATUS_REDO_UNPAIRED);
}

static int run_gemm_data(const Call& call, const Plan& plan) {
    return run_passes(call, plan, [](const Gather& g, const GatherPass& pass, int threads) {
        const bool in_pairs = HAS_PAIRS && pass.paired && fits_bfloat(*g.source) && fits_bfloat(*g.weight);
        const int status = run_pass(g, pass, threads, in_pairs);
        return status == STATUS_REDO_UNPAIRED ? run_pass(g, pass, threads, false) : status;
    });
}

}  // namespace
}  // namespace cg
