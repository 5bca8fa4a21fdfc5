// Fewer multiplications: which cells make a tile, how many tiles a block, and when it pays.
#include "blocking/blocking_numbers.h"
#include "blocking/gather.h"
#include "numbers/formats.h"
#include "paths.h"

#include <initializer_list>

namespace cg {
namespace {

// What is told apart here and not in the problem: how many roots, and whether tiles are lines.
struct Tile {
    int path, roots;
    WinogradForm form;
};
constexpr Tile TILES[] = {
    {PATH_WINOGRAD_4, 4, SQUARE},    {PATH_WINOGRAD_7, 7, SQUARE},    {PATH_WINOGRAD_8, 8, SQUARE},
    {PATH_WINOGRAD_LINE_4, 4, LINE}, {PATH_WINOGRAD_LINE_8, 8, LINE}, {PATH_WINOGRAD_LINE_16, 16, LINE},
};

constexpr index_t products_of(const Tile& tile) {
    const index_t pairs = (tile.roots - 1) / 2, reals = tile.roots + 2 - 2 * pairs;
    return tile.form == LINE ? reals + 3 * pairs : reals * reals + 6 * reals * pairs + 6 * pairs * pairs;
}

bool is_line(index_t taps) { return taps >= 3 && taps <= 9; }

// From one product to the next: an odd number of cache lines, or the streams of a transform share a few cache sets.
index_t odd_lines(index_t floats) { return (ceil_div(floats, CACHE_LINE) | 1) * CACHE_LINE; }

index_t whole_vectors(index_t channels) { return round_up(channels, WINOGRAD_CHANNELS); }

// The channels that are summed over and those of the result; of a weight gradient, coarse and fine.
struct Channels {
    index_t reduced, result;
};
Channels channels_of(const Call& call) {
    const bool to_fine = call.contraction == TO_FINE;
    return Channels{to_fine ? call.p.coarse_channels : call.p.fine_channels,
                    to_fine ? call.p.fine_channels : call.p.coarse_channels};
}

// `most_tiles` of an item's plane, `planes` of a run.
TileGrid make_grid(const Call& call, const Tile& tile, index_t most_tiles, index_t planes) {
    const cg_problem& p = call.p;
    const bool to_fine = call.contraction == TO_FINE;
    TileGrid g;
    for (int a = 0; a < 3; ++a) {
        g.cells[a] = to_fine ? p.fine[a] : p.coarse[a];
        g.source[a] = to_fine ? p.coarse[a] : p.fine[a];
        g.dilation[a] = p.window[a] == 1 ? 1 : p.dilation[a];
        // To fine the window is turned round: o = i + pad - tap*dilation.
        g.before[a] = to_fine ? (p.window[a] - 1) * p.dilation[a] - p.pad[a] : p.pad[a];
        g.window[a] = a == 0 ? 1 : p.window[a];
        g.tile[a] = g.window[a] == 1 ? 1 : tile.roots + 3 - g.window[a];
        g.side[a] = g.tile[a] + g.window[a] - 1;
    }
    g.taps = p.window[0];
    g.run = g.taps == 1 ? 1 : even_part(g.cells[0], clamp(planes, 1, g.cells[0]), 1);
    g.images = p.batch;
    g.depth_runs = ceil_div(g.cells[0], g.run);
    g.phases = min(g.dilation[1], g.cells[1]);
    g.tile_rows = ceil_div(ceil_div(g.cells[1], g.dilation[1]), g.tile[1]);
    const index_t columns = ceil_div(ceil_div(g.cells[2], g.dilation[2]), g.tile[2]);
    const index_t longest = max(1, min(most_tiles, WINOGRAD_LONG_ROW * 4 / g.tile[2]) / g.dilation[2]);
    g.segments = ceil_div(columns, longest);
    g.length = ceil_div(columns, g.segments);
    g.tiles = g.length * g.dilation[2];
    g.items = g.images * g.depth_runs * g.phases * g.tile_rows * g.segments;
    g.source_planes = g.run + (g.taps - 1) * g.dilation[0];
    g.source_columns = (g.length * g.tile[2] + g.window[2] - 1) * g.dilation[2];
    return g;
}

index_t strip_floats(const TileGrid& g) { return g.side[1] * g.source_columns * WINOGRAD_CHANNELS; }

// A grid whose items fit: `of_source` floats of every tile that is read, `of_cells` of every tile that is written.
TileGrid fitting_grid(const Call& call, const Tile& tile, index_t room, index_t of_source, index_t of_cells) {
    const index_t halo = (call.p.window[0] - 1) * call.p.dilation[0] * of_source;
    const TileGrid one = make_grid(call, tile, room / (halo + of_source + of_cells), 1);
    return make_grid(call, tile, one.length * one.dilation[2], (room / one.tiles - halo) / (of_source + of_cells));
}

void plan_data(const Call& call, const Tile& tile, WinogradPlan* w) {
    const Channels n = channels_of(call);
    const index_t reduced = whole_vectors(n.reduced), result = whole_vectors(n.result), taps = call.p.window[0];
    const index_t products = w->products, room = WINOGRAD_TASK_FLOATS / products;
    const bool weights_stay = double(taps) * double(products) * double(n.reduced) * double(result) <= SHARED_FLOATS;
    w->mode = weights_stay ? WEIGHTS_STAY : TILES_STAY;
    w->partials = 1;
    const index_t panel = 2 * call.lanes;
    if (weights_stay) {
        // Enough tiles for the matrix product, few enough to stay in L2; some blocks for every thread.
        const index_t most = room / (reduced + result);
        const index_t tiles = min(most, clamp(WINOGRAD_BLOCK_FLOATS / (products * (reduced + result)), 14, 56));
        w->grid = fitting_grid(call, tile, room, reduced, result);
        const TileGrid& g = w->grid;
        const index_t per_item = g.tiles * g.run;
        w->block_items = clamp((tiles + per_item / 2) / per_item, 1, max(1, g.items / (2 * call.threads)));
    } else {
        // As many tiles as their sums of one panel leave room for, beside the windows of 128 reduced channels.
        const index_t most = room / WINOGRAD_WIDEST_PANEL - WINOGRAD_DEPTH;
        const index_t tiles = max(1, min(most, SHARED_FLOATS / (products * reduced)));
        w->grid = fitting_grid(call, tile, tiles, 1, 0);
        const TileGrid& g = w->grid;
        const index_t fit = max(1, tiles / (g.tiles * max(g.run, g.source_planes)));
        w->block_items = ceil_div(g.items, ceil_div(g.items, fit));
    }
    const TileGrid& g = w->grid;
    w->blocks = ceil_div(g.items, w->block_items);
    w->rows = w->block_items * g.run * g.tiles;
    w->source_rows = w->block_items * g.source_planes * g.tiles;
    w->source_apart = odd_lines(w->source_rows * reduced);
    const index_t strip = strip_floats(g);
    w->strip = w->task.book<float>(strip);
    if (weights_stay) {
        w->weights_apart = odd_lines(n.reduced * result);
        w->sums_apart = odd_lines(w->rows * result);
        w->weights = w->shared.book<float>(taps * products * w->weights_apart);
        w->source = w->task.book<float>(products * w->source_apart);
    } else {
        w->weights_apart = odd_lines(min(n.reduced, WINOGRAD_DEPTH) * panel);
        w->sums_apart = odd_lines(w->rows * panel);
        w->weights = w->task.book<float>(products * w->weights_apart);
        w->source = w->shared.book<float>(products * w->source_apart);
    }
    w->sums = w->task.book<float>(products * w->sums_apart);
}

bool adds_in_place(const cg_problem& p) { return store_kind(p.to_weight) == STORE_F32; }

// The cost of the cells of a tile that are read, and of those that are written or stand in their place.
double of_line(const TileGrid& g, const Tile& tile, double cost) {
    return (g.window[2] > 1 ? 1 : WINOGRAD_ACROSS) * (cost + tile.roots);
}
double cells_in(const TileGrid& g, const Tile& tile) {
    if (tile.form == LINE) return of_line(g, tile, WINOGRAD_LINE_IN) * tile.roots;
    return WINOGRAD_CELL_IN * tile.roots * tile.roots;
}
double cells_out(const TileGrid& g, const Tile& tile) {
    if (tile.form == LINE) return of_line(g, tile, WINOGRAD_LINE_OUT) * double(g.tile[1] * g.tile[2]);
    return WINOGRAD_CELL_OUT * tile.roots * double(g.tile[1]);
}

// Fine channels whose tiles are shared. Few of them leave room for many tiles: windows are transformed back less often,
// coarse cells are transformed once for every share.
index_t shared_channels(const Call& call, const Tile& tile, index_t most_tiles, index_t windows) {
    const cg_problem& p = call.p;
    const index_t fine = whole_vectors(p.fine_channels), products = products_of(tile);
    const TileGrid g = make_grid(call, tile, 1, 1);
    const index_t chunk = min(fine, WINOGRAD_CHUNK), smallest = products * g.tiles * g.source_planes;  // of an item
    const double tiles = double(g.items) * double(g.tiles), coarse = double(p.coarse_channels);
    const double numbers = double(products) * double(g.taps) * coarse * double(fine);
    double least = 0;
    index_t best = 0;
    for (index_t some = fine;; some = round_up(ceil_div(some, 2), chunk)) {
        const index_t left = SHARED_FLOATS - (adds_in_place(p) ? 0 : windows * some);
        if (left >= smallest * some || some <= chunk) {
            const double fit = double(max(1, min(most_tiles, left / (products * some))));
            const double blocks = __builtin_ceil(tiles * double(g.source_planes) / fit);
            const double shares = double(ceil_div(fine, some)) * tiles * cells_out(g, tile);
            const double cost = blocks * numbers * WINOGRAD_WINDOW_OUT + shares * coarse;
            if (best == 0 || cost < least) {
                least = cost;
                best = some;
            }
        }
        if (some <= chunk) return best;
    }
}

void plan_weight(const Call& call, const Tile& tile, WinogradPlan* w) {
    const cg_problem& p = call.p;
    const index_t coarse = p.coarse_channels, fine = whole_vectors(p.fine_channels), taps = p.window[0];
    const index_t products = w->products, room = WINOGRAD_TASK_FLOATS / products;
    const bool one_chunk = coarse <= WINOGRAD_CHUNK && fine <= WINOGRAD_CHUNK;
    const index_t windows = coarse * taps * p.window[1] * p.window[2];  // of one fine channel
    const bool sums_fit = adds_in_place(p) || windows * WINOGRAD_CHUNK <= SHARED_FLOATS / 2;
    w->mode = one_chunk || !sums_fit ? RUNS : SHARED_TILES;
    // Where tiles are shared the sums of a chunk stay in L2.
    const index_t half = products * WINOGRAD_CHUNK * WINOGRAD_CHUNK <= WINOGRAD_BLOCK_FLOATS ? 1 : 2;
    w->chunk_coarse = min(whole_vectors(coarse), WINOGRAD_CHUNK / (w->mode == RUNS ? 1 : half));
    w->chunk_fine = min(fine, WINOGRAD_CHUNK);
    w->partials = 1;
    if (w->mode == RUNS) {
        while (taps * w->chunk_coarse * w->chunk_fine > room * 5 / 8 && w->chunk_fine > WINOGRAD_CHANNELS)
            w->chunk_fine = whole_vectors(w->chunk_fine / 2);
        const index_t kept = w->chunk_coarse;
        const index_t left = room - taps * w->chunk_coarse * w->chunk_fine - 64;
        const index_t tiles = clamp(left / (kept + w->chunk_fine), 1, 56);
        w->grid = fitting_grid(call, tile, left, w->chunk_fine, kept);
        const TileGrid& g = w->grid;
        w->block_items = max(1, tiles / (g.tiles * g.source_planes));
        w->blocks = ceil_div(g.items, w->block_items);
        const index_t chunks = ceil_div(coarse, w->chunk_coarse) * ceil_div(fine, w->chunk_fine);
        w->partials =
            clamp(min(ceil_div(WINOGRAD_RUNS, chunks), w->blocks / 2), 1, max(1, SHARED_FLOATS / (windows * fine)));
    } else {
        const index_t most = room / w->chunk_coarse - w->chunk_fine;  // tiles of a task
        w->shared_fine = shared_channels(call, tile, most, windows);
        // Sums over blocks of tiles are added up in the result itself where it is float32.
        const index_t kept = adds_in_place(p) ? 0 : windows * w->shared_fine;
        const index_t tiles = max(1, min(most, (SHARED_FLOATS - kept) / (products * w->shared_fine)));
        w->grid = fitting_grid(call, tile, tiles, 1, 0);
        const TileGrid& g = w->grid;
        const index_t fit = max(1, tiles / (g.tiles * g.source_planes));
        w->block_items = ceil_div(g.items, ceil_div(g.items, fit));
        w->blocks = ceil_div(g.items, w->block_items);
        // Chunks of coarse channels do not order a sum: smaller ones where threads would have none.
        while (w->chunk_coarse > WINOGRAD_CHANNELS && ceil_div(coarse, w->chunk_coarse) < 2 * call.threads)
            w->chunk_coarse = whole_vectors(w->chunk_coarse / 2);
    }
    const TileGrid& g = w->grid;
    w->rows = w->block_items * g.run * g.tiles;
    w->source_rows = w->block_items * g.source_planes * g.tiles;
    const bool runs = w->mode == RUNS;
    w->source_apart = odd_lines(w->source_rows * (runs ? w->chunk_fine : w->shared_fine));
    w->window_apart = odd_lines(w->rows * w->chunk_coarse);
    w->sums_apart = odd_lines(w->chunk_coarse * w->chunk_fine);
    w->strip = w->task.book<float>(strip_floats(g));
    w->source = (runs ? w->task : w->shared).book<float>(products * w->source_apart);
    w->window = w->task.book<float>(products * w->window_apart);
    w->sums = w->task.book<float>((runs ? taps : 1) * products * w->sums_apart);
    const bool kept = !runs && w->blocks > 1 && !adds_in_place(p);
    w->partial_sums = w->shared.book<float>(w->partials > 1 ? w->partials * windows * fine
                                            : kept          ? windows * w->shared_fine
                                                            : 0);
}

void make_winograd_plan(const Call& call, const Tile& tile, WinogradPlan* w) {
    *w = WinogradPlan{};
    w->roots = tile.roots;
    w->form = tile.form;
    w->products = products_of(tile);
    call.contraction == TO_WEIGHT ? plan_weight(call, tile, w) : plan_data(call, tile, w);
}

// ---- cost ------------------------------------------------------------------------------------------------------

// What a contraction costs, in multiply-adds of the matrix product (21 ps each on the core it was measured on): from
// the problem alone, so that results do not depend on the machine.
double direct_cost(const Call& call) {
    const cg_problem& p = call.p;
    const cg_tensor& source = source_of(p, call.contraction);
    const cg_tensor& other = call.contraction == TO_WEIGHT ? p.coarse_operand : p.weight_operand;
    // Where a processor multiplies pairs of bfloat16 the direct paths do two steps at once.
    return multiplications(p) * (fits_bfloat(source) && fits_bfloat(other) ? 0.55 : 1.0);
}

double winograd_cost(const Call& call, const Tile& tile) {
    const cg_problem p = winograd::oriented(call.p, tile.form);
    WinogradPlan w;
    make_winograd_plan(Call{p, call.contraction, 16, 2}, tile, &w);
    const TileGrid& g = w.grid;
    const Channels n = channels_of(call);
    const double groups = double(p.groups), planes = double(g.items) * double(g.tiles);  // tiles of one plane
    const double tiles = planes * double(g.run), source_tiles = planes * double(g.source_planes);
    const double reduced = double(whole_vectors(n.reduced)), result = double(whole_vectors(n.result));
    const double numbers = double(w.products) * double(g.taps) * reduced * result;  // of the transformed windows
    const double in = cells_in(g, tile), out = cells_out(g, tile);
    double cost = tiles * numbers;
    if (call.contraction == TO_WEIGHT) {
        const index_t fine = whole_vectors(p.fine_channels);
        const double fine_times = w.mode == RUNS ? double(ceil_div(p.coarse_channels, w.chunk_coarse)) : 1;
        const double coarse_times = double(ceil_div(fine, w.mode == RUNS ? w.chunk_fine : w.shared_fine));
        cost += source_tiles * in * double(p.fine_channels) * fine_times +
                tiles * out * double(p.coarse_channels) * coarse_times +
                numbers * double(w.blocks) * WINOGRAD_WINDOW_OUT;
    } else {
        const double times = w.mode == TILES_STAY ? double(w.blocks) : 1;
        // Windows of lines are read again for every block: that weighs where they do not stay in L2.
        const bool far = tile.form == LINE && numbers > double(WINOGRAD_BLOCK_FLOATS);
        cost += source_tiles * in * double(n.reduced) + tiles * out * double(n.result) +
                numbers * (times * WINOGRAD_WINDOW_IN + (far ? WINOGRAD_FAR_WINDOW : 2) * double(w.blocks));
    }
    return cost * groups;
}

// Data gradients and forward passes are a batch of problems, each of which must have the bits it has alone: the choice
// is made as for WINOGRAD_BATCH images, however many there are; as for one where tiles are lines.
int best_path(const Call& asked) {
    const bool exact = asked.p.algorithm == CG_EXACT_FAST;
    double least = WINOGRAD_MARGIN;
    int best = PATH_CHOOSE;
    for (const Tile& tile : TILES) {
        cg_problem p = asked.p;
        if (asked.contraction != TO_WEIGHT) p.batch = tile.form == LINE ? 1 : WINOGRAD_BATCH;
        const Call call{p, asked.contraction, asked.lanes, asked.threads};
        if ((exact && !path_table[tile.path].exact) || !path_accepts(call, tile.path)) continue;
        const double share = winograd_cost(call, tile) / direct_cost(call);
        if (share < least) {
            least = share;
            best = tile.path;
        }
    }
    return best;
}

}  // namespace

cg_problem winograd::oriented(const cg_problem& p, WinogradForm form) {
    // Lines run along the width, or else along the height; what other taps there are become the depth's.
    const bool turns = form == LINE && (p.window[2] > 1 ? p.window[1] > 1 : !is_line(p.window[1]));
    return turns ? with_axes_exchanged(p, 0, 1) : p;
}

namespace {

constexpr Tile tile_of(int roots, WinogradForm form) {
    for (const Tile& tile : TILES)
        if (tile.roots == roots && tile.form == form) return tile;
    return Tile{PATH_CHOOSE, 0, SQUARE};
}

// Windows of 3 x 3 or 5 x 5 taps in height and width are squares. Others are lines where, turned, either the height or
// the width has taps, three to nine; a tile keeps two cells.
bool takes_window(const cg_problem& p, const cg_problem& turned, const Tile& tile) {
    const bool square = p.window[1] == p.window[2] && (p.window[1] == 3 || p.window[1] == 5);
    if (tile.form == SQUARE || square) return square && tile.form == SQUARE;
    if (turned.window[1] != 1 && turned.window[2] != 1) return false;
    const index_t taps = max(turned.window[1], turned.window[2]);
    return is_line(taps) && taps <= tile.roots + 1;
}

}  // namespace

// Stride 1; the smallest block must fit.
template <int ROOTS, WinogradForm FORM> bool winograd::accepts(const Call& call, Plan*) {
    constexpr Tile tile = tile_of(ROOTS, FORM);
    const cg_problem p = oriented(call.p, FORM);
    if (call.contraction == BIAS || uses_double(p, call.contraction) || p.batch == 0) return false;
    if (!takes_window(call.p, p, tile)) return false;
    if (p.fine_channels == 0 || p.coarse_channels == 0) return false;
    double planes = 1;
    for (int a = 0; a < 3; ++a) {
        if (p.stride[a] != 1 || p.fine[a] == 0 || p.coarse[a] == 0 || p.window[a] == 0) return false;
        if (p.window[a] > 1 && p.dilation[a] > WINOGRAD_DILATION) return false;
    }
    if (p.window[0] > WINOGRAD_DEPTH_TAPS) return false;
    planes += double(p.window[0] - 1) * double(p.dilation[0]);
    // The tiles of one item: every phase of the width, one plane and what its taps reach.
    const double channels = double(max(p.fine_channels, p.coarse_channels)) + WINOGRAD_CHANNELS;
    const double tiles = planes * double(p.window[2] > 1 ? p.dilation[2] : 1) * double(products_of(tile));
    return tiles * channels <= double(SHARED_FLOATS) && tiles * 2 * WINOGRAD_CHUNK <= double(WINOGRAD_TASK_FLOATS) / 4;
}

template <int ROOTS, WinogradForm FORM> bool winograd::prefers(const Call& call, Plan*) {
    return call.p.algorithm != CG_DIRECT && best_path(call) == tile_of(ROOTS, FORM).path;
}

template <int ROOTS, WinogradForm FORM> void winograd::plan(const Call& call, Plan* plan) {
    const cg_problem p = oriented(call.p, FORM);
    make_winograd_plan(Call{p, call.contraction, call.lanes, call.threads}, tile_of(ROOTS, FORM), &plan->winograd);
}

#define WINOGRAD_ROW(ROOTS, FORM)                                     \
    template bool winograd::accepts<ROOTS, FORM>(const Call&, Plan*); \
    template bool winograd::prefers<ROOTS, FORM>(const Call&, Plan*); \
    template void winograd::plan<ROOTS, FORM>(const Call&, Plan*);
WINOGRAD_ROW(4, SQUARE)
WINOGRAD_ROW(7, SQUARE)
WINOGRAD_ROW(8, SQUARE)
WINOGRAD_ROW(4, LINE)
WINOGRAD_ROW(8, LINE)
WINOGRAD_ROW(16, LINE)

size_t winograd::workspace(const Call& call, const Plan& plan) {
    return plan.winograd.shared.bytes + size_t(call.threads) * plan.winograd.task.bytes;
}

void winograd::cuts(const Call& call, const Plan& plan, int64_t cuts[CG_CUTS]) {
    const WinogradPlan& w = plan.winograd;
    cuts[CG_CUT_BATCH] = w.blocks;
    cuts[CG_CUT_DEPTH] = w.grid.depth_runs;
    cuts[CG_CUT_HEIGHT] = w.grid.tile_rows;
    cuts[CG_CUT_WIDTH] = w.grid.segments;
    if (winograd::oriented(call.p, w.form).window[0] != call.p.window[0]) {  // depth and height changed places
        cuts[CG_CUT_DEPTH] = w.grid.tile_rows;
        cuts[CG_CUT_HEIGHT] = w.grid.depth_runs;
    }
    cuts[CG_CUT_REDUCED_CHANNELS] = 1 + w.mode;
    cuts[CG_CUT_PARTIALS] = w.partials;
    if (call.contraction == TO_WEIGHT) cuts[CG_CUT_RESULT_CHANNELS] = ceil_div(call.p.coarse_channels, w.chunk_coarse);
    else cuts[CG_CUT_RESULT_CHANNELS] = ceil_div(channels_of(call).result, WINOGRAD_CHANNELS);
}

}  // namespace cg
