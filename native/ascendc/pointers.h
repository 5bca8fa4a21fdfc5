// Pointers read back from their offsets as indices, and the mistakes that shows: the words of the Python model.
#pragma once

#include "object.h"

namespace convgrad {
namespace tile {

// What a walk of either gradient starts from; offsets are in elements from the start of their tensors.
struct InputWalk {
    int64_t ho_start = 0, plane = 0;
    int64_t m_total = 0, n_total = 0, cout1 = 0;
};
Mistake grad_output_mistake(const InputRecord& t, int64_t offset, const InputWalk& walk);
Mistake weight_mistake(const InputRecord& t, int64_t offset, const InputWalk& walk);
Mistake grad_input_mistake(const InputRecord& t, int64_t offset, const InputWalk& walk);
std::vector<Mistake> pairing_mistakes(const InputRecord& t, int64_t grad_output, int64_t weight, int64_t grad_input);
Mistake filter_mistake(const FilterRecord& t, int64_t grad_output, int64_t input, int64_t grad_weight, int64_t ho_start,
                       int64_t m_total, int64_t n_total);

}  // namespace tile
}  // namespace convgrad
