#include "memory.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "cores.h"
#include "findings.h"
#include "runtime/memory.h"
#include "say.h"
#include "trace.h"

namespace convgrad {
namespace tile {
namespace {

constexpr size_t kAlignment = 512, kGuard = 512;
constexpr unsigned char kGuardByte = 0xA5;

struct GmBlock {
    size_t bytes = 0;
    bool ours = false;  // allocated here, with guard bytes behind it
    std::string name;
};

// Leading bytes that are zero, in whole words: an element of a result lies in one.
size_t leading_zeros(const char* start, size_t bytes) {
    constexpr size_t kWord = sizeof(uint32_t);
    size_t at = 0;
    for (uint32_t word; at + kWord <= bytes; at += kWord) {
        std::memcpy(&word, start + at, kWord);
        if (word != 0) break;
    }
    return at;
}

struct Memory {
    std::recursive_mutex guard;
    std::map<uintptr_t, GmBlock> blocks;
    std::map<uintptr_t, size_t> freed;
    std::map<uintptr_t, std::unique_ptr<Region>> regions;  // by first byte, of the launch that runs
    std::vector<std::shared_ptr<Block>> held;              // device blocks of the launch: not freed while it runs
    int allocated = 0, opened = 0;
};
Memory& memory() {
    static Memory* one = new Memory;  // never destroyed
    return *one;
}

using Hold = std::lock_guard<std::recursive_mutex>;
uintptr_t number_of(const void* address) { return reinterpret_cast<uintptr_t>(address); }

struct Stretch {
    char* start = nullptr;
    size_t bytes = 0;
    std::string name;
};

// The block an address lies in (or stands right behind).
bool find_block(const void* address, Stretch* stretch) {
    Memory& m = memory();
    auto after = m.blocks.upper_bound(number_of(address));
    if (after != m.blocks.begin()) {
        const auto& block = *--after;
        if (number_of(address) - block.first <= block.second.bytes) {
            *stretch = {reinterpret_cast<char*>(block.first), block.second.bytes, block.second.name};
            return true;
        }
    }
    for (const std::shared_ptr<Block>& block : m.held) {
        const uintptr_t first = number_of(block->bytes);
        if (number_of(address) >= first && number_of(address) - first <= block->asked) {
            *stretch = {block->bytes, block->asked, say("device block #%llu", (unsigned long long)block->number)};
            return true;
        }
    }
    const Span span = locate(address, 1);
    if (!span.block) return false;
    m.held.push_back(span.block);
    // What is fresh is NaN, as from GmAlloc; pages of a large block are zero until something writes them.
    const size_t asked = span.block->asked;
    if (!span.block->written.exchange(true) && leading_zeros(span.block->bytes, asked) == asked / 4 * 4)
        std::memset(span.block->bytes, 0xFF, asked);
    *stretch = {span.block->bytes, span.block->asked,
                say("device block #%llu", (unsigned long long)span.block->number)};
    return true;
}

Region* add_region(char* start, size_t bytes, const std::string& name) {
    Memory& m = memory();
    auto& made = m.regions[number_of(start)];
    if (!made) made = std::make_unique<Region>();
    made->number = ++m.opened, made->start = start, made->bytes = bytes, made->name = name;
    made->zeros = leading_zeros(start, bytes);
    return made.get();
}

// The region of an address; a block that no argument opened is one region.
Region* region_of(const void* address) {
    if (!address) return nullptr;
    Memory& m = memory();
    auto after = m.regions.upper_bound(number_of(address));
    if (after != m.regions.begin()) {
        Region* region = (--after)->second.get();
        if (number_of(address) - number_of(region->start) < region->bytes) return region;
    }
    Stretch stretch;
    if (!find_block(address, &stretch)) return nullptr;
    // An address right behind a region belongs to it, unless another begins there.
    for (auto& entry : m.regions) {
        Region* region = entry.second.get();
        if (number_of(address) == number_of(region->start) + region->bytes) return region;
    }
    auto next = m.regions.upper_bound(number_of(stretch.start));
    size_t bytes = stretch.bytes;
    if (next != m.regions.end()) bytes = std::min<size_t>(bytes, next->first - number_of(stretch.start));
    Region* made = add_region(stretch.start, bytes, stretch.name);
    trace_region(made->number, made->name, made->bytes, made->zeros);
    return made;
}

std::vector<std::string> split_texts(const char* texts) {
    std::vector<std::string> parts(1);
    int depth = 0;
    for (const char* at = texts; *at; ++at) {
        depth += (*at == '(' || *at == '[' || *at == '{' || *at == '<') -
                 (*at == ')' || *at == ']' || *at == '}' || *at == '>');
        if (*at == ',' && depth <= 0) parts.emplace_back();
        else if (*at != ' ' || !parts.back().empty()) parts.back() += *at;
    }
    return parts;
}

bool guard_is_whole(uintptr_t start, const GmBlock& block) {
    const unsigned char* guard = reinterpret_cast<const unsigned char*>(start) + block.bytes;
    return std::all_of(guard, guard + kGuard, [](unsigned char byte) { return byte == kGuardByte; });
}

// Told once: the guard is whole again afterwards. Named by the argument whose memory it ends, while a launch knows it.
void check_guard(uintptr_t start, const GmBlock& block, cgt_where where) {
    if (!block.ours || guard_is_whole(start, block)) return;
    std::string name = block.name;
    for (const auto& entry : memory().regions)
        if (entry.first + entry.second->bytes == start + block.bytes) name = entry.second->name;
    found_on_core("gm.range", say("bytes past the end of %s (%zu bytes) were overwritten", name.c_str(), block.bytes),
                  kNoCore, where);
    std::memset(reinterpret_cast<unsigned char*>(start) + block.bytes, kGuardByte, kGuard);
}

void make_ledger(Region* region) {
    region->ledger.make(static_cast<int64_t>(region->bytes + 1) / 2, static_cast<int64_t>(region->zeros / 2));
}

void mark_writer(Region* region) {
    const size_t block = static_cast<size_t>(core_number());
    if (region->writers.size() <= block) region->writers.resize(block + 1);
    region->writers[block] = true;
}

struct Cells {
    int64_t first, last;
};
Cells cells_of(const Place& place, int64_t start, int64_t count) {
    make_ledger(place.region);
    const int64_t first = (place.element + start) * place.bytes, last = first + count * place.bytes;
    return {first / 2, (last + 1) / 2};
}

// Whether a tile, or a copy of a core's own, was stored to some of these elements.
bool stored_before(const Place& place, Whole start, Whole count) {
    const Whole first = Whole(place.element) + start;
    if (!place.region || first < 0 || count < 0 || first + count > place.elements()) return false;
    const Cells cells = cells_of(place, start.clamped(), count.clamped());
    const Ledger& ledger = place.region->ledger;
    for (int64_t cell = cells.first; cell < cells.last; cell = ledger.end_of(cell, cells.last))
        if (ledger.at(cell).last >= 0) return true;
    return false;
}

}  // namespace

Place place_of(const cgt_view& view) {
    Hold hold(memory().guard);
    Place place;
    place.bytes = view.element_bytes > 0 ? view.element_bytes : 1;
    place.region = region_of(view.base);
    place.is_null = view.base == nullptr;
    if (!place.region) return place;
    place.given_from = (static_cast<char*>(view.base) - place.region->start) / place.bytes;
    place.given = view.size > INT64_MAX ? INT64_MAX : static_cast<int64_t>(view.size);
    place.element = (Whole(place.given_from) + view.offset).clamped();
    return place;
}

bool is_workspace(const Region* region) {
    if (!region) return false;
    std::string name = region->name;
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char letter) { return std::tolower(letter); });
    return name.find("workspace") != std::string::npos;
}

