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

// The next letter of a name in its plain form: lower case, without blanks and strokes. 0 at the end.
int next_letter(const char** name) {
    while (**name && std::strchr(" -_/", **name)) ++*name;
    return **name ? std::tolower(static_cast<unsigned char>(*(*name)++)) : 0;
}

// Compares letter by letter: the settings are read where no memory may be left.
bool starts_with(const char** name, const char* plain) {
    for (; *plain; ++plain)
        if (next_letter(name) != *plain) return false;
    return true;
}

int find_product(const char* name) {
    for (const ProductName& row : kProductNames) {
        const char* rest = name;
        if (starts_with(&rest, row.plain) && next_letter(&rest) == 0) return row.product;
    }
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
    if (product_index < 0) return fail(ACL_ERROR_INVALID_PARAM, "CONVGRAD_PRODUCT=%s is no known product", product);
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
    return {product_index, runtime_conformance};
}

const char* soc_name() noexcept {
    const int product = settings().product;
    return product < 0 ? kUnknownSoc : kSocNames[product];
}

}  // namespace convgrad
