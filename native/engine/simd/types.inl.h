// The vector types. Two are used for numbers:
//   vf  float x LANES   the widest registers, in the matrix kernels (no result depends on the number of lanes)
//   v8  float x 8       everywhere else, whatever the machine, so that sums over lanes come out the same
#pragma once

#include "numbers/integers.h"

#define INLINE inline __attribute__((always_inline))
#define OUTLINE __attribute__((noinline))
#define UNROLL _Pragma("GCC unroll 16")

namespace cg {
namespace {

typedef float vf __attribute__((vector_size(LANES * 4)));
typedef uint32_t uf __attribute__((vector_size(LANES * 4)));
typedef float vf_unaligned __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef float v8 __attribute__((vector_size(32)));
typedef float v8_unaligned __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t i8 __attribute__((vector_size(32)));
typedef uint32_t u8 __attribute__((vector_size(32)));
typedef uint16_t h8 __attribute__((vector_size(16)));
typedef uint16_t h8_unaligned __attribute__((vector_size(16), aligned(2), may_alias));
typedef double d4 __attribute__((vector_size(32)));

}  // namespace
}  // namespace cg
