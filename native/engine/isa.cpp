// Which instruction set the engine uses: the first row below that the machine has, or the one CONVGRAD_ISA names.
#include "isa.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace cg {

// A build for one instruction set (tests under an emulator or a sanitizer) names it in CG_ONLY_ISA.
#define PASTE(a, b) a##b
#define ISA_SYMBOL(name) PASTE(isa_, name)
#if defined(CG_ONLY_ISA)
extern const Isa ISA_SYMBOL(CG_ONLY_ISA);
#elif defined(__x86_64__)
extern const Isa isa_baseline, isa_avx2, isa_avx512;
#if defined(CG_HAS_BF16_PAIRS)
extern const Isa isa_avx512bf16;
#endif
#elif defined(__aarch64__)
extern const Isa isa_neon;
#else
extern const Isa isa_baseline;
#endif

namespace {

struct IsaRow {
    const Isa* isa;
    bool usable;
};

const Isa* choose_isa() {
#if defined(CG_ONLY_ISA)
    const IsaRow rows[] = {{&ISA_SYMBOL(CG_ONLY_ISA), true}};
#elif defined(__x86_64__)
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
    const IsaRow rows[] = {
#if defined(CG_HAS_BF16_PAIRS)
        {&isa_avx512bf16, avx512 && __builtin_cpu_supports("avx512bf16")},
#endif
        {&isa_avx512, avx512},
        {&isa_avx2, avx2},
        {&isa_baseline, true}
    };
#elif defined(__aarch64__)
    const IsaRow rows[] = {{&isa_neon, true}};
#else
    const IsaRow rows[] = {{&isa_baseline, true}};
#endif
    const char* forced = std::getenv("CONVGRAD_ISA");
    if (forced != nullptr)
        for (const IsaRow& row : rows)
            if (row.usable && std::strcmp(row.isa->name, forced) == 0) return row.isa;
    const Isa* first = rows[0].isa;
    for (const IsaRow& row : rows)
        if (row.usable) {
            first = row.isa;
            break;
        }
    static std::atomic<bool> warned{false};
    if (forced != nullptr && *forced != '\0' && !warned.exchange(true))
        std::fprintf(stderr,
                     "convgrad: warning: CONVGRAD_ISA=%.40s is no instruction set of this machine; %s is used\n",
                     forced, first->name);
    return first;
}

}  // namespace

const Isa& isa() {
    // Every thread that comes early chooses, the same: fork() could tear the guard of a static made once.
    static std::atomic<const Isa*> chosen{nullptr};
    const Isa* known = chosen.load(std::memory_order_relaxed);
    if (known == nullptr) chosen.store(known = choose_isa(), std::memory_order_relaxed);
    return *known;
}

}  // namespace cg
