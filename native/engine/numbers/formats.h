// Number formats: exact scalar rounding, the definition the vector conversions are tested against.
#pragma once

#include "numbers/integers.h"

namespace cg {

double load_as_double(const void* data, index_t element, int dtype);
void store_from_double(void* data, index_t element, int dtype, double value);
double round_to(int dtype, double value);  // one rounding, by the ties and overflow of the format's row
index_t bytes_per_element(int dtype);      // 0 for a dtype that cannot be stored
const float* byte_values(int dtype);       // 256 values of an 8-bit format
const uint8_t* byte_codes(int dtype);      // 65536 codes, by the upper half of a float32 (its last bit sticky)
const char* dtype_name(int dtype);

// How a stored element becomes a float32 operand, and a float32 result a stored element.
enum LoadKind {
    LOAD_F32,
    LOAD_F16,
    LOAD_BF16,
    LOAD_HF32_11,
    LOAD_HF32_10,
    LOAD_F32_AS_F16,
    LOAD_F32_AS_BF16,
    LOAD_BYTE,
    LOAD_F64,
    LOAD_ANY,
    LOAD_KINDS
};
enum StoreKind { STORE_F32, STORE_F16, STORE_BF16, STORE_BYTE, STORE_F64, STORE_ANY, STORE_KINDS };
int load_kind(const cg_tensor& tensor);
bool fits_bfloat(const cg_tensor& tensor);  // whether bfloat16 has every number of an operand's format
int store_kind(const cg_tensor& tensor);

// Whether storing a sum errs more than any chain of multiply-adds: in 16 bits or less it does, and the sum is not cut
// into short chains.
bool result_rounding_dominates(const cg_tensor& result);

}  // namespace cg
