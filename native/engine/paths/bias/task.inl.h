// The bias by itself: runs of lines summed by one task each, added in their order.
#pragma once

#include "paths/bias/kernels.inl.h"
#include "scratch.h"
#include "tasks.inl.h"

namespace cg {
namespace {

static int run_bias(const cg_problem& p, int threads) {
    const BiasRun run(p);
    const BiasPlan& plan = run.plan;
    const Source& s = run.source;
    const index_t* st = run.stored.stride;
    const index_t block = plan.block, channels = plan.channels, length = plan.length;
    const index_t parts = plan.parts, range = plan.range, blocks = plan.blocks;
    double* partial = (double*)shared_scratch(plan.shared_bytes);
    if (partial == nullptr) return CG_OUT_OF_MEMORY;
    for (index_t first = 0; first < blocks; first += range) {
        const index_t now = min(range, blocks - first);
        auto sum = [&](index_t task, char* scratch) {
            const index_t part = task / now, b = first + task % now;
            const index_t c0 = b * block, have = min(block, channels - c0);
            double* out = partial + (part * range + task % now) * block;
            for (index_t c = 0; c < have; ++c) out[c] = 0;
            float* values = (float*)scratch;
            for (index_t i = run.first_line(part); i < run.first_line(part + 1); ++i) {
                const index_t at = run.line_at(c0, i);
                if (!plan.across) {
                    out[0] += line_sum_any(s, at, length, st[4]);
                    continue;
                }
                for (index_t x = 0; x < length; x += 16) {
                    const index_t pixels = min(16, length - x);
                    const float* from = values;
                    index_t pixel = block;
                    if (s.kind == LOAD_F32) {
                        from = (const float*)s.tensor->data + at + x * st[4];
                        pixel = st[4];
                    } else {
                        s.rows(s, at + x * st[4], pixels, st[4], have, 1, values, block);
                    }
                    for (index_t q = 0; q < pixels; ++q)
                        for (index_t c = 0; c < have; ++c) out[c] += from[q * pixel + c];
                }
            }
        };
        const int status = in_parallel(threads, parts * now, plan.task_bytes, sum);
        if (status != CG_OK) return status;
        for (index_t i = 0; i < now * block && first * block + i < channels; ++i) {
            double total = partial[i];
            for (index_t part = 1; part < parts; ++part) total += partial[part * range * block + i];
            run.store(first * block + i, total);
        }
    }
    return CG_OK;
}

}  // namespace
}  // namespace cg
