#include "findings.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "cores.h"
#include "say.h"
#include "trace.h"

namespace convgrad {
namespace tile {
namespace {

struct Finding {
    std::string rule, text, place;
    int64_t core = kNoCore;
    uint64_t count = 1;
    std::string line;  // as printed; kept for convgrad_tile_finding
};

struct All {
    std::mutex guard;
    std::vector<std::unique_ptr<Finding>> findings;
    size_t launch_start = 0;  // the first finding of this launch
    size_t printed = 0;
    bool failed = false, watching_exit = false;
};
All& all() {
    static All* one = new All;  // never destroyed: exit handlers ask it
    return *one;
}

bool setting_is(const char* name, const char* value) {
    const char* given = std::getenv(name);
    return given && std::strcmp(given, value) == 0;
}

std::string line_of(const Finding& one) {
    std::string line = one.place.empty() ? "" : one.place + ": ";
    line += one.rule + ": ";
    if (one.core != kNoCore) line += say("core %lld: ", static_cast<long long>(one.core));
    line += one.text;
    if (one.count > 1) line += say(" (%llu times)", static_cast<unsigned long long>(one.count));
    return line;
}

// Refusals first: what they name is usually the cause of what the ledger shows.
void print_new(All& a, const std::string& head) {
    const auto start = a.findings.begin() + static_cast<ptrdiff_t>(a.printed);
    if (start == a.findings.end()) return;
    std::stable_sort(start, a.findings.end(), [](const auto& one, const auto& two) {
        auto late = [](const Finding& f) { return f.rule.compare(0, 9, "coverage.") == 0; };
        return late(*one) < late(*two);
    });
    if (!head.empty()) std::fprintf(stderr, "%s\n", head.c_str());
    for (auto at = start; at != a.findings.end(); ++at) {
        (*at)->line = line_of(**at);
        std::fprintf(stderr, "%s\n", (*at)->line.c_str());
        trace_finding((*at)->rule, (*at)->text, (*at)->core, (*at)->place, (*at)->count);
    }
    a.printed = a.findings.size();
}

// A program that found something and says 0 ends with 1.
void at_exit(int status, void*) {
    All& a = all();
    {
        std::lock_guard<std::mutex> hold(a.guard);
        print_new(a, "");
    }
    if (status != 0 || !a.failed || setting_is("CONVGRAD_TILE", "ignore")) return;
    std::fflush(nullptr);
    std::_Exit(1);
}

}  // namespace

std::string say(const char* format, ...) {
    va_list list;
    va_start(list, format);
    char* made = nullptr;
    const int length = vasprintf(&made, format, list);
    va_end(list);
    if (length < 0) throw std::bad_alloc();
    std::string result(made, static_cast<size_t>(length));
    std::free(made);
    return result;
}

void found_on_core(const std::string& rule, const std::string& text, int64_t core, cgt_where where) {
    All& a = all();
    std::lock_guard<std::mutex> hold(a.guard);
    a.failed = a.failed || rule.compare(0, 5, "note.") != 0;
    if (!a.watching_exit) {
#if defined(__GLIBC__)
        a.watching_exit = on_exit(at_exit, nullptr) == 0;
#else
        a.watching_exit = std::atexit([] { at_exit(0, nullptr); }) == 0;  // the status is not told
#endif
    }
    for (size_t at = a.launch_start; at < a.findings.size(); ++at)
        if (a.findings[at]->rule == rule) {
            ++a.findings[at]->count;
            return;
        }
    auto one = std::make_unique<Finding>();
    one->rule = rule, one->text = text, one->core = core;
    if (where.file) one->place = say("%s:%d", where.file, where.line);
    one->line = line_of(*one);
    a.findings.push_back(std::move(one));
}

void found(const std::string& rule, const std::string& text, cgt_where where) {
    found_on_core(rule, text, core_number(), where);
}

void stop(const std::string& rule, const std::string& text, cgt_where where) {
    found(rule, text, where);
    throw StopCore();
}

void begin_findings() {
    All& a = all();
    std::lock_guard<std::mutex> hold(a.guard);
    print_new(a, "");
    a.launch_start = a.findings.size();
}

void end_findings(const std::string& head) {
    All& a = all();
    bool failed;
    {
        std::lock_guard<std::mutex> hold(a.guard);
        print_new(a, head);
        a.launch_start = a.findings.size();
        failed = a.failed;
    }
    if (failed && setting_is("CONVGRAD_STRICT", "1") && !setting_is("CONVGRAD_TILE", "ignore")) std::exit(1);
}

}  // namespace tile
}  // namespace convgrad

using namespace convgrad::tile;

extern "C" void cgt_found(const char* rule, const char* text, cgt_where where) { found(rule, text, where); }

extern "C" int cgt_stop(const char* rule, const char* text, cgt_where where) {
    found(rule, text, where);
    mark_core_stopping();
    return CGT_STOP;
}

extern "C" void cgt_die(void) {
    end_findings("");
    std::fflush(nullptr);
    std::_Exit(1);
}

extern "C" size_t convgrad_tile_findings(void) {
    std::lock_guard<std::mutex> hold(all().guard);
    return all().findings.size();
}

extern "C" const char* convgrad_tile_finding(size_t number) {
    std::lock_guard<std::mutex> hold(all().guard);
    return number < all().findings.size() ? all().findings[number]->line.c_str() : nullptr;
}
