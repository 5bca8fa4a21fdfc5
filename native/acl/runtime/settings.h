// What the environment chooses: CONVGRAD_PRODUCT (a product's key, SoC name or marketing name; A2 when unset) and
// CONVGRAD_CONFORMANCE ("document", the default, or "runtime").
#pragma once

namespace convgrad {

struct Settings {
    int product = -1;  // place among the products
    bool runtime_conformance = false;
    const char* refusal = "";  // what CONVGRAD_PRODUCT names while `product` is -1
};

// Reads the environment anew; a status and a message when it names something unknown.
int read_settings() noexcept;

// The settings in force, read on first use. `product` is -1 while the environment names something unknown.
Settings settings() noexcept;

const char* soc_name() noexcept;

// The place of a product among the products by any of its names; -1 when no product has it.
int product_named(const char* name) noexcept;

}  // namespace convgrad
