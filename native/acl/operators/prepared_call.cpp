#include "operators/prepared_call.h"

#include <cstdlib>
#include <cstring>
#include <vector>

#include "aclnn/opdev/op_errno.h"
#include "convgrad.h"
#include "runtime/errors.h"
#include "runtime/strict.h"
#include "operators/view.h"
#include "operators/winograd_950.h"

namespace convgrad {
namespace {

constexpr AxisOrder kDataOrder[] = {{0, 1, -1, -1, 2}, {0, 1, -1, 2, 3}, {0, 1, 2, 3, 4}};  // by spatial axes - 1
constexpr AxisOrder kTbcDataOrder = {1, 2, -1, -1, 0};
constexpr AxisOrder kTbcWeightOrder = {2, 1, -1, -1, 0};
constexpr AxisOrder kBiasOrder = {-1, 0, -1, -1, -1};
// The engine owns its memory, so the workspace only has to exist: programs that allocate one without asking whether
// its size is 0 must not get 0.
constexpr uint64_t kWorkspaceBytes = 64;

// The law's numbers; the same derivation as convgrad.problem.prove.
void fill_geometry(const Request& r, cg_problem* problem) {
    const bool tbc = r.op == Operator::ConvTbcBackward;
    for (int axis = 0; axis < 3; ++axis)
        problem->fine[axis] = problem->coarse[axis] = problem->window[axis] = problem->stride[axis] =
            problem->dilation[axis] = 1;
    if (tbc) {
        problem->batch = r.input->shape[1];
        problem->groups = 1;
        problem->fine_channels = r.input->shape[2];
        problem->coarse_channels = r.grad_output->shape[2];
        problem->fine[2] = r.input->shape[0];
        problem->coarse[2] = r.grad_output->shape[0];
        problem->window[2] = r.weight->shape[0];
        problem->pad[2] = r.pad;
        return;
    }
    const Numbers& fine = (r.transposed ? r.grad_output : r.input)->shape;
    const Numbers& coarse = (r.transposed ? r.input : r.grad_output)->shape;
    const int axes = int(fine.size()) - 2;
    const auto pads = pad_pairs(*r.padding, axes);
    problem->batch = r.input->shape[0];
    problem->groups = r.groups;
    problem->fine_channels = fine[1] / r.groups;
    problem->coarse_channels = coarse[1] / r.groups;
    for (int i = 0; i < axes; ++i) {
        const int axis = 3 - axes + i;
        problem->fine[axis] = fine[2 + i];
        problem->coarse[axis] = coarse[2 + i];
        problem->window[axis] = r.weight->shape[2 + i];
        problem->stride[axis] = (*r.stride)[i];
        problem->dilation[axis] = (*r.dilation)[i];
        problem->pad[axis] = (*pads)[i].first;
    }
}

bool intersect(const char* a, int64_t a_bytes, const char* b, int64_t b_bytes) {
    return a < b + b_bytes && b < a + a_bytes;
}

// Visits every element of a view in row-major order, as bytes from `origin`.
template <class Visit> void for_each_element(const View& view, char* origin, Visit visit) {
    if (view.elements == 0) return;
    std::array<int64_t, 5> at{};
    for (int64_t i = 0; i < view.elements; ++i) {
        int64_t offset = 0;
        for (int axis = 0; axis < 5; ++axis) offset += at[axis] * view.stride[axis];
        visit(origin + offset * view.item_bytes);
        for (int axis = 4; axis >= 0 && ++at[axis] == view.size[axis]; --axis) at[axis] = 0;
    }
}

// An operand or a result bound to the memory of this run.
struct Bound {
    const View* view = nullptr;
    Span span;
    char* origin = nullptr;    // element (0, 0, 0, 0, 0)
    std::vector<char> staged;  // a dense copy to write to, when writing in place could disturb the run

