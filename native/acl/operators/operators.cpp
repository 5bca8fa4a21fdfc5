// The two operators: phase 1 turns its arguments into a Request, lets the rows judge it and prepares the run.
#include "aclnnop/aclnn_convolution_backward.h"

#include "acl/acl_rt.h"
#include "aclnn/opdev/op_errno.h"
#include "runtime/errors.h"
#include "operators/prepared_call.h"
#include "operators/executor.h"
#include "runtime/objects.h"
#include "runtime/runtime.h"
#include "operators/request.h"
#include "runtime/settings.h"

using namespace convgrad;

namespace {

// Arguments of one call, looked up; remembers the first handle that is neither null nor live.
class Arguments {
public:
    CallTensor tensor(const char* name, const aclTensor* handle, std::optional<TensorSpec>* spec) {
        const auto found = look_up(name, "aclTensor", objects().tensors, handle);
        if (!found) return {};
        const auto shape = found->shape();
        *spec = TensorSpec{shape->dims, shape->dtype, shape->format};
        return {found, shape};
    }
    std::optional<Numbers> numbers(const char* name, const aclIntArray* handle) {
        const auto found = look_up(name, "aclIntArray", objects().int_arrays, handle);
        return found ? std::optional<Numbers>(found->items) : std::nullopt;
    }
    std::optional<Numbers> flags(const char* name, const aclBoolArray* handle) {
        const auto found = look_up(name, "aclBoolArray", objects().bool_arrays, handle);
        return found ? std::optional<Numbers>(Numbers(found->items.begin(), found->items.end())) : std::nullopt;
    }
    int status = 0;

private:
    template <class Object>
    std::shared_ptr<Object> look_up(const char* name, const char* type, Registry<Object>& registry,
                                    const void* handle) {
        if (!handle) return nullptr;
        auto found = registry.find(handle);
        if (!found && !status) status = fail(ACLNN_ERR_PARAM_INVALID, "%s: %p is not a live %s", name, handle, type);
        return found;
    }
};

int choose_product(Request* request) {
    const Settings chosen = settings();
    if (chosen.product < 0) return fail(ACLNN_ERR_PARAM_INVALID, "CONVGRAD_PRODUCT names %s", chosen.refusal);
    request->product = chosen.product;
    request->runtime_conformance = chosen.runtime_conformance;
    request->deterministic = int(runtime().parameter[ACL_OPT_DETERMINISTIC]);
    return 0;
}

int finish(const Request& request, CallTensors tensors, uint64_t* workspaceSize, aclOpExecutor** executor) {
    const Verdict verdict = check(request);
    if (verdict.status != 0)
        return fail_with_text(verdict.status, operator_name(request.op) + std::string(": ") + verdict.message +
                                                  " [rule " + verdict.rule + "; reproduce: " + problem_line(request) +
                                                  "]");
    const Numbers& mask = *request.output_mask;
    if (!mask[0]) tensors.grad_input = {};
    if (!mask[1]) tensors.grad_weight = {};
    if (!mask[2]) tensors.grad_bias = {};
    int status = 0;
    auto prepared = prepare(request, tensors, &status);
    if (!prepared) return status;
    const uint64_t bytes = prepared->workspace_bytes;
    *executor = static_cast<aclOpExecutor*>(executors().add(std::move(prepared)));
    *workspaceSize = bytes;
    return 0;
}

}  // namespace

extern "C" {

aclnnStatus aclnnConvolutionBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* input,
                                                     const aclTensor* weight, const aclIntArray* biasSizes,
                                                     const aclIntArray* stride, const aclIntArray* padding,
                                                     const aclIntArray* dilation, bool transposed,
                                                     const aclIntArray* outputPadding, int groups,
                                                     const aclBoolArray* outputMask, int8_t cubeMathType,
                                                     aclTensor* gradInput, aclTensor* gradWeight, aclTensor* gradBias,
                                                     uint64_t* workspaceSize, aclOpExecutor** executor) {
    if (!workspaceSize || !executor)
        return fail(ACLNN_ERR_PARAM_NULLPTR, "%s must be given; got null",
                    workspaceSize ? "executor" : "workspaceSize");
    return guarded(ACLNN_ERR_INNER_CREATE_EXECUTOR, [&]() -> int {
        Arguments arguments;
        CallTensors tensors;
        Request request;
        tensors.grad_output = arguments.tensor("gradOutput", gradOutput, &request.grad_output);
        tensors.input = arguments.tensor("input", input, &request.input);
        tensors.weight = arguments.tensor("weight", weight, &request.weight);
        request.bias_sizes = arguments.numbers("biasSizes", biasSizes);
        request.stride = arguments.numbers("stride", stride);
        request.padding = arguments.numbers("padding", padding);
        request.dilation = arguments.numbers("dilation", dilation);
        request.transposed = transposed;
        request.output_padding = arguments.numbers("outputPadding", outputPadding);
        request.groups = groups;
        request.output_mask = arguments.flags("outputMask", outputMask);
        request.math = cubeMathType;
        tensors.grad_input = arguments.tensor("gradInput", gradInput, &request.grad_input);
        tensors.grad_weight = arguments.tensor("gradWeight", gradWeight, &request.grad_weight);
        tensors.grad_bias = arguments.tensor("gradBias", gradBias, &request.grad_bias);
        if (arguments.status) return arguments.status;
        if (const int status = choose_product(&request)) return status;
        return finish(request, tensors, workspaceSize, executor);
    });
}

aclnnStatus aclnnConvolutionBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                     const aclrtStream stream) {
    return run_executor(operator_name(Operator::ConvolutionBackward), workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnConvTbcBackwardGetWorkspaceSize(const aclTensor* self, const aclTensor* input, const aclTensor* weight,
                                                 const aclTensor* bias, int64_t pad, int8_t cubeMathType,
                                                 aclTensor* gradInput, aclTensor* gradWeight, aclTensor* gradBias,
                                                 uint64_t* workspaceSize, aclOpExecutor** executor) {
    if (!workspaceSize || !executor)
        return fail(ACLNN_ERR_PARAM_NULLPTR, "%s must be given; got null",
                    workspaceSize ? "executor" : "workspaceSize");
    return guarded(ACLNN_ERR_INNER_CREATE_EXECUTOR, [&]() -> int {
        Arguments arguments;
        CallTensors tensors;
        Request request;
        request.op = Operator::ConvTbcBackward;
        tensors.grad_output = arguments.tensor("self", self, &request.grad_output);
        tensors.input = arguments.tensor("input", input, &request.input);
        tensors.weight = arguments.tensor("weight", weight, &request.weight);
        arguments.tensor("bias", bias, &request.bias);
        request.pad = pad;
        request.math = cubeMathType;
        tensors.grad_input = arguments.tensor("gradInput", gradInput, &request.grad_input);
        tensors.grad_weight = arguments.tensor("gradWeight", gradWeight, &request.grad_weight);
        tensors.grad_bias = arguments.tensor("gradBias", gradBias, &request.grad_bias);
        if (arguments.status) return arguments.status;
        if (const int status = choose_product(&request)) return status;
        return finish(request, tensors, workspaceSize, executor);
    });
}

aclnnStatus aclnnConvTbcBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                 const aclrtStream stream) {
    return run_executor(operator_name(Operator::ConvTbcBackward), workspace, workspaceSize, executor, stream);
}

}  // extern "C"
