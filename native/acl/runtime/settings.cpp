#include "runtime/settings.h"

#include <cctype>
#include <cstdlib>
#include <cstring>

#include "acl/acl_base.h"
#include "runtime/errors.h"
#include "runtime/locks.h"

namespace convgrad {
namespace {

#include "../../generated/products.inc"

constexpr const char* kDefaultProduct = "A2";
constexpr const char* kUnknownSoc = "unknown";

// Guarded by Lock::Settings.
bool was_read = false;
int product_index = -1;
bool runtime_conformance = false;
const char* refusal = "";

// The next letter of a name in its plain form: lower case, without blanks and strokes. 0 at the end.
int next_letter(const char** name) {
    while (**name && std::strchr(" -_/", **name)) ++*name;
    return **name ? std::tolower(static_cast<unsigned char>(*(*name)++)) : 0;
}

// Compares letter by letter: the settings are read where no memory may be left.
bool starts_with(const char** name, const char* plain) {
    for (; *plain; ++plain)
        if (next_letter(name) != static_cast<unsigned char>(*plain)) return false;
    return true;
}

bool is_named(const char* name, const char* plain) { return starts_with(&name, plain) && next_letter(&name) == 0; }

bool has_no_rules(const char* name) {
    for (const char* plain : kWithoutRules)
        if (is_named(name, plain)) return true;
    return false;
}

int find_product(const char* name) {
    for (const ProductName& row : kProductNames)
        if (is_named(name, row.plain)) return row.product;
    if (has_no_rules(name)) return -1;
    for (const ProductName& row : kProductPrefixes) {
        const char* rest = name;
        if (starts_with(&rest, row.plain)) return row.product;
    }
    return -1;
}

int read_locked() noexcept {
    was_read = true;
    const char* product = std::getenv("CONVGRAD_PRODUCT");
    const char* conformance = std::getenv("CONVGRAD_CONFORMANCE");
    product_index = find_product(product && *product ? product : kDefaultProduct);
    runtime_conformance = conformance && std::strcmp(conformance, "runtime") == 0;
    refusal = product_index >= 0 ? "" : has_no_rules(product) ? kNoRules : "no known product";
    if (product_index < 0) return fail(ACL_ERROR_INVALID_PARAM, "CONVGRAD_PRODUCT=%s is %s", product, refusal);
    if (conformance && *conformance && !runtime_conformance && std::strcmp(conformance, "document") != 0)
        return fail(ACL_ERROR_INVALID_PARAM, "CONVGRAD_CONFORMANCE must be document or runtime, got %s", conformance);
    return 0;
}

}  // namespace

int read_settings() noexcept {
    Hold hold(lock_of(Lock::Settings));
    return read_locked();
}

Settings settings() noexcept {
    Hold hold(lock_of(Lock::Settings));
    if (!was_read) read_locked();
    return {product_index, runtime_conformance, refusal};
}

const char* soc_name() noexcept {
    const int product = settings().product;
    return product < 0 ? kUnknownSoc : kSocNames[product];
}

int product_named(const char* name) noexcept { return find_product(name); }

}  // namespace convgrad
