// The weight gradient that the 950's runtime sums by Winograd: the C door's counterpart of
// convgrad.rules.algorithms_950 (when) and convgrad.engines.winograd_950 (how, bit for bit).
#pragma once

#include "convgrad.h"
#include "operators/request.h"

namespace convgrad::winograd_950 {

// Whether the runtime of an accepted request sums its weight gradient so, as the newest host code read does. The
// problem holds the request's geometry.
bool is_taken(const Request& request, const cg_problem& problem);

// Sums to_weight of the call from its float32 operands, whatever their strides. A cg_status.
int run(const cg_problem& call);

}  // namespace convgrad::winograd_950