    int bind(const char* operator_name, const View& which) {
        view = &which;
        const int status = locate_view(operator_name, which, &span);
        if (status == 0 && which.elements > 0) origin = span.bytes + (which.origin - which.low);
        return status;
    }
    bool touches(const Bound& other) const {
        return view && other.view && view->elements && other.view->elements &&
               intersect(span.bytes, view->bytes, other.span.bytes, other.view->bytes);
    }
    cg_tensor engine_tensor(int cast) {
        cg_tensor tensor{};
        tensor.dtype = view->dtype;
        tensor.cast = cast;
        tensor.data = staged.empty() ? origin : staged.data();
        int64_t step = 1;
        for (int axis = 4; axis >= 0; --axis) {
            tensor.stride[axis] = staged.empty() ? view->stride[axis] : step;
            step *= view->size[axis];
        }
        return tensor;
    }
    void stage() { staged.resize(size_t(view->elements * view->item_bytes)); }
    void unstage() {
        const char* next = staged.data();
        const size_t bytes = size_t(view->item_bytes);
        if (!staged.empty())
            for_each_element(*view, origin, [&](char* element) { std::memcpy(element, next, bytes), next += bytes; });
        if (span.block) span.block->written = true;
    }
    void fill(int byte) {
        const size_t bytes = size_t(view->item_bytes);
        for_each_element(*view, origin, [&](char* element) { std::memset(element, byte, bytes); });
        if (span.block) span.block->written = true;
    }
};

bool is_empty(const View& view) { return view.elements == 0; }

class ConvolutionExecutor final : public Executor {
public:
    cg_problem problem{};  // finished but for the addresses
    View grad_output, input, weight, grad_input, grad_weight, grad_bias;
    Precision precision;
    bool transposed = false;
    bool empty = false;         // an operand has no elements: gradients that exist are zeros, but for the bias
    bool bias_is_zero = false;  // grad_output is of another batch or other channels: only the runtime lets it pass
    bool winograd = false;      // the 950's runtime sums the weight gradient in its own way

    int run() const override {
        Bound output, in, kernel, results[3];
        const View* wanted[3] = {&grad_input, &grad_weight, &grad_bias};
        const bool contracts = !empty && (grad_input.given() || grad_weight.given());
        const bool needs_output = contracts || (grad_bias.given() && !bias_is_zero);
        const bool needs_input = grad_weight.given() && !empty, needs_kernel = grad_input.given() && !empty;
        if (needs_output)
            if (const int status = bind_operand(grad_output, &output)) return status;
        if (needs_input)
            if (const int status = bind_operand(input, &in)) return status;
        if (needs_kernel)
            if (const int status = bind_operand(weight, &kernel)) return status;
        for (int i = 0; i < 3; ++i)
            if (wanted[i]->given())
                if (const int status = results[i].bind(operator_name, *wanted[i])) return status;
        bool in_place[3] = {};
        for (int i = 0; i < 3; ++i) {
            if (!results[i].view || results[i].view->elements == 0) continue;
            bool disturbs = results[i].view->may_overlap_itself();
            for (const Bound* operand : {&output, &in, &kernel}) disturbs |= results[i].touches(*operand);
            for (int j = 0; j < 3; ++j) disturbs |= j != i && results[i].touches(results[j]);
            if (disturbs) results[i].stage();
            in_place[i] = !disturbs;
        }
        for (int i = 0; i < 3; ++i)  // NaN, once there was memory for every copy
            if (strict::enabled() && in_place[i]) results[i].fill(results[i].view->dtype == CG_HIFLOAT8 ? 0x80 : 0xFF);
        if (const int status = compute_results(output, in, kernel, results)) return status;
        for (Bound& result : results)
            if (result.view && result.view->elements > 0) result.unstage();
        return 0;
    }

private:
    int bind_operand(const View& view, Bound* bound) const {
        if (const int status = bound->bind(operator_name, view)) return status;
        if (!strict::enabled() || !bound->span.block || bound->span.block->written) return 0;
        strict::report("%s: %s reads device block #%llu (%zu bytes), which nothing was ever copied to", operator_name,
                       view.name, static_cast<unsigned long long>(bound->span.block->number), bound->span.block->asked);
        return fail(ACLNN_ERR_RUNTIME_ERROR, "%s was never written", view.name);
    }

