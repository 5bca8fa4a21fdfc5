// The checker: one loop over the generated rows. How a row is evaluated and printed stands in generated/rules.inc.
#include <algorithm>

#include "operators/facts.h"
#include "operators/request.h"

namespace convgrad {
namespace {

#include "../../generated/precision.inc"

bool is_among(int64_t value, int first, int count) {
    return std::find(CG_RULE_VALUES + first, CG_RULE_VALUES + first + count, value) != CG_RULE_VALUES + first + count;
}

bool applies(const cg_rule& rule, const Request& request, Facts& facts) {
    if (!(rule.products >> request.product & 1) || !(rule.conformances & (request.runtime_conformance ? 2 : 1)))
        return false;
    for (int i = rule.conditions; i < rule.conditions + rule.conditions_count; ++i) {
        const cg_condition& condition = CG_RULE_CONDITIONS[i];
        const Fact& fact = facts[condition.fact];
        if (!fact || fact->size() != 1 || !is_among(fact->front(), condition.first, condition.count)) return false;
    }
    return true;
}

template <class Compare> bool every_pair(const Numbers& left, const Numbers& right, Compare compare) {
    for (size_t i = 0; i < std::min(left.size(), right.size()); ++i)
        if (!compare(left[i], right[i])) return false;
    return true;
}

bool holds(const cg_rule& rule, const Fact& fact, const Fact& other) {
    if (rule.demand == CG_DEMAND_PRESENT) return fact.has_value();
    if (!fact || (rule.other >= 0 && !other)) return true;
    switch (rule.demand) {
    case CG_DEMAND_PRESENT: break;
    case CG_DEMAND_ONE_OF: return fact->size() == 1 && is_among(fact->front(), rule.first, rule.count);
    case CG_DEMAND_BETWEEN:
        return std::all_of(fact->begin(), fact->end(), [&](int64_t v) { return rule.low <= v && v <= rule.high; });
    case CG_DEMAND_SAME_AS: return *fact == *other;
    case CG_DEMAND_BELOW: return every_pair(*fact, *other, [](int64_t v, int64_t w) { return v < w; });
    case CG_DEMAND_UP_TO: return every_pair(*fact, *other, [](int64_t v, int64_t w) { return v <= w; });
    case CG_DEMAND_MULTIPLE_OF: return other->front() < 1 || fact->front() % other->front() == 0;
    }
    return true;
}

template <size_t Count> std::string name_of(const cg_code_name (&names)[Count], int64_t code) {
    for (const cg_code_name& row : names)
        if (row.code == code) return row.name;
    return "code" + std::to_string(code);
}

std::string print(cg_fact name, const Fact& fact) {
    if (!fact) return "null";
    switch (CG_FACTS[name].kind) {
    case CG_KIND_POINTER:
    case CG_KIND_FLAG: return fact->front() ? "true" : "false";
    case CG_KIND_NUMBER: return std::to_string(fact->front());
    case CG_KIND_DTYPE: return name_of(CG_DTYPE_NAMES, fact->front());
    case CG_KIND_FORMAT: return name_of(CG_FORMAT_NAMES, fact->front());
    case CG_KIND_PRODUCT: return CG_PRODUCT_KEYS[fact->front()];
    case CG_KIND_LIST: break;
    }
    std::string text = "[";
    for (size_t i = 0; i < fact->size(); ++i) text += (i ? ", " : "") + std::to_string((*fact)[i]);
    return text + "]";
}

template <size_t Count> Verdict first_broken(const cg_rule (&rules)[Count], const Request& request) {
    Facts facts(request);
    for (const cg_rule& rule : rules) {
        if (!applies(rule, request, facts)) continue;
        const Fact fact = facts[rule.fact];
        const Fact other = rule.other >= 0 ? facts[cg_fact(rule.other)] : std::nullopt;
        if (holds(rule, fact, other)) continue;
        const std::string other_text = rule.other >= 0 ? print(cg_fact(rule.other), other) : "";
        return {rule.status, rule.text_first + other_text + rule.text_second + print(rule.fact, fact), rule.id};
    }
    return {};
}

std::string join(const std::optional<Numbers>& values, const char* separator) {
    if (!values) return "null";
    if (values->empty()) return "none";
    std::string text;
    for (const int64_t value : *values) text += (text.empty() ? "" : separator) + std::to_string(value);
    return text;
}

std::string tensor_word(const char* name, const std::optional<TensorSpec>& tensor) {
    if (!tensor) return std::string(" ") + name + "=null";
    const std::string shape = tensor->shape.empty() ? "scalar" : join(tensor->shape, "x");
    return std::string(" ") + name + "=" + shape + "/" + name_of(CG_DTYPE_NAMES, tensor->dtype) + "/" +
           name_of(CG_FORMAT_NAMES, tensor->format);
}

}  // namespace

Verdict check(const Request& request) {
    return request.op == Operator::ConvTbcBackward ? first_broken(CG_CONV_TBC_BACKWARD_RULES, request)
                                                   : first_broken(CG_CONVOLUTION_BACKWARD_RULES, request);
}

Precision precision_of(const Request& request) {
    Facts facts(request);
    const int64_t promoted = facts[CG_FACT_PROMOTED]->front();
    // A pair the product does not know is computed as on the first product, the plain CPU.
    for (const unsigned products : {1u << request.product, 1u})
        for (const cg_precision_row& row : CG_PRECISION)
            if (row.promoted == promoted && (row.products & products) && (row.math >> request.math & 1))
                return {row.compute, row.accumulate, row.result};
    return {};
}

std::string problem_line(const Request& request) {
    const bool tbc = request.op == Operator::ConvTbcBackward;
    std::string line = tbc ? "tbc" : request.transposed ? "tconv" : "conv";
    line += tensor_word("go", request.grad_output) + tensor_word("x", request.input) + tensor_word("w", request.weight);
    if (tbc) {
        line += tensor_word("b", request.bias) + " pad=" + std::to_string(request.pad);
    } else {
        line += " bias_sizes=" + join(request.bias_sizes, "x") + " stride=" + join(request.stride, "x") +
                " padding=" + join(request.padding, "x") + " dilation=" + join(request.dilation, "x") +
                " output_padding=" + join(request.output_padding, "x") + " groups=" + std::to_string(request.groups) +
                " mask=" + join(request.output_mask, "");
    }
    line += tensor_word("gx", request.grad_input) + tensor_word("gw", request.grad_weight) +
            tensor_word("gb", request.grad_bias);
    line += " math=" + std::to_string(request.math) + " on=" + CG_PRODUCT_KEYS[request.product];
    if (request.runtime_conformance) line += " as=runtime";
    return request.deterministic == 0 ? line : line + " det=" + std::to_string(request.deterministic);
}

}  // namespace convgrad
