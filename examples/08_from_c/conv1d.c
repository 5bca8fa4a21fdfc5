/* 1-D, in plain C: a window of 3 over 8 samples. Two windows touch the second sample, one the first. */
#include <stdio.h>

#include "acl/acl.h"
#include "aclnnop/aclnn_convolution_backward.h"

enum { SAMPLES = 8, POSITIONS = 6, WINDOW = 3 };

/* Stops with the library's own words when a call fails. */
#define CHECK(call)                                                              \
    do {                                                                         \
        const int status = (call);                                               \
        if (status != 0) {                                                       \
            const char *reason = aclGetRecentErrMsg();                           \
            fprintf(stderr, "%s: %d\n%s", #call, status, reason ? reason : "");  \
            return 1;                                                            \
        }                                                                        \
    } while (0)

static int make(const int64_t *shape, uint64_t rank, float value, void **address, aclTensor **tensor) {
    float values[SAMPLES];
    size_t count = 1;
    for (uint64_t i = 0; i < rank; ++i) count *= (size_t)shape[i];
    for (size_t i = 0; i < count; ++i) values[i] = value;
    CHECK(aclrtMalloc(address, count * sizeof(float), ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMemcpy(*address, count * sizeof(float), values, count * sizeof(float), ACL_MEMCPY_HOST_TO_DEVICE));
    *tensor = aclCreateTensor(shape, rank, ACL_FLOAT, NULL, 0, rank == 3 ? ACL_FORMAT_NCL : ACL_FORMAT_ND, shape, rank, *address);
    return *tensor == NULL;
}

int main(void) {
    const int64_t fine[] = {1, 1, SAMPLES}, coarse[] = {1, 1, POSITIONS}, window[] = {1, 1, WINDOW}, one[] = {1}, zero[] = {0};
    const int64_t *shapes[] = {coarse, fine, window, fine, window, one};
    const bool wanted[] = {true, true, true};
    void *address[6];
    aclTensor *tensor[6]; /* gradOutput, input, weight, gradInput, gradWeight, gradBias */
    uint64_t size = 0;
    aclOpExecutor *executor = NULL;
    void *workspace = NULL;
    float result[SAMPLES];
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    for (int i = 0; i < 6; ++i)
        if (make(shapes[i], i == 5 ? 1 : 3, i < 3 ? 1 : 0, &address[i], &tensor[i])) return 1;
    aclIntArray *ones = aclCreateIntArray(one, 1), *zeros = aclCreateIntArray(zero, 1);
    aclBoolArray *mask = aclCreateBoolArray(wanted, 3);
    CHECK(aclnnConvolutionBackwardGetWorkspaceSize(tensor[0], tensor[1], tensor[2], ones, ones, zeros, ones, false, zeros, 1, mask, 0,
                                                   tensor[3], tensor[4], tensor[5], &size, &executor));
    CHECK(aclrtMalloc(&workspace, size, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclnnConvolutionBackward(workspace, size, executor, NULL));
    CHECK(aclrtSynchronizeStream(NULL));
    CHECK(aclrtMemcpy(result, sizeof result, address[3], sizeof result, ACL_MEMCPY_DEVICE_TO_HOST));
    printf("gradInput  ");
    for (int i = 0; i < SAMPLES; ++i) printf(" %g", result[i]);
    CHECK(aclrtMemcpy(result, sizeof result, address[4], WINDOW * sizeof(float), ACL_MEMCPY_DEVICE_TO_HOST));
    printf("\ngradWeight  %g %g %g\n", result[0], result[1], result[2]);
    for (int i = 0; i < 6; ++i) {
        aclDestroyTensor(tensor[i]);
        aclrtFree(address[i]);
    }
    aclrtFree(workspace);
    aclDestroyIntArray(ones);
    aclDestroyIntArray(zeros);
    aclDestroyBoolArray(mask);
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return 0;
}
