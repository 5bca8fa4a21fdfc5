// Phase 2, and the calls that change an executor between its runs.
#include "operators/executor.h"

#include <cstring>

#include "aclnn/aclnn_base.h"
#include "aclnn/opdev/op_errno.h"
#include "runtime/errors.h"
#include "runtime/immortal.h"
#include "runtime/memory.h"
#include "runtime/objects.h"
#include "runtime/runtime.h"
#include "runtime/strict.h"

namespace convgrad {
namespace {

// Strict mode: a device would write past a workspace that is smaller than phase 1 asked for.
int check_workspace(const Executor& executor, const void* workspace, uint64_t workspace_size) {
    if (!strict::enabled() || executor.workspace_bytes == 0) return 0;
    const auto asked = static_cast<unsigned long long>(executor.workspace_bytes);
    if (workspace_size < executor.workspace_bytes) {
        strict::report("%s: workspaceSize is %llu bytes, phase 1 asked for %llu", executor.operator_name,
                       static_cast<unsigned long long>(workspace_size), asked);
        return fail(ACLNN_ERR_RUNTIME_ERROR, "workspaceSize must be at least %llu, got %llu", asked,
                    static_cast<unsigned long long>(workspace_size));
    }
    const Span span = locate(workspace, executor.workspace_bytes);
    if (span.block && span.block->side == Side::Device && span.fits) return 0;
    if (span.block && span.block->side == Side::Device)
        strict::report("%s: the workspace lies in device block #%llu (%zu bytes), phase 1 asked for %llu",
                       executor.operator_name, static_cast<unsigned long long>(span.block->number), span.block->asked,
                       asked);
    else strict::report("%s: the workspace %p is not device memory", executor.operator_name, workspace);
    return fail(ACLNN_ERR_RUNTIME_ERROR, "the workspace is not a device block of at least %llu bytes", asked);
}

int set_address(const void* executor, const void* tensor, void* address) noexcept {
    if (!executor || !tensor) return fail(ACLNN_ERR_INNER_NULLPTR, "the executor and the tensor must not be null");
    if (!executors().find(executor)) return fail(ACLNN_ERR_INNER, "%p is not a live executor", executor);
    const auto found = objects().tensors.find(tensor);
    if (!found) return fail(ACLNN_ERR_INNER, "%p is not a live tensor", tensor);
    found->address = address;
    return 0;
}

int set_list_address(const void* executor, size_t index, const void* list, void* address) noexcept {
    if (!executor || !list) return fail(ACLNN_ERR_INNER_NULLPTR, "the executor and the tensor list must not be null");
    const auto found = objects().tensor_lists.find(list);
    if (!found) return fail(ACLNN_ERR_INNER, "%p is not a live tensor list", list);
    if (index >= found->items.size())
        return fail(ACLNN_ERR_PARAM_INVALID, "relativeIndex must be below %zu, got %zu", found->items.size(), index);
    return set_address(executor, found->items[index], address);
}

struct Executors {
    Registry<Executor> executors{Kind::Executor};
};
Immortal<Executors> all;

}  // namespace

Registry<Executor>& executors() noexcept { return all->executors; }

int run_executor(const char* operator_name, void* workspace, uint64_t workspace_size, void* executor, void* stream) {
    if (!executor) return fail(ACLNN_ERR_PARAM_NULLPTR, "%s: executor must be given; got null", operator_name);
    return guarded(ACLNN_ERR_RUNTIME_ERROR, [&]() -> int {
        const auto found = executors().find(executor);
        // A single run consumes the executor, whatever comes of it; of two threads only one gets it.
        const bool missing_workspace = workspace_size > 0 && !workspace;
        const bool keep = found && found->repeatable && !missing_workspace;
        if (!found || (!keep && !executors().remove(executor)))
            return fail(ACLNN_ERR_RUNTIME_ERROR, "%s: the executor has run or was destroyed; call phase 1 again",
                        operator_name);
        if (missing_workspace)
            return fail(ACLNN_ERR_PARAM_NULLPTR, "%s: workspace must be given when its size is %llu; got null",
                        operator_name, static_cast<unsigned long long>(workspace_size));
        if (std::strcmp(found->operator_name, operator_name) != 0)
            return fail(ACLNN_ERR_RUNTIME_ERROR, "%s: the executor belongs to %s", operator_name, found->operator_name);
        if (check_stream(stream)) return fail(ACLNN_ERR_RUNTIME_ERROR, "stream %p is not a live stream", stream);
        if (const int status = check_workspace(*found, workspace, workspace_size)) return status;
        return found->run();
    });
}

}  // namespace convgrad

using namespace convgrad;

extern "C" {

aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor* executor) {
    if (!executor) return fail(ACLNN_ERR_INNER_NULLPTR, "executor must not be null");
    const auto found = executors().find(executor);
    if (!found) return fail(ACLNN_ERR_INNER, "%p is not a live executor", static_cast<void*>(executor));
    found->repeatable = true;
    return 0;
}

aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor) {
    if (!executor) return fail(ACLNN_ERR_INNER_NULLPTR, "executor must not be null");
    return executors().remove(executor)
               ? 0
               : fail(ACLNN_ERR_INNER, "%p is not a live executor", static_cast<void*>(executor));
}

// The tensor alone says where the address goes: for operators made of several kernels the index means nothing.
#define CONVGRAD_SET_ADDRESS(name)                                                           \
    aclnnStatus name(aclOpExecutor* executor, const size_t, aclTensor* tensor, void* addr) { \
        return set_address(executor, tensor, addr);                                          \
    }
#define CONVGRAD_SET_LIST_ADDRESS(name)                                                                   \
    aclnnStatus name(aclOpExecutor* executor, size_t, const size_t relativeIndex, aclTensorList* tensors, \
                     void* addr) {                                                                        \
        return set_list_address(executor, relativeIndex, tensors, addr);                                  \
    }

CONVGRAD_SET_ADDRESS(aclSetInputTensorAddr)
CONVGRAD_SET_ADDRESS(aclSetOutputTensorAddr)
CONVGRAD_SET_ADDRESS(aclSetTensorAddr)
CONVGRAD_SET_ADDRESS(AclSetInputTensorAddr)
CONVGRAD_SET_ADDRESS(AclSetOutputTensorAddr)
CONVGRAD_SET_ADDRESS(AclSetTensorAddr)
CONVGRAD_SET_LIST_ADDRESS(aclSetDynamicInputTensorAddr)
CONVGRAD_SET_LIST_ADDRESS(aclSetDynamicOutputTensorAddr)
CONVGRAD_SET_LIST_ADDRESS(aclSetDynamicTensorAddr)
CONVGRAD_SET_LIST_ADDRESS(AclSetDynamicInputTensorAddr)
CONVGRAD_SET_LIST_ADDRESS(AclSetDynamicOutputTensorAddr)
CONVGRAD_SET_LIST_ADDRESS(AclSetDynamicTensorAddr)

}  // extern "C"
