// One call of an operator, as it was made: the C door's counterpart of convgrad.Request. It may be nonsense.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace convgrad {

using Numbers = std::vector<int64_t>;

enum class Operator { ConvolutionBackward, ConvTbcBackward };

constexpr const char* operator_name(Operator op) {
    return op == Operator::ConvTbcBackward ? "aclnnConvTbcBackward" : "aclnnConvolutionBackward";
}

struct TensorSpec {
    Numbers shape;
    int dtype = -1;   // aclDataType
    int format = -1;  // aclFormat
};

struct Request {
    Operator op = Operator::ConvolutionBackward;
    std::optional<TensorSpec> grad_output, input, weight, bias, grad_input, grad_weight, grad_bias;
    std::optional<Numbers> bias_sizes, stride, padding, dilation, output_padding;
    std::optional<Numbers> output_mask = Numbers{1, 1, 1};
    bool transposed = false;
    int64_t groups = 1, math = 0, pad = 0;
    int product = -1;  // place among the products
    bool runtime_conformance = false;
    int deterministic = 0;  // the process's level at phase one
};

struct Verdict {
    int status = 0;
    std::string message;    // the first broken row in words, with the value ...
    const char* rule = "";  // ... and its id; both empty when every row holds
};

// One loop over the generated rows; the first broken one decides.
Verdict check(const Request& request);

// The request as a problem line, every part told literally.
std::string problem_line(const Request& request);

// What an accepted request is computed in, each an enum cg_dtype: operands are rounded to `compute`, sums are kept in
// `accumulate`, grad_input is rounded to `result` before it is stored.
struct Precision {
    int compute = -1, accumulate = -1, result = -1;
};
Precision precision_of(const Request& request);

// Low and high padding per axis; nothing when the length of `padding` fits neither form.
std::optional<std::vector<std::pair<int64_t, int64_t>>> pad_pairs(const Numbers& padding, int64_t axes);

}  // namespace convgrad
