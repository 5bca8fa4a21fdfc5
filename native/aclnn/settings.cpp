#include "settings.h"

#include <cctype>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include "acl/acl_base.h"
#include "errors.h"

namespace convgrad {
namespace {

#include "../generated/products.inc"

constexpr const char *kDefaultProduct = "A2";
constexpr const char *kUnknownSoc = "unknown";

std::mutex lock;
bool was_read = false;
int product_index = -1;
bool runtime_conformance = false;

std::string plain(const char *name) {
    std::string letters;
    for (; *name; ++name)
        if (!std::strchr(" -_/", *name)) letters += char(std::tolower(static_cast<unsigned char>(*name)));
    return letters;
}

int find_product(const char *name) {
    const std::string wanted = plain(name);
    for (const ProductName &row : kProductNames)
        if (wanted == row.plain) return row.product;
    for (const ProductName &row : kProductPrefixes)
        if (wanted.compare(0, std::strlen(row.plain), row.plain) == 0) return row.product;
    return -1;
}

int read_locked() {
    was_read = true;
    const char *product = std::getenv("CONVGRAD_PRODUCT");
    const char *conformance = std::getenv("CONVGRAD_CONFORMANCE");
    product_index = find_product(product && *product ? product : kDefaultProduct);
    runtime_conformance = conformance && std::strcmp(conformance, "runtime") == 0;
    if (product_index < 0) return fail(ACL_ERROR_INVALID_PARAM, "CONVGRAD_PRODUCT=%s is no known product", product);
    if (conformance && *conformance && !runtime_conformance && std::strcmp(conformance, "document") != 0)
        return fail(ACL_ERROR_INVALID_PARAM, "CONVGRAD_CONFORMANCE must be document or runtime, got %s", conformance);
    return 0;
}

}  // namespace

int read_settings() {
    std::lock_guard<std::mutex> hold(lock);
    return read_locked();
}

Settings settings() {
    std::lock_guard<std::mutex> hold(lock);
    if (!was_read) read_locked();
    return {product_index, runtime_conformance};
}

const char *soc_name() noexcept {
    try {
        settings();
    } catch (...) {
        return kUnknownSoc;
    }
    std::lock_guard<std::mutex> hold(lock);
    return product_index < 0 ? kUnknownSoc : kSocNames[product_index];
}

}  // namespace convgrad
