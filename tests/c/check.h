// A test program in one header: TEST(name, "what it proves") { CHECK(...); }  and RUN_TESTS() as main.
// `program` runs all; `program name` runs one; a failed CHECK prints its place and makes the exit code 1.
#pragma once

#include <cstdio>
#include <cstring>
#include <vector>

struct TestCase {
    const char *name, *proves;
    void (*body)();
};

inline std::vector<TestCase> &test_cases() {
    static std::vector<TestCase> cases;
    return cases;
}

inline int &failures() {
    static int count = 0;
    return count;
}

struct AddTest {
    AddTest(const char *name, const char *proves, void (*body)()) { test_cases().push_back({name, proves, body}); }
};

#define TEST(name, proves)                              \
    static void test_##name();                          \
    static AddTest add_##name(#name, proves, test_##name); \
    static void test_##name()

#define CHECK(condition)                                                                 \
    do {                                                                                 \
        if (!(condition)) {                                                              \
            std::printf("%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);        \
            ++failures();                                                                \
        }                                                                                \
    } while (0)

#define CHECK_EQUAL(got, wanted)                                                                               \
    do {                                                                                                       \
        const long long got_value = (long long)(got), wanted_value = (long long)(wanted);                      \
        if (got_value != wanted_value) {                                                                       \
            std::printf("%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #got, got_value, wanted_value);   \
            ++failures();                                                                                      \
        }                                                                                                      \
    } while (0)

inline int run_tests(int count, char **arguments) {
    int ran = 0;
    for (const TestCase &test : test_cases()) {
        if (count > 1 && std::strcmp(arguments[1], test.name) != 0) continue;
        ++ran;
        test.body();
        std::printf("%s %s: %s\n", failures() ? "FAILED" : "ok", test.name, test.proves);
    }
    if (ran == 0) std::printf("no such test\n");
    return failures() || ran == 0;
}