void judge_as(Region* region, const InputRecord& record, cgt_where where) {
    if (!region || region->judged.what != Judged::Nothing || is_workspace(region)) return;
    region->judged.what = Judged::GradInput, region->judged.where = where, region->judged.input = record;
}

void judge_as(Region* region, const FilterRecord& record, cgt_where where) {
    if (!region || region->judged.what != Judged::Nothing || is_workspace(region)) return;
    region->judged.what = Judged::GradWeight, region->judged.where = where, region->judged.filter = record;
}

void name_by_use(const Place& place, const char* name) {
    if (!place.region || place.region->named_by_use || is_workspace(place.region)) return;
    place.region->name = name;
    place.region->named_by_use = true;
}

bool inside(const Place& place, Whole start, Whole count, const std::string& doing, cgt_where where) {
    if (place.is_null) {
        found("launch.arguments", doing + ": the address is a null pointer", where);
        return false;
    }
    if (!place.region) {
        found("gm.unknown", doing + ": the address is not in memory from GmAlloc or aclrtMalloc", where);
        return false;
    }
    const Whole first = Whole(place.element) + start, last = first + count, size = place.elements();
    if (first < 0 || last > size) {
        ++place.region->out_of_range;
        const std::string overrun = first < 0 ? text(Whole(0) - first) + " elements before its start"
                                              : text(last - size) + " elements past its end";
        found("gm.range",
              doing + ": elements " + text(first) + "..." + text(last - 1) + " of " + place.region->name + " (size " +
                  text(size) + ") lie " + overrun,
              where);
        return false;
    }
    if (place.given > 0 && last > Whole(place.given_from) + place.given) {
        found("gm.size",
              doing + ": elements " + text(first - place.given_from) + "..." + text(last - 1 - place.given_from) +
                  " lie beyond the " + text(place.given) + " that SetGlobalBuffer was given of " + place.region->name,
              where);
        return false;
    }
    return true;
}

