// A main for a fuzz target where there is no libFuzzer: random inputs for so many seconds. Arguments: seconds, seed.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int count, char** arguments) {
    const double seconds = count > 1 ? std::atof(arguments[1]) : 1;
    std::mt19937_64 draw(count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 1);
    const auto start = std::chrono::steady_clock::now();
    uint64_t runs = 0;
    std::vector<uint8_t> bytes;
    while (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < seconds) {
        bytes.resize(1 + draw() % 600);
        for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(draw() % 4 == 0 ? draw() : draw() % 12);
        LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
        ++runs;
    }
    std::fprintf(stderr, "%llu random inputs\n", static_cast<unsigned long long>(runs));
    return 0;
}
