/* XLA's foreign function interface, as much of its C ABI as one handler reads: the names and the order of fields are those
 * of xla/ffi/api/c_api.h (Apache 2.0), major version 0. Later minor versions only add fields behind these, and XLA supports
 * a version for a year at least. tests/jax/test_jax_ffi.py compares sizes and offsets with the header of the installed JAX. */
#ifndef CONVGRAD_XLA_FFI_H
#define CONVGRAD_XLA_FFI_H

#include <stddef.h>
#include <stdint.h>

namespace xla_ffi {

enum { API_MAJOR = 0, API_MINOR = 1 };
enum { EXTENSION_METADATA = 1, STAGE_EXECUTE = 3, BUFFER = 1, ATTRIBUTE_ARRAY = 1, DATA_S64 = 5 };
enum { INVALID_ARGUMENT = 3, RESOURCE_EXHAUSTED = 8, INTERNAL = 13 };

struct Extension {
    size_t struct_size;
    int32_t type;
    Extension *next;
};

struct ApiVersion {
    size_t struct_size;
    Extension *extension_start;
    int32_t major_version, minor_version;
};

struct Metadata {
    size_t struct_size;
    ApiVersion api_version;
    uint32_t traits;
};

struct MetadataExtension {
    Extension base;
    Metadata *metadata;
};

struct Error;

struct ErrorCreateArgs {
    size_t struct_size;
    Extension *extension_start;
    const char *message;
    int32_t code;
};

struct Api {
    size_t struct_size;
    Extension *extension_start;
    ApiVersion api_version;
    const void *internal_api;
    Error *(*error_create)(ErrorCreateArgs *);
};

struct Buffer {
    size_t struct_size;
    Extension *extension_start;
    int32_t dtype;
    void *data;
    int64_t rank;
    int64_t *dims;
};

struct ByteSpan {
    const char *ptr;
    size_t len;
};

struct Array {
    int32_t dtype;
    size_t size;
    void *data;
};

/* Arguments, and results. */
struct Buffers {
    size_t struct_size;
    Extension *extension_start;
    int64_t size;
    int32_t *types;
    void **buffers;
};

struct Attributes {
    size_t struct_size;
    Extension *extension_start;
    int64_t size;
    int32_t *types;
    ByteSpan **names;
    void **values;
};

struct CallFrame {
    size_t struct_size;
    Extension *extension_start;
    const Api *api;
    void *context;
    int32_t stage;
    Buffers arguments;
    Buffers results;
    Attributes attributes;
};

} // namespace xla_ffi

#endif
