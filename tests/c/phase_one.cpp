// Puts requests through phase 1: one request per line of standard input, one answer "status<TAB>text" per line.
//
//   conv go x w biasSizes stride padding dilation transposed outputPadding groups mask math gx gw gb
//   tbc  go x w b pad math gx gw gb
//
// A tensor is "-" (null) or "rank size... dtype format"; an array is "-" or "length value..."; codes are the vendor's.
#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_convolution_backward.h"

namespace {

// What one line made, destroyed with it.
class Line {
public:
    explicit Line(const std::string &text) : words_(text) {}
    ~Line() {
        for (const aclTensor *tensor : tensors_) aclDestroyTensor(tensor);
        for (const aclIntArray *array : arrays_) aclDestroyIntArray(array);
        aclDestroyBoolArray(mask_);
    }
    std::string word() {
        std::string next;
        words_ >> next;
        return next;
    }
    int64_t number() { return std::stoll(word()); }
    aclTensor *tensor() {
        std::vector<int64_t> shape;
        if (!numbers(&shape)) return nullptr;
        const int dtype = int(number()), format = int(number());
        // Strides of nonsense shapes may not be countable; phase 1 reads shapes only.
        const std::vector<int64_t> strides(shape.size(), 1);
        tensors_.push_back(aclCreateTensor(shape.data(), shape.size(), aclDataType(dtype), strides.data(), 0, aclFormat(format),
                                           shape.data(), shape.size(), nullptr));
        return tensors_.back();
    }
    aclIntArray *array() {
        std::vector<int64_t> values;
        if (!numbers(&values)) return nullptr;
        arrays_.push_back(aclCreateIntArray(values.data(), values.size()));
        return arrays_.back();
    }
    aclBoolArray *mask() {
        std::vector<int64_t> values;
        if (!numbers(&values)) return nullptr;
        bool flags[64] = {};
        for (size_t i = 0; i < values.size() && i < 64; ++i) flags[i] = values[i] != 0;
        return mask_ = aclCreateBoolArray(flags, values.size());
    }

private:
    bool numbers(std::vector<int64_t> *values) {
        const std::string count = word();
        if (count == "-") return false;
        for (int64_t i = std::stoll(count); i > 0; --i) values->push_back(number());
        return true;
    }
    std::istringstream words_;
    std::vector<aclTensor *> tensors_;
    std::vector<aclIntArray *> arrays_;
    aclBoolArray *mask_ = nullptr;
};

int convolution(Line &line, uint64_t *size, aclOpExecutor **executor) {
    aclTensor *grad_output = line.tensor(), *input = line.tensor(), *weight = line.tensor();
    aclIntArray *bias_sizes = line.array(), *stride = line.array(), *padding = line.array(), *dilation = line.array();
    const bool transposed = line.number() != 0;
    aclIntArray *output_padding = line.array();
    const int groups = int(line.number());
    aclBoolArray *mask = line.mask();
    const int8_t math = int8_t(line.number());
    aclTensor *grad_input = line.tensor(), *grad_weight = line.tensor(), *grad_bias = line.tensor();
    return aclnnConvolutionBackwardGetWorkspaceSize(grad_output, input, weight, bias_sizes, stride, padding, dilation,
                                                    transposed, output_padding, groups, mask, math, grad_input,
                                                    grad_weight, grad_bias, size, executor);
}

int time_batch_channel(Line &line, uint64_t *size, aclOpExecutor **executor) {
    aclTensor *self = line.tensor(), *input = line.tensor(), *weight = line.tensor(), *bias = line.tensor();
    const int64_t pad = line.number();
    const int8_t math = int8_t(line.number());
    aclTensor *grad_input = line.tensor(), *grad_weight = line.tensor(), *grad_bias = line.tensor();
    return aclnnConvTbcBackwardGetWorkspaceSize(self, input, weight, bias, pad, math, grad_input, grad_weight, grad_bias,
                                                size, executor);
}

}  // namespace

int main() {
    std::string text;
    while (std::getline(std::cin, text)) {
        Line line(text);
        uint64_t size = 12345;
        aclOpExecutor *executor = nullptr;
        const bool tbc = line.word() == "tbc";
        const int status = tbc ? time_batch_channel(line, &size, &executor) : convolution(line, &size, &executor);
        const char *message = aclGetRecentErrMsg();
        std::string answer = message ? message : "";
        while (!answer.empty() && answer.back() == '\n') answer.pop_back();
        // On a refusal neither the size nor the executor may have been written.
        const bool untouched = size == 12345 && executor == nullptr;
        if ((status == 0) == untouched) answer += " OUTPUTS WRONG";
        if (executor) aclDestroyAclOpExecutor(executor);
        std::printf("%d\t%s\n", status, answer.c_str());
    }
}
