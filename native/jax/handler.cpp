/* One call of the engine inside a program XLA compiled: `problem` is a cg_problem without addresses, `places` says which byte
 * of it takes the address of each argument, then of each result. The interpreter is not asked, nothing is copied. */
#include "xla_ffi.h"

#include <cstring>

#include "convgrad.h"

namespace {

using namespace xla_ffi;

Error *error(const CallFrame *frame, int32_t code, const char *message) {
    ErrorCreateArgs made = {sizeof(ErrorCreateArgs), nullptr, message, code};
    return frame->api->error_create(&made);
}

/* The array of 64-bit numbers of a name; null where there is none. */
const Array *numbers(const Attributes &attributes, const char *name) {
    for (int64_t i = 0; i < attributes.size; i++) {
        const ByteSpan *span = attributes.names[i];
        if (span->len != std::strlen(name) || std::memcmp(span->ptr, name, span->len) != 0) continue;
        const Array *found = static_cast<const Array *>(attributes.values[i]);
        return attributes.types[i] == ATTRIBUTE_ARRAY && found->dtype == DATA_S64 ? found : nullptr;
    }
    return nullptr;
}

/* Writes the addresses of buffers at their places; null, or what is wrong. */
const char *fill(cg_problem &problem, const Buffers &given, const int64_t *places) {
    for (int64_t i = 0; i < given.size; i++) {
        if (given.types[i] != BUFFER) return "an argument or a result is not a buffer";
        const Buffer *buffer = static_cast<const Buffer *>(given.buffers[i]);
        if (places[i] < 0 || places[i] > int64_t(sizeof(cg_problem) - sizeof(void *))) return "a place is outside of cg_problem";
        std::memcpy(reinterpret_cast<char *>(&problem) + places[i], &buffer->data, sizeof(void *));
    }
    return nullptr;
}

} // namespace

/* The handler for `jax.ffi.register_ffi_target`. */
extern "C" CG_API Error *cg_xla_call(CallFrame *frame) {
    const Extension *asked = frame->extension_start;
    if (asked != nullptr && asked->type == EXTENSION_METADATA) {
        Metadata *metadata = reinterpret_cast<const MetadataExtension *>(asked)->metadata;
        metadata->api_version.major_version = API_MAJOR;
        metadata->api_version.minor_version = API_MINOR;
        return nullptr;
    }
    if (frame->stage != STAGE_EXECUTE) return nullptr;
    const Array *image = numbers(frame->attributes, "problem");
    const Array *places = numbers(frame->attributes, "places");
    if (image == nullptr || image->size * sizeof(int64_t) != sizeof(cg_problem))
        return error(frame, INVALID_ARGUMENT, "convgrad: the attribute `problem` is no cg_problem");
    const int64_t count = frame->arguments.size + frame->results.size;
    if (places == nullptr || int64_t(places->size) != count)
        return error(frame, INVALID_ARGUMENT, "convgrad: the attribute `places` needs an entry for each argument and result");
    cg_problem problem;
    std::memcpy(&problem, image->data, sizeof problem);
    const int64_t *place = static_cast<const int64_t *>(places->data);
    const char *wrong = fill(problem, frame->arguments, place);
    if (wrong == nullptr) wrong = fill(problem, frame->results, place + frame->arguments.size);
    if (wrong != nullptr) return error(frame, INVALID_ARGUMENT, wrong);
    const int32_t status = cg_run(&problem);
    if (status == CG_OK) return nullptr;
    return error(frame, status == CG_OUT_OF_MEMORY ? RESOURCE_EXHAUSTED : INTERNAL, cg_last_error());
}