// happened_before of neighbouring cells, whose answer is mostly that of the cell before.
class Before {
public:
    bool operator()(int thread, uint16_t clock) {
        if (thread != thread_ || clock != clock_)
            thread_ = thread, clock_ = clock, answer_ = happened_before(thread, clock);
        return answer_;
    }

private:
    int thread_ = -1;
    uint16_t clock_ = 0;
    bool answer_ = false;
};

void mark_store(const Place& place, int64_t start, int64_t count, bool add) {
    const Cells cells = cells_of(place, start, count);
    Before plain_before, fill_before;
    const auto core = static_cast<int16_t>(thread_number());
    const uint16_t clock = core_clock();
    const auto zeroed = static_cast<int64_t>(place.region->zeros / 2);
    mark_writer(place.region);
    place.region->ledger.change(cells.first, cells.last, [&](Cell& cell, int64_t number) {
        if (add) {
            if (cell.filler < 0 && cell.stores == 0 && number >= zeroed) cell.flags |= kAddedBlind;
            if (cell.plain >= 0 && cell.plain != core && !plain_before(cell.plain, cell.plain_clock))
                cell.flags |= kTwoCores;
            cell.adds = static_cast<uint8_t>(cell.adds + (cell.adds < 255));
        } else {
            cell.plain = core, cell.plain_clock = clock;
            if (cell.last >= 0) cell.flags |= kOverwritten | (cell.last != core ? kTwoCores : 0);
            cell.stores = static_cast<uint8_t>(cell.stores + (cell.stores < 255));
        }
        if (cell.filler >= 0 && cell.filler != core && !fill_before(cell.filler, cell.fill_clock))
            cell.flags |= kRacing;
        cell.last = core, cell.last_clock = clock;
    });
}

void mark_fill(const Place& place, int64_t start, int64_t count) {
    const Cells cells = cells_of(place, start, count);
    const auto core = static_cast<int16_t>(thread_number());
    const uint16_t clock = core_clock();
    place.region->ledger.change(cells.first, cells.last, [&](Cell& cell, int64_t) {
        if (cell.last >= 0) {
            cell.flags |= kZeroedLate;
            if (cell.last != core && !happened_before(cell.last, cell.last_clock)) cell.flags |= kRacing;
        }
        cell.filler = core, cell.fill_clock = clock;
    });
}

void open_regions(const char* texts, const void* const* arguments, int count) {
    Memory& m = memory();
    Hold hold(m.guard);
    close_regions();
    const std::vector<std::string> names = split_texts(texts);
    for (int at = 0; at < count; ++at) {
        Stretch stretch;
        if (!arguments[at] || !find_block(arguments[at], &stretch)) continue;
        const auto* address = static_cast<const char*>(cgt_readable(arguments[at]));
        const size_t before = static_cast<size_t>(address - stretch.start);
        const size_t named = static_cast<size_t>(at) + 1;  // the first text is the number of blocks
        if (m.regions.count(number_of(address)) == 0)
            add_region(const_cast<char*>(address), stretch.bytes - before,
                       named < names.size() ? names[named] : stretch.name);
    }
    for (auto entry = m.regions.begin(); entry != m.regions.end(); ++entry) {  // each ends where the next begins
        const auto next = std::next(entry);
        if (next != m.regions.end())
            entry->second->bytes = std::min<size_t>(entry->second->bytes, next->first - entry->first);
        entry->second->zeros = std::min(entry->second->zeros, entry->second->bytes);
        trace_region(entry->second->number, entry->second->name, entry->second->bytes, entry->second->zeros);
    }
}

