// What the parts of the engine share: plain structs and the few functions compiled for the baseline ISA.
//
// The sources named kernels*.h are compiled once per instruction set. Nothing here may be a template or an
// inline function with external linkage: the linker would merge the copies and could keep the AVX-512 one
// on a machine that has no AVX-512.
#pragma once

#include "convgrad.h"

namespace cg {

typedef int64_t index_t;

// ---- numbers: exact scalar rounding, the definition the vector conversions are tested against -----------------

double load_as_double(const void* data, index_t element, int dtype);
void store_from_double(void* data, index_t element, int dtype, double value);
double round_to(int dtype, double value);   // one rounding, by the ties and overflow of the format's row
index_t bytes_per_element(int dtype);       // 0 for a dtype that cannot be stored
const float* byte_values(int dtype);        // 256 values of an 8-bit format
const uint8_t* byte_codes(int dtype);       // 65536 codes, by the upper half of a float32 (its last bit sticky)
const char* dtype_name(int dtype);

// How a stored element becomes a float32 operand, and a float32 result a stored element.
enum LoadKind { LOAD_F32, LOAD_F16, LOAD_BF16, LOAD_HF32_11, LOAD_HF32_10, LOAD_F32_AS_F16, LOAD_F32_AS_BF16,
                LOAD_BYTE, LOAD_F64, LOAD_ANY, LOAD_KINDS };
enum StoreKind { STORE_F32, STORE_F16, STORE_BF16, STORE_BYTE, STORE_F64, STORE_ANY, STORE_KINDS };
int load_kind(const cg_tensor& tensor);
bool fits_bfloat(const cg_tensor& tensor);  // whether bfloat16 has every number of an operand's format
int store_kind(const cg_tensor& tensor);

// ---- threads ---------------------------------------------------------------------------------------------------

// Runs body(context, task, scratch) for every task in [0, tasks) on at most `threads` threads, each with its own
// `scratch_bytes` of memory. Which thread runs which task is never fixed: bodies must not let it show in the bits.
// Returns a cg_status.
typedef void (*TaskBody)(void* context, index_t task, char* scratch);
int run_tasks(int threads, index_t tasks, size_t scratch_bytes, TaskBody body, void* context);

// Memory shared by the tasks of one call: owned by the calling thread, grown when needed, never shrunk below use.
char* shared_scratch(size_t bytes);
int default_threads();

// Scratch memory under test (cg_check_scratch): NaN before every task, guard words behind every piece.
enum { SCRATCH_GUARD_BYTES = 64 };
extern bool scratch_checked;
void spoil_scratch(char* scratch, size_t bytes);  // and forgets the pieces of the task before
void guard_piece(char* end);                      // of a piece of the running task
bool pieces_intact();                             // of the running task
void guard_shared(char* end);                     // of the calling thread's shared memory
bool shared_scratch_intact();

// ---- geometry of a gather -------------------------------------------------------------------------------------
//
// Both data contractions gather: an output cell reads source cells at offsets given by the taps of the window.
//
//   to fine    i = o*stride - pad + k*dilation. Output cells i = stride*j + residue form one class per residue;
//              a class only meets the taps with (residue + pad - k*dilation) divisible by the stride, and then
//              o = j + (residue + pad - k*dilation) / stride: a convolution without any inserted zero.
//   to coarse  output o reads i = stride*o + (k*dilation - pad): one class, source step = stride.
//
// The taps a class meets are an arithmetic progression per axis, and so are their offsets.
struct AxisTaps {
    index_t count, first_tap, tap_step, first_offset, offset_step;
};

struct TapRange {
    index_t begin, end;
};

struct AxisClass {
    AxisTaps taps;
    index_t residue, cells;  // output cells residue, residue + step, ...: `cells` of them
};

// A source copied into a zero-padded tile, split by residue so that neighbouring outputs read neighbours:
//   source index = scale*(low + position) + residue(slot)
struct TileAxis {
    index_t scale, low, span;     // span = largest minus smallest quotient
    index_t slots, first, step;   // residue(slot) = (first + slot*step) mod scale
};

// A box of output cells; axes: batch, depth, height, width.
struct Box {
    index_t begin[4], end[4];
};

struct Blocks {
    index_t extent[4], per[4], count[4], total;
};

struct Gather {
    index_t batch, groups, rows, depth;  // rows: output channels per group; depth: reduced channels per group
    index_t out[3], source_extent[3], out_step[3], source_step[3];
    index_t weight_group, weight_row, weight_depth, weight_tap[3];
    const cg_tensor *source, *weight;
    const cg_tensor* target;
};

enum { MAX_CLASSES = 16, MOST_TAPS = 512 };  // of a pass; of a tap group
enum { CACHE_LINE = 16 };                    // floats

// Floats from one row of sums to the next: an odd number of cache lines, or no whole number, so that the rows a
// microkernel has at hand do not fight for a few sets of the cache.
inline index_t sums_apart(index_t columns) { return columns % (2 * CACHE_LINE) == 0 ? columns + CACHE_LINE : columns; }

// Rows of a register tile two vectors wide: with two vectors and a broadcast they take 15 of 16 registers, and 19 of
// the 32 of AVX-512, where whole panels of eight leave no rest of the usual numbers of channels.
enum { PANEL_ROWS = 6, WIDE_PANEL_ROWS = 8, MOST_PANEL_ROWS = 8 };

// Multiply-adds in a row before a sum is put aside: its error grows with the square root of this.
enum { CHAIN = 72, SHORT_CHAIN = 12 };

struct ClassSet {  // classes computed together: they share one tile and are interleaved when written
    int count;     // = product of per
    int per[3];
    AxisClass axis[3][MAX_CLASSES];
};

// One pass over the output: blocks of pixels, blocks of the reduction, chunks of output channels.
struct GatherPass {
    ClassSet classes;
    int64_t most_taps, sum_taps;   // of one class, of all classes, in one tap group
    index_t tap_groups[3];         // the window is cut into boxes when the tile or the reduction would not fit
    index_t depth_block;           // reduced channels per K block (fixes the order of the sum: problem only)
    bool paired;                   // two channels at a time, tap by tap; otherwise channel after channel
    index_t chain;                 // steps, about, that one chain of multiply-adds sums
    bool direct;                   // microkernel reads the tile itself; otherwise panels are packed from it
    bool side_by_side;             // images are, in the tile: a vector is a few pixels of one row of one or several
    int panel_rows, panel_vectors; // register tile
    Blocks blocks;
    index_t span[3], slots[3];     // of the tile of every tap group
    index_t shared_columns;        // of padding, between two rows of the tile
    index_t tile_channel;          // floats of one channel of the largest tile
    index_t columns;               // padded pixel columns of the largest block, per class
    index_t plane_floats;          // where classes or images are put in order before they are written
    index_t chunk_rows, chunks;    // output channels per packed weight chunk, chunks per group
    index_t reduction;             // K: sum over tap groups of depth * taps, all classes
    bool weights_in_place;         // too few columns to pack weights for: the microkernel reads the tensor
    bool shared_weights;           // chunk weights packed once for all threads; otherwise per task
    index_t chunks_at_once;        // chunks packed together
    index_t groups_at_once;        // groups of one chunk that a task computes, their tiles filled together
    index_t row_splits;            // tasks per (chunk, block)
    size_t task_bytes, shared_bytes;
};

struct PassList {  // enumerates the passes of a gather without storing them
    bool merged[3];
    index_t count[3], total;
    bool zero_first;  // some output cells meet no tap and are in no pass
};

Gather make_gather(const cg_problem& p, bool to_fine);
PassList list_passes(const cg_problem& p, bool to_fine, int path);
bool plan_pass(const Gather& g, const cg_problem& p, bool to_fine, const PassList& list, index_t number, int lanes,
               int threads, int path, GatherPass* pass);
// Reduced channels, with all of their taps, that one chain of multiply-adds sums: whole pairs where they are paired.
index_t chain_channels(const GatherPass& pass, index_t taps);
bool reading_beats_packing(const cg_problem& p, bool to_fine);
bool images_beat_packing(const cg_problem& p, bool to_fine);
AxisTaps group_taps(const AxisTaps& taps, index_t groups, index_t number);
TapRange reaching_taps(const AxisTaps& taps, index_t step, index_t extent, index_t first, index_t last);
TileAxis tile_axis(const AxisTaps& taps, index_t scale);
Blocks make_blocks(const index_t extent[4], index_t target, index_t column_multiple);
void block_box(const Blocks& b, index_t number, Box* box);

// ---- weight contraction ---------------------------------------------------------------------------------------
//
//   weight[c, f, k] = sum over pixels of fine[f, pixel*stride - pad + k*dilation] * coarse[c, pixel]
//
// A matrix product (f, k) x pixels x c: fine values are broadcast straight from the tile, coarse values are
// packed to [pixel][c]. The pixels are cut into `partials` runs of blocks, each summed apart, added in order:
// that cut depends on the problem only.
struct WeightPlan {
    AxisTaps taps[3];
    index_t tap_groups[3], group_count;
    index_t most_taps;
    int panel_rows, panel_vectors;
    Blocks blocks;
    index_t partials;
    index_t chain;                               // pixels, at most, that one chain of multiply-adds sums
    index_t span[3], slots[3];
    index_t tile_channel, tile_channels, tile_floats;
    index_t tile_cell;                           // floats of a cell with its channels inside
    index_t block_pixels;
    bool channels_inside;                        // the channels of a cell lie side by side in the tile too
    bool by_tap;                                 // rows go tap by tap, each with the pixels that meet no padding
    index_t panels, panel_block;                 // coarse panels of a group; panels packed at a time
    index_t channel_split, panel_split;          // task grid over fine channels and coarse panels
    index_t channels_per_task, panels_per_task;
    index_t bias_sums;                           // of every run of pixels: the bias is summed beside; 0 when it is not
    size_t task_bytes, shared_bytes;
};
void plan_weight(const cg_problem& p, int lanes, int threads, WeightPlan* plan);

// The weight contraction of few pixels: the cells under every tap in rows, see kernels_columns.h.
enum { MOST_COLUMN_PIXELS = 256, COLUMN_LINE = 512 };
struct ColumnPlan {
    index_t pixels, taps, plane_floats, row_floats;
    index_t channels_at_once, channels_per_task;  // fine channels whose columns are held, laid out by one task
    size_t task_bytes, shared_bytes;
};
bool columns_fit(const cg_problem& p);
void plan_columns(const cg_problem& p, ColumnPlan* plan);

// The weight contraction of up to twelve coarse channels per group, see kernels_few.h.
enum { MOST_FEW_CHANNELS = 12 };
struct FewPlan {
    AxisTaps taps[3];
    index_t count;                               // of the taps
    Blocks blocks;
    index_t block_steps;                         // vectors of eight pixels, at most, of a block
    index_t span[3], slots[3];
    index_t tile_channels, tile_floats;          // fine channels copied at a time
    index_t coarse_plane;                        // floats of a coarse channel of a block
    index_t groups_per_task;                     // small groups that are copied together
    index_t partials;                            // runs of pixels (fixes the order of the sum: problem only)
    index_t bias_sums;                           // of every run of pixels: the bias is summed beside; 0 when it is not
    size_t task_bytes, shared_bytes;
};
bool few_fit(const cg_problem& p);
bool few_beat_panels(const cg_problem& p);
void plan_few(const cg_problem& p, int threads, FewPlan* plan);

// ---- depthwise ------------------------------------------------------------------------------------------------

bool is_depthwise(const cg_problem& p);

struct DepthwiseWeightPlan {
    AxisTaps taps[3];
    index_t tap_groups[3], group_count, most_taps;
    Blocks blocks;
    index_t span[3], slots[3];
    bool wide;  // vectors along the window's columns instead of along the pixels
    index_t channels_at_once;
    index_t tile_floats, coarse_floats, sum_floats;
    index_t partials;
    size_t task_bytes, shared_bytes;
};
// One channel or a few per group, side by side: blocks of pixels and of channels.
struct ChannelPlan {
    Blocks blocks;
    index_t channels, mates;   // of all groups, of one
    bool copies;               // sources are converted into a buffer even where they could be read in place
    index_t block;             // channels of a task, a multiple of 16
    index_t channels_at_once;  // whose weights or sums are held together
    index_t source_floats, line_floats, partials;
    size_t task_bytes, shared_bytes;
};
void plan_channels(const cg_problem& p, int contraction, int threads, ChannelPlan* plan);
bool channels_fit(const cg_problem& p, int contraction);
AxisClass axis_class(const cg_problem& p, bool to_fine, int axis, index_t residue);

void plan_depthwise_weight(const cg_problem& p, DepthwiseWeightPlan* plan);

// ---- paths -----------------------------------------------------------------------------------------------------

enum Contraction { TO_FINE, TO_COARSE, TO_WEIGHT, BIAS };
enum Path { PATH_CHOOSE, PATH_PLAIN, PATH_DEPTHWISE_CHANNELS, PATH_GROUPED_CHANNELS, PATH_DEPTHWISE_ROWS,
            PATH_GEMM_COLUMNS, PATH_FEW_CHANNELS, PATH_GEMM_IMAGES, PATH_GEMM_DIRECT, PATH_GEMM_PACKED, PATHS };
struct PathRow {
    const char* name;
    const char* condition;
    bool (*accepts)(const cg_problem& p, int contraction);
    bool (*prefers)(const cg_problem& p, int contraction);
};
extern const PathRow path_table[PATHS];
int choose_path(const cg_problem& p, int contraction);
bool uses_double(const cg_problem& p, int contraction);
double multiplications(const cg_problem& p);

// ---- one instruction set ---------------------------------------------------------------------------------------

// An inf or NaN met a padding zero: the plain path knows what is tied to what. Or numbers are too small for pairs of
// bfloat16: one by one they are not.
enum { STATUS_REDO_PLAIN = 100, STATUS_REDO_UNPAIRED = 101 };

struct Isa {
    const char* name;
    int lanes;
    int (*run)(const cg_problem& p, int contraction, int path, int threads);
    size_t (*workspace)(const cg_problem& p, int contraction, int path, int threads);
    void (*cuts)(const cg_problem& p, int contraction, int path, int64_t cuts[CG_CUTS]);
    void (*load)(const cg_tensor& tensor, index_t count, float* out);
    void (*store)(const cg_tensor& tensor, index_t count, const float* values);
};
const Isa& isa();

}  // namespace cg
