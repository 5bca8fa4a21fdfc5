/* As framework adapters do it: one library is linked, another is opened, symbols are looked up on that handle.
 * Everything must be one instance: a stream of the linked library works in the opened one. Plain C. */
#include <dlfcn.h>
#include <stdio.h>

#include "acl/acl.h"
#include "aclnnop/aclnn_convolution_backward.h"

typedef aclTensor *(*CreateTensor)(const int64_t *, uint64_t, aclDataType, const int64_t *, int64_t, aclFormat,
                                   const int64_t *, uint64_t, void *);
typedef aclnnStatus (*PhaseOne)(const aclTensor *, const aclTensor *, const aclTensor *, const aclTensor *, int64_t, int8_t,
                                aclTensor *, aclTensor *, aclTensor *, uint64_t *, aclOpExecutor **);
typedef aclnnStatus (*PhaseTwo)(void *, uint64_t, aclOpExecutor *, const aclrtStream);

static void *library;

/* ISO C has no cast from object to function pointers; the copy is what POSIX asks for. */
#define LOOK_UP(type, name) (*(type *)look_up(name))
static void **look_up(const char *name) {
    static void *found;
    found = dlsym(library, name);
    if (!found) printf("no %s\n", name);
    return &found;
}

static aclTensor *ones(CreateTensor create, const int64_t *shape, uint64_t rank) {
    float values[64];
    void *block = NULL;
    size_t count = 1;
    for (uint64_t i = 0; i < rank; ++i) count *= (size_t)shape[i];
    for (size_t i = 0; i < count; ++i) values[i] = 1;
    aclrtMalloc(&block, count * sizeof(float), ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtMemcpy(block, count * sizeof(float), values, count * sizeof(float), ACL_MEMCPY_HOST_TO_DEVICE);
    return create(shape, rank, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, shape, rank, block);
}

int main(void) {
    const int64_t data[] = {5, 1, 2}, weight[] = {1, 2, 2}, bias[] = {2};
    aclrtStream stream = NULL;
    uint64_t size = 0;
    aclOpExecutor *executor = NULL;
    void *address = NULL;
    float result = 0;
    aclnnStatus first, second;
    aclInit(NULL);
    aclrtSetDevice(0);
    aclrtCreateStream(&stream);
    library = dlopen("libopapi.so", RTLD_LAZY);
    if (!library) return printf("%s\n", dlerror());
    CreateTensor create = LOOK_UP(CreateTensor, "aclCreateTensor");
    PhaseOne phase_one = LOOK_UP(PhaseOne, "aclnnConvTbcBackwardGetWorkspaceSize");
    PhaseTwo phase_two = LOOK_UP(PhaseTwo, "aclnnConvTbcBackward");
    aclTensor *grad_weight = ones(create, weight, 3);
    first = phase_one(ones(create, data, 3), ones(create, data, 3), ones(create, weight, 3), ones(create, bias, 1), 0, 0,
                      ones(create, data, 3), grad_weight, ones(create, bias, 1), &size, &executor);
    second = phase_two(NULL, 0, executor, stream);
    aclGetRawTensorAddr(grad_weight, &address);
    aclrtMemcpy(&result, sizeof result, address, sizeof result, ACL_MEMCPY_DEVICE_TO_HOST);
    printf("%d %d %g %s\n", first, second, result, dlsym(library, "InitHugeMemThreadLocal") ? "found" : "optional symbol missing");
    return 0;
}
