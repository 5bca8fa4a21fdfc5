// The calls of kernel objects across the C ABI: no exception leaves, a stopped core is an answer.
#include <new>

#include "cores.h"
#include "object.h"
#include "runtime/settings.h"
#include "trace.h"

struct cgt_object {
    std::unique_ptr<convgrad::tile::Object> is;
};

namespace convgrad {
namespace tile {
namespace {

template <class Does> int answered(Does does, cgt_where where) {
    try {
        return does();
    } catch (const StopCore&) {
    } catch (const std::bad_alloc&) {
        try {
            found("memory.none", "there is no memory for the buffers of a tile", where);
        } catch (const std::bad_alloc&) {}
    }
    mark_core_stopping();
    return CGT_STOP;
}

// On a core of the vector role nothing waits in L0C: the call would wait for ever.
bool stores_on_vector_core(cgt_where where) {
    if (!on_vector_core()) return false;
    found("role.vector_store",
          "GetTensorC: on a vector core it waits for ever; call it on the cube core (ASCEND_IS_AIC)", where);
    return true;
}

// The documents give the objects to A2 and A3 alone.
void check_product(cgt_where where) {
    const int product = settings().product;
    if (product != product_named("A2") && product != product_named("A3"))
        found("product.unsupported",
              "Init: the object runs on Atlas A2 and A3 only; CONVGRAD_PRODUCT chooses neither of them", where);
}

}  // namespace
}  // namespace tile
}  // namespace convgrad

using namespace convgrad::tile;

extern "C" {

cgt_object* cgt_make(int gradient, int number, int ncdhw, cgt_where where) {
    cgt_object* made = nullptr;
    answered(
        [&] {
            auto fresh = std::make_unique<cgt_object>();
            fresh->is = gradient == CGT_INPUT ? make_input_object(number, ncdhw != 0, where)
                                              : make_filter_object(number, where);
            trace_call(fresh->is->number(), "make",
                       std::string(gradient == CGT_INPUT ? "\"input\"" : "\"filter\"") +
                           (number == CGT_HALF ? ", \"float16\"" : ", \"bfloat16\"") + (ncdhw ? ", true" : ", false"),
                       where);
            made = fresh.release();
            return CGT_OK;
        },
        where);
    return made;
}

void cgt_drop(cgt_object* object) {
    if (!object) return;
    answered([&] { return object->is->dropped(), CGT_OK; }, {});
    delete object;
}

#define CGT_CALL(call)                   \
    if (!object) return CGT_STOP;        \
    return answered(                     \
        [&]() -> int {                   \
            object->is->use_flag(first); \
            return call;                 \
        },                               \
        where)

int cgt_init(cgt_object* object, uint8_t* first, const void* record, cgt_where where) {
    check_product(where);
    CGT_CALL(object->is->init(first, record, where));
}
const void* cgt_record(const cgt_object* object) { return object ? object->is->record() : nullptr; }
int cgt_set_single_shape(cgt_object* object, uint8_t* first, uint64_t one, uint64_t two, uint64_t three,
                         cgt_where where) {
    CGT_CALL(object->is->set_single_shape(one, two, three, where));
}
int cgt_set_planes(cgt_object* object, uint8_t* first, uint64_t planes, cgt_where where) {
    CGT_CALL(object->is->set_planes(planes, where));
}
int cgt_set_start(cgt_object* object, uint8_t* first, int64_t plane, int64_t row, cgt_where where) {
    CGT_CALL(object->is->set_start(plane, row, where));
}
int cgt_set_grad_output(cgt_object* object, uint8_t* first, const cgt_view* view, cgt_where where) {
    CGT_CALL(object->is->set_grad_output(*view, where));
}
int cgt_set_other(cgt_object* object, uint8_t* first, const cgt_view* view, cgt_where where) {
    CGT_CALL(object->is->set_other(*view, where));
}
int cgt_iterate(cgt_object* object, uint8_t* first, int partial_sum, cgt_tile* tile, int* more, cgt_where where) {
    if (partial_sum) found("note.reserved", "Iterate: enPartialSum is reserved and has no effect", where);
    CGT_CALL((*more = object->is->iterate(tile, where), CGT_OK));
}
int cgt_get_tensor_c(cgt_object* object, uint8_t* first, const cgt_view* output, int atomic, int sequential,
                     cgt_where where) {
    if (stores_on_vector_core(where)) return CGT_REFUSED;
    CGT_CALL(object->is->get_tensor_c(*output, atomic, sequential != 0, where));
}
int cgt_end(cgt_object* object, uint8_t* first, cgt_where where) { CGT_CALL(object->is->end(where)); }

}  // extern "C"
