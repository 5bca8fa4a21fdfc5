/* platform_ascendc: cores and stores of a product, from the project's rows. */
#ifndef CONVGRAD_PLATFORM_ASCENDC_H
#define CONVGRAD_PLATFORM_ASCENDC_H

#include <cstdint>
#include <mutex>

#include "convgrad_tile.h"

namespace fe {
class PlatFormInfos;
}

namespace platform_ascendc {

enum class CoreMemType { L0_A = 0, L0_B = 1, L0_C = 2, L1 = 3, L2 = 4, UB = 5, HBM = 6, FB = 7, BT = 8, RESERVED };
enum class SocVersion {
    ASCEND910 = 0,
    ASCEND910B = 1,
    ASCEND310P = 2,
    ASCEND310B = 3,
    ASCEND950 = 4,
    ASCEND910_95 = ASCEND950,
    ASCEND910_55 = 5,
    ASCEND910_93 = 13,
    RESERVED_VERSION = 99999
};

/* The product that CONVGRAD_PRODUCT chooses (A2 when it says nothing), or the one a manager was asked for. */
class PlatformAscendC {
public:
    explicit PlatformAscendC(fe::PlatFormInfos *) : PlatformAscendC(static_cast<const char *>(nullptr)) {}
    uint32_t GetCoreNum() const { return facts_.cube_cores; }
    uint32_t GetCoreNumAic() const { return facts_.cube_cores; }
    uint32_t GetCoreNumAiv() const { return facts_.vector_cores; }
    uint32_t GetCoreNumVector() const { return 0; } /* vector cores beside AI cores: the 310P's only */
    SocVersion GetSocVersion() const { return static_cast<SocVersion>(facts_.soc_version); }
    uint32_t GetLibApiWorkSpaceSize() const { return 16 * 1024 * 1024; }
    void GetCoreMemSize(const CoreMemType &memType, uint64_t &size) const {
        const uint64_t sizes[] = {facts_.l0a, facts_.l0b, facts_.l0c, facts_.l1, facts_.l2, facts_.ub, 0, facts_.fb, facts_.bt};
        size = memType < CoreMemType::RESERVED ? sizes[static_cast<int>(memType)] : 0;
    }

private:
    friend class PlatformAscendCManager;
    explicit PlatformAscendC(const char *name) {
        known_ = cgt_platform(name, &facts_) == CGT_OK;
        if (!known_) facts_.soc_version = static_cast<int32_t>(SocVersion::RESERVED_VERSION);
    }
    cgt_platform_facts facts_ = {};
    bool known_ = false;
};

/* One platform for the program: the first name that is a product's counts; null while none is. */
class PlatformAscendCManager {
public:
    static PlatformAscendC *GetInstance() { return GetInstance(nullptr); }
    static PlatformAscendC *GetInstance(const char *customSocVersion) {
        static std::mutex guard;
        static PlatformAscendC one(static_cast<fe::PlatFormInfos *>(nullptr));
        static bool chosen = false;
        const std::lock_guard<std::mutex> hold(guard);
        if (!chosen) one = PlatformAscendC(customSocVersion), chosen = one.known_;
        return chosen ? &one : nullptr;
    }
};

}  // namespace platform_ascendc

#endif
