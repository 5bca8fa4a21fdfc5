// Where the microkernels of the weight contraction find a pixel.
#pragma once

namespace cg {
namespace {

// A pixel, or a pair beginning with it: its cell in the tile of the tap at offset 0, and its number among the packed
// coarse values.
struct Pixel {
    int cell, number;
};

}  // namespace
}  // namespace cg
