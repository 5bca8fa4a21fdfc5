#include "pointers.h"

#include "say.h"

namespace convgrad {
namespace tile {
namespace {

// A pointer as (batch, plane, channel block, row); `rest` is what is left below a row.
struct Indices {
    Whole batch = 0, plane = 0, block = 0, row = 0, rest = 0;
};

Indices in_ndc1hwc0(Whole offset, Whole planes, Whole blocks, Whole rows, Whole row_size) {
    Indices at;
    at.rest = offset % row_size;
    Whole above = offset / row_size;
    at.row = above % rows, above = above / rows;
    at.block = above % blocks, above = above / blocks;
    at.plane = above % planes, at.batch = above / planes;
    return at;
}

Mistake past_the_end(const char* rule, const char* what, Whole first, Whole count, Whole most) {
    if (first + count <= most) return {};
    return {rule, "the single shape has " + text(count) + " " + what + " from " + text(first) + " on, the tensor " +
                      text(most) + ": start earlier, or give SetSingleShape what is left"};
}

Whole per_cin(const InputRecord& t) { return window_area(t) * weight_cout(t) * t.c0; }

Mistake start_row_mistake(const InputRecord& t, Whole first_row, Whole ho_start) {
    const Whole expected = first_row - t.backpropPadUp;
    if (ho_start == expected) return {};
    const std::string sum =
        "first row " + text(first_row) + " - backpropPadUp " + text(t.backpropPadUp) + " = " + text(expected);
    if (ho_start == first_row)
        return {"start.top_pad", "SetStartPosition hoStart " + text(ho_start) +
                                     " is the gradInput row itself: subtract the top pad: " + sum};
    const char* hint = t.strideH > 1 ? " (hoStart counts expanded rows: do not divide by the stride)" : "";
    return {"start.row", "SetStartPosition hoStart " + text(ho_start) + " does not belong to gradInput row " +
                             text(first_row) + ": it must be " + sum + hint};
}

}  // namespace

Mistake grad_output_mistake(const InputRecord& t, int64_t offset, const InputWalk& walk) {
    const Whole row_size = Whole(t.wo) * t.c0;
    const Indices at = in_ndc1hwc0(offset, t.dout, t.cout1, t.ho, row_size);
    const Whole expected = most(0, ceil_div(walk.ho_start, t.strideH));
    const std::string head = "SetGradOutput offset " + text(offset);
    if (at.plane != 0)
        return {"pointer.depth", head + " holds a depth term (plane " + text(at.plane) +
                                     "): leave the plane out, the object adds it from SetStartPosition's din"};
    if (at.rest != 0)
        return {"pointer.row_start",
                head + " stands " + text(at.rest) +
                    " elements inside a row: start at a row: a multiple of wo * c0 = " + text(row_size)};
    if (at.row != expected)
        return {"pointer.row", head + " stands at row " + text(at.row) + " of gradOutput: hoStart " +
                                   text(walk.ho_start) +
                                   " needs row max(0, ceil(hoStart / strideH)) = " + text(expected)};
    return past_the_end("pointer.cout_range", "cout blocks of gradOutput", at.block, walk.cout1, t.cout1);
}

Mistake weight_mistake(const InputRecord& t, int64_t offset, const InputWalk& walk) {
    const Whole blocks = Whole(offset) / per_cin(t), rest = Whole(offset) % per_cin(t), fractal = Whole(16) * t.c0;
    const std::string head = "SetWeight offset " + text(offset);
    if (blocks >= t.cin1)
        return {"pointer.depth", head + " holds a depth term (window plane " + text(blocks / t.cin1) +
                                     "): leave the window plane out, the object adds it"};
    if (rest % fractal != 0 || rest >= weight_cout(t) * t.c0)
        return {"pointer.weight_block",
                head + " stands " + text(rest) +
                    " elements inside a cin block: start at a cin block: a multiple of hk * wk * "
                    "N1 * 16 * c0 = " +
                    text(per_cin(t))};
    const Mistake cin =
        past_the_end("pointer.cin_range", "cin blocks of weight", blocks, Whole(walk.n_total) / t.c0, t.cin1);
    return !cin.none() ? cin
                       : past_the_end("pointer.cout_range", "cout blocks of weight", rest / fractal, walk.cout1,
                                      weight_cout(t) / 16);
}

Mistake grad_input_mistake(const InputRecord& t, int64_t offset, const InputWalk& walk) {
    const Whole row_size = Whole(t.wi) * t.c0;
    const Indices at = in_ndc1hwc0(offset, t.di, t.cin1, t.hi, row_size);
    const std::string head = "GetTensorC offset " + text(offset);
    if (at.plane != 0)
        return {"pointer.depth", head + " holds a depth term (plane " + text(at.plane) + ")" +
                                     (at.plane == walk.plane ? "; the plane is counted twice" : "") +
                                     ": leave the plane out, the object adds it from SetStartPosition's din"};
    if (at.rest != 0)
        return {"pointer.row_start",
                head + " stands " + text(at.rest) +
                    " elements inside a row: start at a row: a multiple of wi * c0 = " + text(row_size)};
    const Mistake row = start_row_mistake(t, at.row, walk.ho_start);
    if (!row.none()) return row;
    const Mistake plane =
        past_the_end("pointer.plane_range", "positions of gradInput", at.row * t.wi, walk.m_total, Whole(t.hi) * t.wi);
    return !plane.none() ? plane
                         : past_the_end("pointer.cin_range", "cin blocks of gradInput", at.block,
                                        Whole(walk.n_total) / t.c0, t.cin1);
}

std::vector<Mistake> pairing_mistakes(const InputRecord& t, int64_t grad_output, int64_t weight, int64_t grad_input) {
    const Indices a = in_ndc1hwc0(grad_output, t.dout, t.cout1, t.ho, Whole(t.wo) * t.c0);
    const Indices c = in_ndc1hwc0(grad_input, t.di, t.cin1, t.hi, Whole(t.wi) * t.c0);
    const Whole cin = Whole(weight) / per_cin(t), cout = Whole(weight) % per_cin(t) / (Whole(16) * t.c0);
    std::vector<Mistake> all;
    if (a.batch != c.batch)
        all.push_back({"pointer.batch", "gradOutput stands in batch " + text(a.batch) + ", gradInput in batch " +
                                            text(c.batch) + ": use the same batch in both offsets"});
    if (cin != c.block)
        all.push_back({"pointer.cin_block", "weight stands at cin block " + text(cin) + ", gradInput at " +
                                                text(c.block) + ": use the same first cin block in both offsets"});
    if (cout != a.block)
        all.push_back({"pointer.cout_block", "weight stands at cout block " + text(cout) + ", gradOutput at " +
                                                 text(a.block) + ": use the same first cout block in both offsets"});
    return all;
}

Mistake filter_mistake(const FilterRecord& t, int64_t grad_output, int64_t input, int64_t grad_weight, int64_t ho_start,
                       int64_t m_total, int64_t n_total) {
    const Whole c0 = t.channelSize, cin = window_area(t) * weight_cout(t) * c0;
    const Indices a = in_ndc1hwc0(grad_output, t.dout, cout_blocks(t), t.ho, Whole(t.wo) * c0);
    const Indices b = in_ndc1hwc0(input, t.di, t.cin1G, t.hi, Whole(t.wi) * c0);
    const Whole place = Whole(grad_weight) / cin, rest = Whole(grad_weight) % cin;
    const Whole kd = place / t.cin1G, cin_block = place % t.cin1G;
    const Whole row = most(Whole(ho_start) * t.strideH - t.padUp, 0);
    const Whole plane = a.plane * t.strideD - t.padFront + kd * t.dilationD;
    auto at_row = [](const char* call, int64_t offset, const Indices& at) {
        return std::string(call) + " offset " + text(offset) + " stands at row " + text(at.row) + ", element " +
               text(at.rest);
    };
    if (a.rest != 0 || a.row != ho_start)
        return {"pointer.row", at_row("SetGradOutput", grad_output, a) + ": start at row hoStart = " + text(ho_start)};
    if (b.rest == 0 && b.row == Whole(ho_start) * t.strideH && b.row != row)
        return {"pointer.top_pad", "SetInput offset " + text(input) +
                                       " stands at row hoStart * strideH = " + text(b.row) +
                                       ": subtract the top pad: max(hoStart * strideH - padUp, 0) = " + text(row)};
    if (b.rest != 0 || b.row != row)
        return {"pointer.row",
                at_row("SetInput", input, b) + ": start at row max(hoStart * strideH - padUp, 0) = " + text(row)};
    if (rest % c0 != 0 || rest / c0 >= weight_cout(t))
        return {"pointer.weight_block", "GetTensorC offset " + text(grad_weight) + " stands " + text(rest) +
                                            " elements inside a cin block: start at a cin block (multiples of " +
                                            text(cin) + ") and a channel (multiples of c0)"};
    if (a.batch != b.batch)
        return {"pointer.batch", "gradOutput stands in batch " + text(a.batch) + ", the input in batch " +
                                     text(b.batch) + ": use the same batch in both offsets"};
    if (b.plane == plane + t.padFront && b.plane != plane)
        return {"pointer.front_pad",
                "SetInput offset " + text(input) +
                    " stands in plane dout * strideD + kd * dilationD = " + text(b.plane) +
                    ": subtract the front pad: dout * strideD - padFront + kd * dilationD = " + text(plane)};
    if (b.plane != plane)
        return {"pointer.depth",
                "input plane " + text(b.plane) + ", gradOutput plane " + text(a.plane) + " and window plane " +
                    text(kd) +
                    " do not belong together: din = dout * strideD - padFront + kd * dilationD = " + text(plane)};
    if (b.block != cin_block)
        return {"pointer.cin_block", "input stands at cin block " + text(b.block) + ", gradWeight at " +
                                         text(cin_block) + ": use the same first cin block in both offsets"};
    if (rest / c0 != a.block * c0)
        return {"pointer.cout_block", "gradOutput stands at channel " + text(a.block * c0) + ", gradWeight at " +
                                          text(rest / c0) + ": use the same first channel in both offsets"};
    const Whole blocks = Whole(n_total) / (window_area(t) * c0);
    const Whole planes = blocks > t.cin1G ? least(Whole(t.dk) - kd, Whole(t.di) - b.plane) : Whole(1);
    const Mistake cins =
        past_the_end("pointer.cin_range", "cin blocks of the input", b.block, blocks, planes * t.cin1G);
    return !cins.none()
               ? cins
               : past_the_end("pointer.cout_range", "channels of gradWeight", a.block * c0, m_total, weight_cout(t));
}

}  // namespace tile
}  // namespace convgrad
