#include "operators/facts.h"

#include <algorithm>

#include "acl/acl_base.h"

namespace convgrad {
namespace {

using Wide = __int128;

int64_t saturated(Wide value) { return value > INT64_MAX ? INT64_MAX : value < INT64_MIN ? INT64_MIN : int64_t(value); }

Fact one(int64_t value) { return Numbers{value}; }
Fact flag(bool value) { return Numbers{value ? 1 : 0}; }
Fact pointer(bool given) { return given ? Fact(Numbers{1}) : std::nullopt; }

int64_t span(Numbers::const_iterator first, Numbers::const_iterator last) {
    int64_t product = 1;
    for (; first != last; ++first) product = saturated(Wide(product) * std::max<int64_t>(*first, 1));
    return product;
}

bool is_eight_bit(const std::optional<TensorSpec>& tensor) {
    return tensor &&
           (tensor->dtype == ACL_HIFLOAT8 || tensor->dtype == ACL_FLOAT8_E4M3FN || tensor->dtype == ACL_FLOAT8_E5M2);
}

bool is_empty(const std::optional<TensorSpec>& tensor) {
    return tensor && std::count(tensor->shape.begin(), tensor->shape.end(), 0) > 0;
}

Fact size_at(const std::optional<TensorSpec>& tensor, size_t axis) {
    return tensor && tensor->shape.size() > axis ? one(tensor->shape[axis]) : std::nullopt;
}

Numbers tail(const Numbers& values, size_t from) {
    return Numbers(values.begin() + std::ptrdiff_t(std::min(from, values.size())), values.end());
}

Fact spatial(const std::optional<TensorSpec>& tensor) { return tensor ? Fact(tail(tensor->shape, 2)) : std::nullopt; }

Fact length(const std::optional<Numbers>& values) { return values ? one(int64_t(values->size())) : std::nullopt; }

Fact first_element(const std::optional<Numbers>& values) {
    return values ? Fact(Numbers(values->begin(),
                                 values->begin() + std::min<std::ptrdiff_t>(1, std::ptrdiff_t(values->size()))))
                  : std::nullopt;
}

bool wants(const std::optional<Numbers>& mask, size_t which) { return mask && mask->size() > which && (*mask)[which]; }

Wide floor_divide(Wide numerator, Wide positive) { return numerator / positive - (numerator % positive < 0 ? 1 : 0); }

}  // namespace

std::optional<std::vector<std::pair<int64_t, int64_t>>> pad_pairs(const Numbers& padding, int64_t axes) {
    std::vector<std::pair<int64_t, int64_t>> pairs;
    if (axes == 2 && padding.size() == 4) {  // top, bottom, left, right
        pairs = {{padding[0], padding[1]}, {padding[2], padding[3]}};
        return pairs;
    }
    if (axes < 0 || padding.size() != size_t(axes)) return std::nullopt;
    for (const int64_t pad : padding) pairs.emplace_back(pad, pad);
    return pairs;
}

std::optional<int64_t> Facts::number(cg_fact name) {
    const Fact& fact = (*this)[name];
    return fact ? std::optional<int64_t>(fact->front()) : std::nullopt;
}

Fact Facts::last_two(const std::optional<Numbers>& values) const {
    return values ? Fact(tail(*values, values->size() > 2 ? values->size() - 2 : 0)) : std::nullopt;
}

Fact Facts::padding_of(bool depth) {
    const auto dims = number(CG_FACT_DIMS);
    if (!request_.padding || !dims) return std::nullopt;
    const auto pairs = pad_pairs(*request_.padding, *dims);
    if (!pairs) return std::nullopt;
    const size_t first = depth || pairs->size() < 2 ? 0 : pairs->size() - 2;
    const size_t last = depth ? std::min<size_t>(1, pairs->size()) : pairs->size();
    Numbers flat;
    for (size_t axis = first; axis < last; ++axis)
        flat.insert(flat.end(), {(*pairs)[axis].first, (*pairs)[axis].second});
    return flat;
}

Fact Facts::promoted() {
    if (!request_.grad_output || !request_.input || !request_.weight) return std::nullopt;
    const int dtypes[] = {request_.grad_output->dtype, request_.input->dtype, request_.weight->dtype};
    if (dtypes[0] == dtypes[1] && dtypes[1] == dtypes[2]) return one(dtypes[0]);
    return one(std::count(dtypes, dtypes + 3, int(ACL_DOUBLE)) ? ACL_DOUBLE : ACL_FLOAT);
}

Fact Facts::empty_path() {
    const bool has_path = request_.product >= 0 && CG_PRODUCT_EMPTY_PATH[request_.product];
    return flag(request_.runtime_conformance && request_.op == Operator::ConvolutionBackward && has_path &&
                (is_empty(request_.input) || is_empty(request_.weight)));
}

// Nothing when a part is missing or the lengths do not match.
std::optional<std::vector<Facts::LawAxis>> Facts::law() const {
    const Request& r = request_;
    const auto& fine = r.transposed ? r.grad_output : r.input;
    if (!fine || !r.weight || !r.stride || !r.dilation || !r.padding) return std::nullopt;
    const int64_t axes = int64_t(r.weight->shape.size()) - 2;
    const auto pairs = pad_pairs(*r.padding, axes);
    const Numbers sizes = tail(fine->shape, 2), window = tail(r.weight->shape, 2);
    if (!pairs || axes < 0) return std::nullopt;
    for (const size_t count : {sizes.size(), window.size(), r.stride->size(), r.dilation->size()})
        if (count != size_t(axes)) return std::nullopt;
    std::vector<LawAxis> rows;
    for (size_t i = 0; i < size_t(axes); ++i) {
        if ((*r.stride)[i] < 1) return std::nullopt;
        rows.push_back({sizes[i], (*pairs)[i].first, (*pairs)[i].second, window[i], (*r.stride)[i], (*r.dilation)[i]});
    }
    return rows;
}

template <class Read> Fact Facts::per_axis(Read read) const {
    const auto axes = law();
    if (!axes) return std::nullopt;
    Numbers values;
    for (const LawAxis& axis : *axes) values.push_back(saturated(read(axis)));
    return values;
}

static bool one_slack_per_axis(const Request& r) {
    return r.output_padding && r.stride && r.dilation && r.output_padding->size() == r.stride->size() &&
           r.output_padding->size() == r.dilation->size();
}

#define TENSOR_FACTS(NAME, tensor)                                                                 \
    case CG_FACT_##NAME: return pointer(tensor.has_value());                                       \
    case CG_FACT_##NAME##_DTYPE: return tensor ? one(tensor->dtype) : std::nullopt;                \
    case CG_FACT_##NAME##_FORMAT: return tensor ? one(tensor->format) : std::nullopt;              \
    case CG_FACT_##NAME##_RANK: return tensor ? one(int64_t(tensor->shape.size())) : std::nullopt; \
    case CG_FACT_##NAME##_SHAPE: return tensor ? Fact(tensor->shape) : std::nullopt;               \
    case CG_FACT_##NAME##_SPAN:                                                                    \
        return tensor ? one(span(tensor->shape.begin(), tensor->shape.end())) : std::nullopt;

#define EMPTY_FACT(NAME, tensor) \
    case CG_FACT_##NAME##_EMPTY: return tensor ? flag(is_empty(tensor)) : std::nullopt;

Fact Facts::read(cg_fact name) {
    const Request& r = request_;
    switch (name) {
        TENSOR_FACTS(GRAD_OUTPUT, r.grad_output)
        TENSOR_FACTS(INPUT, r.input)
        TENSOR_FACTS(WEIGHT, r.weight)
        TENSOR_FACTS(BIAS, r.bias)
        TENSOR_FACTS(GRAD_INPUT, r.grad_input)
        TENSOR_FACTS(GRAD_WEIGHT, r.grad_weight)
        TENSOR_FACTS(GRAD_BIAS, r.grad_bias)
        EMPTY_FACT(GRAD_OUTPUT, r.grad_output)
        EMPTY_FACT(INPUT, r.input)
        EMPTY_FACT(WEIGHT, r.weight)
    case CG_FACT_GRAD_OUTPUT_BATCH: return size_at(r.grad_output, 0);
    case CG_FACT_GRAD_OUTPUT_CHANNELS: return size_at(r.grad_output, 1);
    case CG_FACT_GRAD_OUTPUT_SIZE: return spatial(r.grad_output);
    case CG_FACT_INPUT_BATCH: return size_at(r.input, 0);
    case CG_FACT_INPUT_CHANNELS: return size_at(r.input, 1);
    case CG_FACT_INPUT_SIZE: return spatial(r.input);
    case CG_FACT_WEIGHT_FIRST: return size_at(r.weight, 0);
    case CG_FACT_WINDOW: return spatial(r.weight);
    case CG_FACT_WINDOW_HW: return last_two(spatial(r.weight));
    case CG_FACT_WEIGHT_FINE_CHANNELS: {
        const Fact second = size_at(r.weight, 1);
        return second ? one(saturated(Wide(second->front()) * r.groups)) : std::nullopt;
    }
    case CG_FACT_INPUT_BATCH_ZERO: {
        const auto batch = number(CG_FACT_INPUT_BATCH);
        return batch ? flag(*batch == 0) : std::nullopt;
    }
    case CG_FACT_INPUT_BATCH_OR_CHANNELS: {
        const auto batch = number(CG_FACT_INPUT_BATCH), channels = number(CG_FACT_INPUT_CHANNELS);
        return batch && channels ? one(std::min(*batch, *channels)) : std::nullopt;
    }
    case CG_FACT_BIAS_SIZES: return r.bias_sizes;
    case CG_FACT_BIAS_SIZES_LENGTH: return length(r.bias_sizes);
    case CG_FACT_STRIDE: return r.stride;
    case CG_FACT_STRIDE_LENGTH: return length(r.stride);
    case CG_FACT_PADDING: return r.padding;
    case CG_FACT_PADDING_LENGTH: return length(r.padding);
    case CG_FACT_PADDING_PAIRS: return flag(false);
    case CG_FACT_DILATION: return r.dilation;
    case CG_FACT_DILATION_LENGTH: return length(r.dilation);
    case CG_FACT_OUTPUT_PADDING: return r.output_padding;
    case CG_FACT_OUTPUT_PADDING_LENGTH: return length(r.output_padding);
    case CG_FACT_GROUPS: return one(r.groups);
    case CG_FACT_GROUPED: return flag(r.groups > 1);
    case CG_FACT_MATH: return one(r.math);
    case CG_FACT_TRANSPOSED: return flag(r.transposed);
    case CG_FACT_FORWARD: return flag(false);
    case CG_FACT_PRODUCT: return one(r.product);
    case CG_FACT_PAD: return one(r.pad);
    case CG_FACT_OUTPUT_MASK: return pointer(r.output_mask.has_value());
    case CG_FACT_OUTPUT_MASK_LENGTH: return length(r.output_mask);
    case CG_FACT_WANT_INPUT: return flag(wants(r.output_mask, 0));
    case CG_FACT_WANT_WEIGHT: return flag(wants(r.output_mask, 1));
    case CG_FACT_WANT_BIAS: return flag(wants(r.output_mask, 2));
    case CG_FACT_WANT_CONTRACTION: return flag(wants(r.output_mask, 0) || wants(r.output_mask, 1));
    case CG_FACT_STRIDE_HW: return last_two(r.stride);
    case CG_FACT_STRIDE_D: return first_element(r.stride);
    case CG_FACT_DILATION_HW: return last_two(r.dilation);
    case CG_FACT_DILATION_D: return first_element(r.dilation);
    case CG_FACT_PADDING_HW: return padding_of(false);
    case CG_FACT_PADDING_D: return padding_of(true);
    case CG_FACT_OUTPUT_PADDING_LIMIT:
        if (r.stride && r.stride->size() == 2 && r.output_padding && r.output_padding->size() == 4)
            return Numbers{(*r.stride)[0], (*r.stride)[0], (*r.stride)[1], (*r.stride)[1]};
        return r.stride;
    case CG_FACT_OUTPUT_PADDING_LIMIT_CPU: {
        if (!one_slack_per_axis(r)) return (*this)[CG_FACT_OUTPUT_PADDING_LIMIT];
        Numbers larger = *r.stride;
        for (size_t i = 0; i < larger.size(); ++i) larger[i] = std::max(larger[i], (*r.dilation)[i]);
        return larger;
    }
    case CG_FACT_OUTPUT_PADDING_REACHES_STRIDE: {
        bool reaches = false;
        for (size_t i = 0; r.transposed && one_slack_per_axis(r) && i < r.stride->size(); ++i)
            reaches = reaches || (*r.output_padding)[i] >= (*r.stride)[i];
        return flag(reaches);
    }
    case CG_FACT_DIMS: return r.weight ? one(int64_t(r.weight->shape.size()) - 2) : std::nullopt;
    case CG_FACT_PROMOTED: return promoted();
    case CG_FACT_EIGHT_BIT:
        return flag(is_eight_bit(r.grad_output) || is_eight_bit(r.input) || is_eight_bit(r.weight) ||
                    is_eight_bit(r.grad_input) || is_eight_bit(r.grad_weight));
    case CG_FACT_WEIGHT_EIGHT_BIT: return flag(is_eight_bit(r.weight));
    case CG_FACT_GRAD_BIAS_EIGHT_BIT: return flag(is_eight_bit(r.grad_bias));
    case CG_FACT_BOTH_OUTPUTS: return flag(r.grad_input && r.grad_weight);
    case CG_FACT_EMPTY_PATH: return empty_path();
    case CG_FACT_BIAS_SIZES_IGNORED:
        return flag(r.runtime_conformance && r.op == Operator::ConvolutionBackward &&
                    !number(CG_FACT_EMPTY_PATH).value() && wants(r.output_mask, 2) && r.bias_sizes &&
                    r.bias_sizes != (*this)[CG_FACT_BIAS_SIZES_EXPECTED]);
    case CG_FACT_BIAS_SIZES_EXPECTED: return size_at(r.grad_output, 1);
    case CG_FACT_BIAS_SIZES_EXPECTED_WHEN_EMPTY:
        return r.transposed ? (*this)[CG_FACT_WEIGHT_FINE_CHANNELS] : size_at(r.grad_output, 1);
    case CG_FACT_COARSE_EXPECTED:
        return per_axis([](const LawAxis& a) {
            const Wide room = Wide(a.fine) + a.pad_low + a.pad_high - Wide(a.dilation) * (Wide(a.window) - 1) - 1;
            return floor_divide(room, a.stride) + 1;
        });
    case CG_FACT_FINE_EXPECTED: {
        const auto axes = law();
        const Fact coarse = spatial(r.input);
        if (!axes || !coarse || !r.output_padding || coarse->size() != axes->size() ||
            r.output_padding->size() != axes->size())
            return std::nullopt;
        Numbers values;
        for (size_t i = 0; i < axes->size(); ++i) {
            const LawAxis& a = (*axes)[i];
            const Wide steps = saturated((Wide((*coarse)[i]) - 1) * a.stride);
            const Wide reach = saturated(Wide(a.dilation) * (Wide(a.window) - 1));
            values.push_back(saturated(steps + reach + 1 + (*r.output_padding)[i] - a.pad_low - a.pad_high));
        }
        return values;
    }
    case CG_FACT_PADDED: return per_axis([](const LawAxis& a) { return Wide(a.fine) + a.pad_low + a.pad_high; });
    case CG_FACT_REACH: return per_axis([](const LawAxis& a) { return Wide(a.dilation) * (Wide(a.window) - 1) + 1; });
    case CG_FACT_WORK: {
        const auto& coarse = r.transposed ? r.input : r.grad_output;
        if (!coarse || !r.weight) return std::nullopt;
        const auto &shape = r.weight->shape, &cells = coarse->shape;
        const auto size = std::ptrdiff_t(shape.size());
        const bool tbc = r.op == Operator::ConvTbcBackward;
        const auto first = shape.begin() + (tbc ? 0 : std::min<std::ptrdiff_t>(size, 1));
        const auto last = tbc ? shape.begin() + std::min<std::ptrdiff_t>(size, 2) : shape.end();
        return one(saturated(Wide(span(cells.begin(), cells.end())) * span(first, last)));
    }
    case CG_FACT_TBC_WINDOW: return size_at(r.weight, 0);
    case CG_FACT_TBC_INPUT_CHANNELS: return size_at(r.input, 2);
    case CG_FACT_TBC_WEIGHT_INPUT_CHANNELS: return size_at(r.weight, 1);
    case CG_FACT_TBC_WEIGHT_OUTPUT_CHANNELS: return size_at(r.weight, 2);
    case CG_FACT_TBC_BIAS_CHANNELS: return size_at(r.bias, 0);
    case CG_FACT_TBC_LENGTH: {
        const auto size = number(CG_FACT_INPUT_BATCH), window = number(CG_FACT_TBC_WINDOW);  // input.shape[0] is T
        return size && window ? one(saturated(Wide(*size) + 2 * Wide(r.pad) - *window + 1)) : std::nullopt;
    }
    case CG_FACT_TBC_OUTPUT_SHAPE: {
        const auto size = number(CG_FACT_TBC_LENGTH), channels = number(CG_FACT_TBC_WEIGHT_OUTPUT_CHANNELS);
        const Fact batch = size_at(r.input, 1);
        return size && batch && channels ? Fact(Numbers{*size, batch->front(), *channels}) : std::nullopt;
    }
    case CG_FACT_TBC_BIAS_SHAPE: return r.bias ? Fact(r.bias->shape) : size_at(r.weight, 2);
    }
    return std::nullopt;
}

}  // namespace convgrad
