// What lies between the two phases: a checked call, ready to run.
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/registry.h"

namespace convgrad {

class Executor {
public:
    virtual ~Executor() = default;
    // Runs on the addresses the tensors hold now; gives a status.
    virtual int run() const = 0;

    const char* operator_name = "";
    uint64_t workspace_bytes = 0;
    std::atomic<bool> repeatable{false};
};

Registry<Executor>& executors() noexcept;

// Phase 2 of every operator.
int run_executor(const char* operator_name, void* workspace, uint64_t workspace_size, void* executor, void* stream);

}  // namespace convgrad