void close_regions() {
    Memory& m = memory();
    Hold hold(m.guard);
    m.regions.clear();
    m.held.clear();
    m.opened = 0;
}

// ---- coverage

namespace {

// The elements of a result, told in stretches: neighbours of one history, of one window plane, zeroed or not. There are
// a few of them to a tile, so every rule can look at all.
struct Tally {
    Tally(const Region& region, int64_t elements, int64_t per, int64_t plane)
        : region(region), elements(elements), per(per) {
        const int64_t zeroed = static_cast<int64_t>(region.zeros) / (2 * per);
        for (int64_t element = 0, end; element < elements; element = end) {
            end = std::max(element + 1, region.ledger.end_of(element * per, elements * per) / per);
            const bool goes_on = element > 0 && element % plane != 0 && element != zeroed &&
                                 cell(element) == cell(stretches.back().first);
            if (goes_on) stretches.back().second = end;
            else stretches.emplace_back(element, end);
        }
    }
    const Region& region;
    int64_t elements, per;                               // cells of one element
    std::vector<std::pair<int64_t, int64_t>> stretches;  // first element, and the one behind the last
    bool is(int64_t element, uint8_t flag) const { return (cell(element).flags & flag) != 0; }
    const Cell& cell(int64_t element) const { return region.ledger.at(element * per); }
    bool untouched(int64_t element) const { return cell(element).stores == 0 && cell(element).adds == 0; }
    bool filled(int64_t element) const { return cell(element).filler >= 0; }
    bool zeroed(int64_t element) const {
        return filled(element) || (element + 1) * per * 2 <= static_cast<int64_t>(region.zeros);
    }
    template <class Holds> int64_t count(Holds holds) const {
        int64_t total = 0;
        for (const auto& stretch : stretches)
            if (holds(stretch.first)) total += stretch.second - stretch.first;
        return total;
    }
    template <class Holds> void find(const char* rule, const char* words, Holds holds, int64_t core_of_none = 0) const {
        int64_t first = -1;
        const int64_t total = count([&](int64_t element) {
            const bool it_does = holds(element);
            if (it_does && first < 0) first = element;
            return it_does;
        });
        if (!total) return;
        const int64_t core = cell(first).last >= 0 ? block_of_thread(cell(first).last) : core_of_none;
        found_on_core(rule,
                      say("%s; %lld elements, first %s, flat %lld", words, (long long)total, name(first).c_str(),
                          (long long)first),
                      core, region.judged.where);
    }
    std::string name(int64_t flat) const {
        auto part = [&flat](int64_t size) {
            const int64_t index = flat % size;
            flat /= size;
            return (long long)index;
        };
        if (region.judged.what == Judged::GradInput) {
            const InputRecord& t = region.judged.input;
            const long long lane = part(t.c0), w = part(t.wi), h = part(t.hi), c1 = part(t.cin1), d = part(t.di);
            return say("(n %lld, c %lld, d %lld, h %lld, w %lld)", (long long)flat, c1 * t.c0 + lane, d, h, w);
        }
        const FilterRecord& t = region.judged.filter;
        const long long lane = part(16), n0 = part(16), n1 = part((t.cout + 15LL) / 16), kw = part(t.wk),
                        kh = part(t.hk), c1 = part(t.cin1G);
        return say("(cout %lld, cin %lld, kd %lld, kh %lld, kw %lld)", n1 * 16 + n0, c1 * 16 + lane, (long long)flat,
                   kh, kw);
    }
    int64_t cores_used() const { return std::count(region.writers.begin(), region.writers.end(), true); }
};

void order_of_zeroing(const Tally& all, const std::string& result) {
    const std::string blind = "elements added to without having been zeroed: Fill " + result +
                              ", then let all cores meet (SyncAll), then add";
    all.find("coverage.add_unzeroed", blind.c_str(), [&](int64_t e) { return all.is(e, kAddedBlind); });
    all.find("coverage.zeroed_late",
             "elements zeroed after tiles were stored to them: zero first, then let all cores meet (SyncAll)",
             [&](int64_t e) { return all.is(e, kZeroedLate) && !all.is(e, kRacing); });
    all.find("coverage.race",
             "elements that one core zeroes while another stores them: all cores must meet (SyncAll) in between",
             [&](int64_t e) { return all.is(e, kRacing); });
}

std::string judge_grad_input(const Tally& all) {
    const InputRecord& t = all.region.judged.input;
    // Zeros of before the launch stand for a Fill only where the record leaves elements out.
    const bool leaves_out = t.initOutputFlag == 1;
    auto never = [&](int64_t e) { return all.untouched(e) && !(leaves_out ? all.zeroed(e) : all.filled(e)); };
    auto twice = [&](int64_t e) { return all.cell(e).stores > 1 || (all.cell(e).stores > 0 && all.cell(e).adds > 0); };
    if (t.initOutputFlag == 1)
        all.find(
            "coverage.zeroing",
            "initOutputFlag is 1 and gradInput was not zeroed: Fill it, then let all cores meet (SyncAll), then store",
            never);
    else all.find("coverage.never_written", "elements that no tile writes", never);
    all.find("coverage.twice", "elements that one core stores more than once",
             [&](int64_t e) { return twice(e) && !all.is(e, kTwoCores); });
    all.find("coverage.two_cores", "elements that two cores store; use enAtomic when K is split",
             [&](int64_t e) { return all.is(e, kTwoCores); });
    order_of_zeroing(all, "gradInput");
    auto number = [&](auto holds) { return (long long)all.count(holds); };
    return say(
        "%lld elements: %lld written once, %lld only zeroed, %lld never written, %lld written twice, %lld by two "
        "cores, "
        "%lld out of range; %lld cores",
        (long long)all.elements, number([&](int64_t e) { return all.cell(e).stores == 1 && all.cell(e).adds == 0; }),
        number([&](int64_t e) { return all.untouched(e) && !never(e); }), number(never), number(twice),
        number([&](int64_t e) { return all.is(e, kTwoCores); }), (long long)all.region.out_of_range,
        (long long)all.cores_used());
}

// Whether a window plane ever shows a gradOutput plane a plane of the input.
bool meets_input(const FilterRecord& t, int64_t kd) {
    const Whole reach = Whole(t.padFront) - Whole(kd) * t.dilationD;
    return most(0, ceil_div(reach, t.strideD)) < least(t.dout, (Whole(t.di) - 1 + reach) / t.strideD + 1);
}

// Elements of a window plane.
int64_t window_plane(const FilterRecord& t) { return std::max<int64_t>(1, (weight_size(t) / t.dk).clamped()); }

std::string judge_grad_weight(const Tally& all) {
    const FilterRecord& t = all.region.judged.filter;
    const int64_t plane = window_plane(t);
    std::vector<bool> meets(
        static_cast<size_t>(all.elements / plane + 1));  // planes that memory holds: dk may claim more
    for (size_t kd = 0; kd < meets.size(); ++kd) meets[kd] = meets_input(t, static_cast<int64_t>(kd));
    auto due = [&](int64_t e) { return static_cast<bool>(meets[static_cast<size_t>(e / plane)]); };
    auto never = [&](int64_t e) { return all.untouched(e) && due(e); };
    auto unzeroed = [&](int64_t e) { return all.untouched(e) && !due(e) && !all.zeroed(e); };
    all.find("coverage.never_written", "elements that no tile is added to", never);
    all.find("coverage.zeroing", "window planes that never meet the input have no tiles: zero them", unzeroed);
    order_of_zeroing(all, "gradWeight");
    all.find("coverage.overwritten", "elements stored (enAtomic 0) over the sums already there: add them (enAtomic 1)",
             [&](int64_t e) { return all.is(e, kOverwritten) && !all.is(e, kTwoCores); });
    all.find("coverage.two_cores",
             "elements that one core stores (enAtomic 0) and another stores or adds to: only atomic adds may meet",
             [&](int64_t e) { return all.is(e, kTwoCores); });
    auto number = [&](auto holds) { return (long long)all.count(holds); };
    return say(
        "%lld elements: %lld summed, %lld only zeroed, %lld never written, %lld overwritten, %lld stored by two cores, "
        "%lld out of range; %lld cores",
        (long long)all.elements, number([&](int64_t e) { return !all.untouched(e); }),
        number([&](int64_t e) { return all.untouched(e) && all.zeroed(e); }),
        number([&](int64_t e) { return never(e) || unzeroed(e); }),
        number([&](int64_t e) { return all.is(e, kOverwritten); }),
        number([&](int64_t e) { return all.is(e, kTwoCores); }), (long long)all.region.out_of_range,
        (long long)all.cores_used());
}

}  // namespace

