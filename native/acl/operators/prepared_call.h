// From an accepted request to a run of the engine: the C door's counterpart of ConvProblem and Plan.
#pragma once

#include <memory>

#include "operators/executor.h"
#include "runtime/objects.h"
#include "operators/request.h"

namespace convgrad {

// A tensor of a call. Its shape is the one phase 1 saw; only the address is read again when the call runs.
struct CallTensor {
    std::shared_ptr<Tensor> tensor;  // null where the call had none, or the mask says no
    std::shared_ptr<const TensorShape> shape;
};

struct CallTensors {
    CallTensor grad_output, input, weight, grad_input, grad_weight, grad_bias;
};

// Prepares the run of an accepted request. Gives null, with a message and `*status`, when a tensor's strides
// reach further than memory can.
std::shared_ptr<Executor> prepare(const Request& request, const CallTensors& tensors, int* status);

}  // namespace convgrad