    int compute_results(Bound& output, Bound& in, Bound& kernel, Bound (&results)[3]) const {
        cg_problem call = problem;
        if (empty) {
            for (Bound& result : results)
                if (result.view && result.view->elements > 0 && result.staged.empty())
                    result.fill(0);  // staged are zeros
            if (!grad_bias.given() || bias_is_zero || is_empty(grad_bias) || is_empty(grad_output)) return 0;
            for (int axis = 0; axis < 3; ++axis) {  // a geometry of grad_output alone
                call.fine[axis] = call.coarse[axis] = grad_output.size[size_t(axis) + 2];
                call.window[axis] = call.stride[axis] = call.dilation[axis] = 1;
                call.pad[axis] = 0;
            }
            call.groups = 1;
            call.fine_channels = call.coarse_channels = grad_output.size[1];
        }
        assign(&call, output, in, kernel, results);
        const int status = winograd ? run_winograd(call) : cg_run(&call);
        if (status == CG_OK) return 0;
        return fail(status == CG_OUT_OF_MEMORY ? ACLNN_ERR_RUNTIME_ERROR : ACLNN_ERR_INNER_NULLPTR, "%s: %s",
                    operator_name, cg_last_error());
    }

    // The weight gradient by the 950's own sums, the others as ever.
    static int run_winograd(const cg_problem& call) {
        cg_problem others = call;
        others.to_weight = {};
        if (others.to_fine.data || others.to_coarse.data || others.bias.data)
            if (const int status = cg_run(&others)) return status;
        return winograd_950::run(call);
    }

    // Puts the tensors where the law has them: the fine grid is the input, in a transposed convolution the output.
    void assign(cg_problem* call, Bound& output, Bound& in, Bound& kernel, Bound (&results)[3]) const {
        Bound &fine = transposed ? output : in, &coarse = transposed ? in : output;
        if (fine.view) call->fine_operand = fine.engine_tensor(precision.compute);
        if (coarse.view) call->coarse_operand = coarse.engine_tensor(precision.compute);
        if (kernel.view) call->weight_operand = kernel.engine_tensor(precision.compute);
        if (!empty) {
            cg_tensor& to_input = transposed ? call->to_coarse : call->to_fine;
            if (results[0].view) to_input = results[0].engine_tensor(precision.result);
            if (results[1].view) call->to_weight = results[1].engine_tensor(precision.accumulate);
        }
        if (results[2].view) call->bias = results[2].engine_tensor(grad_output.dtype);
        call->bias_source = transposed ? 1 : 0;
    }
};

}  // namespace

std::shared_ptr<Executor> prepare(const Request& request, const CallTensors& tensors, int* status) {
    const bool tbc = request.op == Operator::ConvTbcBackward;
    auto made = std::make_shared<ConvolutionExecutor>();
    const AxisOrder& data = tbc ? kTbcDataOrder : kDataOrder[request.input->shape.size() - 3];
    const AxisOrder& kernel = tbc ? kTbcWeightOrder : data;
    struct {
        const char* name;
        const CallTensor& call;
        const AxisOrder& order;
        View* view;
    } views[] = {{tbc ? "self" : "grad_output", tensors.grad_output, data, &made->grad_output},
                 {"input", tensors.input, data, &made->input},
                 {"weight", tensors.weight, kernel, &made->weight},
                 {"grad_input", tensors.grad_input, data, &made->grad_input},
                 {"grad_weight", tensors.grad_weight, kernel, &made->grad_weight},
                 {"grad_bias", tensors.grad_bias, kBiasOrder, &made->grad_bias}};
    for (auto& row : views)
        if (!make_view(row.name, row.call.tensor, row.call.shape.get(), row.order, row.view)) {
            *status = fail(ACLNN_ERR_PARAM_INVALID, "strides and offset of %s reach further than 2^63 bytes", row.name);
            return nullptr;
        }
    fill_geometry(request, &made->problem);
    made->problem.deterministic = request.deterministic;
    made->operator_name = convgrad::operator_name(request.op);
    made->transposed = request.transposed;
    made->precision = precision_of(request);
    made->empty = is_empty(made->grad_output) || is_empty(made->input) || is_empty(made->weight);
    made->winograd = !made->empty && made->grad_weight.given() && winograd_950::is_taken(request, made->problem);
    // The same as bias_is_zero of convgrad.core.plan.
    made->bias_is_zero = !tbc && request.grad_bias &&
                         (request.grad_output->shape[0] != request.input->shape[0] ||
                          request.grad_bias->shape != Numbers{request.grad_output->shape[1]});
    made->workspace_bytes = kWorkspaceBytes;
    return made;
}

}  // namespace convgrad