std::string judge_regions(cgt_where launch) {
    Memory& m = memory();
    Hold hold(m.guard);
    for (const auto& block : m.blocks) check_guard(block.first, block.second, launch);
    std::string head;
    for (auto& entry : m.regions) {
        Region& region = *entry.second;
        if (region.judged.what == Judged::Nothing) continue;
        make_ledger(&region);
        const bool input = region.judged.what == Judged::GradInput;
        const int64_t bytes = input ? 2 : 4;
        const Whole size = input ? input_size(region.judged.input) : weight_size(region.judged.filter);
        const int64_t elements = least(size, Whole(region.bytes) / bytes).clamped();
        const int64_t plane = input ? elements : window_plane(region.judged.filter);
        const Tally all(region, elements, bytes / 2, plane);
        const std::string line = input ? judge_grad_input(all) : judge_grad_weight(all);
        head += (head.empty() ? "" : "\n") + line;
    }
    return head;
}

}  // namespace tile
}  // namespace convgrad

using namespace convgrad::tile;

extern "C" {

void* cgt_gm_alloc(size_t bytes) {
    if (bytes > SIZE_MAX / 4) return nullptr;
    const size_t room = (bytes + kAlignment - 1) / kAlignment * kAlignment + kGuard;
    auto* start = static_cast<unsigned char*>(std::aligned_alloc(kAlignment, room));
    if (!start) return nullptr;
    std::memset(start, 0xFF, bytes);  // NaN in half, bfloat16 and float
    std::memset(start + bytes, kGuardByte, room - bytes);
    Memory& m = memory();
    Hold hold(m.guard);
    m.freed.erase(number_of(start));
    m.blocks[number_of(start)] = GmBlock{bytes, true, say("memory %d", ++m.allocated)};
    return start;
}

void cgt_gm_free(void* address, cgt_where where) {
    if (!address) return;
    Memory& m = memory();
    Hold hold(m.guard);
    const auto at = m.blocks.find(number_of(address));
    if (at == m.blocks.end() || !at->second.ours) {
        const bool again = m.freed.count(number_of(address)) > 0;
        found("gm.free", again ? "GmFree: the block was freed before" : "GmFree: not the start of a block from GmAlloc",
              where);
        return;
    }
    check_guard(at->first, at->second, where);
    m.freed[at->first] = at->second.bytes;
    m.blocks.erase(at);
    std::free(address);
}

void cgt_register(void* address, size_t bytes, const char* name) {
    Hold hold(memory().guard);
    memory().blocks[number_of(address)] = GmBlock{bytes, false, name ? name : "registered memory"};
}

void cgt_unregister(void* address) {
    Hold hold(memory().guard);
    const auto at = memory().blocks.find(number_of(address));
    if (at != memory().blocks.end() && !at->second.ours) memory().blocks.erase(at);
}

void* cgt_readable(const void* address) {
    const convgrad::Span span = convgrad::locate(address, 1);
    return span.block ? span.bytes : const_cast<void*>(address);
}

int cgt_known(const void* address, cgt_where where) {
    Memory& m = memory();
    Hold hold(m.guard);
    Stretch stretch;
    if (!address || find_block(address, &stretch)) return CGT_OK;
    auto after = m.freed.upper_bound(number_of(address));
    if (after != m.freed.begin() && number_of(address) - (--after)->first < after->second) {
        found("gm.freed", "SetGlobalBuffer: the address is in a block that was freed", where);
        return CGT_REFUSED;
    }
    found("gm.unknown", "SetGlobalBuffer: the address is not in memory from GmAlloc or aclrtMalloc", where);
    return CGT_REFUSED;
}

int cgt_touch(const cgt_view* view, int64_t start, int64_t count, int doing, const char* call, cgt_where where) {
    const Place place = place_of(*view);
    if (doing == CGT_ZERO) doing = stored_before(place, start, count) ? CGT_STORE : CGT_FILL;
    if (doing != CGT_READ && tracing())
        trace_call(0, doing == CGT_FILL ? "Fill" : "store",
                   say("%d, %lld, %lld, %d, \"%s\"", place.region ? place.region->number : 0,
                       (long long)(Whole(place.element) + start).clamped(), (long long)count, place.bytes, call),
                   where);
    if (!inside(place, start, count, call, where)) return CGT_REFUSED;
    if (doing == CGT_STORE || doing == CGT_ADD) mark_store(place, start, count, doing == CGT_ADD);
    if (doing == CGT_FILL) mark_fill(place, start, count);
    return CGT_OK;
}

}  // extern "C"
