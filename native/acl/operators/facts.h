// Request -> named facts: what the rows ask about. The definition of each fact stands beside its enumerator in
// generated/rules.inc; a fact is null, or a list of int64 (single values are lists of one).
#pragma once

#include <optional>
#include <vector>

#include "operators/request.h"

namespace convgrad {

#include "../../generated/rules.inc"

using Fact = std::optional<Numbers>;

class Facts {
public:
    explicit Facts(const Request& request) : request_(request), known_(sizeof CG_FACTS / sizeof CG_FACTS[0]) {}

    // Each fact is computed once, when first asked for.
    const Fact& operator[](cg_fact name) {
        std::optional<Fact>& slot = known_[name];
        if (!slot) slot = read(name);
        return *slot;
    }

private:
    Fact read(cg_fact name);
    std::optional<int64_t> number(cg_fact name);
    Fact last_two(const std::optional<Numbers>& values) const;
    Fact padding_of(bool depth);
    Fact promoted();
    Fact empty_path();

    struct LawAxis {
        int64_t fine, pad_low, pad_high, window, stride, dilation;
    };
    std::optional<std::vector<LawAxis>> law() const;
    template <class Read> Fact per_axis(Read read) const;

    const Request& request_;
    std::vector<std::optional<Fact>> known_;
};

}  // namespace convgrad
