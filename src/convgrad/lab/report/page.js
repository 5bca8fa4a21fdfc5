"use strict";
(() => {
  const details = JSON.parse(document.getElementById("details").textContent);
  const constants = JSON.parse(document.getElementById("constants").textContent);
  const body = document.querySelector("#cases tbody");
  const rows = [...body.querySelectorAll("tr.case")];
  const SVG = "http://www.w3.org/2000/svg";

  const say = (text) => (constants.words || {})[text] || text;

  // On a phone a case is a card: the style sheet puts the table's own heads, in their language, before its numbers.
  document.querySelectorAll("#cases > thead th").forEach((head, i) => {
    body.style.setProperty(`--head${i + 1}`, JSON.stringify(`${head.textContent.trim()} `));
  });

  // Elements are made from text and attributes only: nothing of a case is ever read as HTML.
  const make = (name, attributes, ...children) => {
    const e = document.createElement(name);
    for (const [k, v] of Object.entries(attributes || {})) e.setAttribute(k, v);
    e.append(...children);
    return e;
  };
  const draw = (name, attributes, ...children) => {
    const e = document.createElementNS(SVG, name);
    for (const [k, v] of Object.entries(attributes || {})) e.setAttribute(k, v);
    e.append(...children);
    return e;
  };
  const said = (value) => {
    if (typeof value !== "number") return String(value);
    if (value === 0 || Number.isInteger(value) && Math.abs(value) < 1e6) return String(value);
    return Math.abs(value) >= 0.001 && Math.abs(value) < 1e5 ? String(+value.toPrecision(4)) : value.toExponential(2);
  };

  const long = (value) => typeof value !== "number" || value === 0 ? String(value)
    : Math.abs(value) >= 0.001 && Math.abs(value) < 1e6 ? String(+value.toPrecision(8)) : value.toExponential(7);

  // ---- drawings of one result ----
  const histogram = (counts) => {
    const edges = constants.edges, n = edges.length, width = 300, height = 96, base = 76;
    const top = Math.max(...counts, 1), step = width / n;
    const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": say("histogram of ULP error") });
    for (let i = 0; i < n; i++) {
      const count = counts[i] || 0;
      const tall = count ? Math.max(2, (base - 6) * Math.log1p(count) / Math.log1p(top)) : 0;
      const kind = edges[i] >= 32 ? "bar far" : edges[i] >= 0.5 ? "bar over" : "bar";
      const next = i + 1 < n ? edges[i + 1] : "∞";
      if (count) svg.append(draw("rect", { class: kind, x: i * step + 1, y: base - tall, width: step - 2, height: tall, rx: 1.5 },
        draw("title", {}, document.createTextNode(`${edges[i]} – ${next} ULP: ${count}`))));
      if (i % 2 === 0 || edges[i] === 1) svg.append(draw("text", { x: i * step, y: 88, "text-anchor": i ? "middle" : "start" },
        document.createTextNode(edges[i])));
    }
    svg.append(draw("line", { x1: 0, x2: width, y1: base, y2: base, stroke: "var(--line)" }));
    return svg;
  };
  const cell = (x, y, w, h, level) => draw("rect", {
    x, y, width: w - 0.6, height: h - 0.6, rx: 1,
    fill: `color-mix(in oklab, var(--heat1) ${Math.round(parseInt(level, 16) / 15 * 100)}%, var(--heat0))`,
  });
  const errorMap = ([channels, plane]) => {
    const lines = plane.split("/"), width = 300, columns = lines[0].length;
    const flat = lines.length === 1 && columns === 1;
    const size = Math.min(width / columns, 14), strip = 14, gap = flat ? 0 : 14;
    const height = strip + gap + (flat ? 0 : size * lines.length);
    const svg = draw("svg", { viewBox: `0 0 ${width} ${height + 1}`, role: "img", "aria-label": say("error map") });
    [...channels].forEach((level, i) => svg.append(cell(i * width / channels.length, 0, width / channels.length, strip, level)));
    if (!flat) {
      svg.append(draw("text", { x: 0, y: strip + 10 }, document.createTextNode(say("↑ channels, ↓ plane (last two axes)"))));
      const wide = width / columns;
      lines.forEach((line, y) => [...line].forEach((level, x) => svg.append(cell(x * wide, strip + gap + y * size, wide, size, level))));
    }
    return svg;
  };
  const anatomy = (parts) => {
    const energy = parts.reduce((sum, v) => sum + v * v, 0) || 1;
    const stack = make("div", { class: "stack", role: "img", "aria-label": say("error anatomy") });
    const legend = make("div", { class: "legend" });
    parts.forEach((value, i) => {
      const name = constants.parts[i];
      const share = value * value / energy;
      if (value) stack.append(make("span", { class: `part${i}`, style: `flex:${Math.max(share, 0.001)}`, title: `${name}: ${said(value)}` }));
      legend.append(make("span", {}, make("i", { class: `part${i}` }), `${name} ${said(value)}`));
    });
    return [stack, legend];
  };
  const figure = (caption, ...content) => make("figure", {}, make("figcaption", {}, caption), ...content);

  // ---- one case ----
  const NAMES = { count: say("elements"), mere: "MERE", mare: "MARE", rmse: "RMSE", max_abs: say("max abs"), error_balance: say("balance"),
    cosine: say("cosine"), max_ulp: say("max ULP"), mean_ulp: say("mean ULP"), over_one_ulp: say("over 1 ULP"), inf_mismatches: say("inf mismatch"),
    nan_mismatches: say("NaN mismatch"), small_values: say("small values"), small_value_errors: say("small, off") };
  const result = (f) => {
    const box = make("section", { class: "result" });
    const precision = f.p || f.d;
    box.append(make("header", {}, make("h3", {}, f.n), make("small", {}, `${f.s || say("empty")} · ${f.d}` + (f.p ? ` · ${say("judged as")} ${f.p}` : ""))));
    const judged = make("div", { class: "judged" });
    for (const [name, passed, why] of f.j) {
      const word = passed === null ? "none" : passed ? "pass" : "fail";
      const limits = (constants.limits[name] || {})[precision] || "";
      judged.append(make("p", {}, make("span", { class: `badge ${word}` }, passed === null ? say("not judged") : passed ? say("pass") : say("fail")), ` ${name}${why ? ": " + why : ""}`,
        ...(passed === null ? [] : [make("small", {}, limits)])));
    }
    const list = make("dl", { class: "metrics" });
    constants.metrics.forEach((key, i) => {
      const found = f.k[i] || 0; // zeros at the end are left out
      if ((key.endsWith("mismatches") || key.startsWith("small")) && !found) return;
      const value = key === "over_one_ulp" ? said(found * 100) + " %" : said(found);
      list.append(make("div", key.endsWith("mismatches") ? { class: "bad" } : {}, make("dt", {}, NAMES[key]), make("dd", {}, value)));
    });
    box.append(judged, list);
    if (f.h.length) box.append(figure(say("elements by ULP error (logarithmic height)"), histogram(f.h)));
    if (f.e) box.append(figure(say("where the errors sit"), errorMap(f.e), make("div", { class: "legend" },
      make("span", {}, say("exact"), make("span", { class: "heat-key" }), say("1024 ULP of the rms")))));
    if (f.t) box.append(figure(say("where they come from (root mean square)"), ...anatomy(f.t)));
    if (f.w) {
      const worst = make("table", { class: "worst" });
      worst.append(make("tr", {}, ...[say("index"), say("result"), say("reference"), "ULP"].map((t) => make("th", {}, t))));
      for (const line of f.w) worst.append(make("tr", {}, ...line.map((v, i) => make("td", {}, i === 0 ? `[${v}]` : i === 3 ? said(v) : long(v)))));
      box.append(figure(say("furthest off"), make("div", { class: "scroll" }, worst)));
    }
    return box;
  };
  const detail = (row) => {
    const d = details[row.id.slice(1)];
    const td = make("td", { colspan: 9 });
    if (!d) { td.append(make("p", { class: "note" }, say("The details of this case did not fit this page."))); return td; }
    if (d.m || d.a) {
      const rule = d.r ? `${say("rule")} ${d.r}, ${say("status")} ${d.s}` : "";
      td.append(make("div", { class: `said ${row.dataset.o}` }, d.m || say("accepted"), ...(rule ? [make("small", {}, rule)] : []),
        ...(d.a || []).map((a) => make("small", {}, `${say("advice")}: ${a}`))));
    }
    const copy = make("button", { class: "copy", type: "button" }, say("copy"));
    const line = row.querySelector(".l").textContent;
    const again = d.x || `convgrad run '${line}' --values ${d.v} --seed ${d.z} --standard ${constants.standards}`;
    copy.addEventListener("click", () => copyText(again, copy));
    td.append(make("div", { class: "again" }, make("pre", {}, again), copy));
    td.append(make("div", { class: "results" }, ...(d.f || []).map(result)));
    return td;
  };
  const copyText = async (text, button) => {
    let done = false;
    try { await navigator.clipboard.writeText(text); done = true; } catch {
      const area = make("textarea", {});
      area.value = text;
      document.body.append(area);
      area.select();
      try { done = document.execCommand("copy"); } catch { done = false; }
      area.remove();
    }
    button.textContent = done ? say("copied") : say("select and copy");
    setTimeout(() => { button.textContent = say("copy"); }, 1600);
  };
  const toggle = (row, open) => {
    const next = row.nextElementSibling;
    const is = next && next.classList.contains("detail");
    if (open === undefined) open = !is;
    if (open && !is) row.after(make("tr", { class: "detail" }, detail(row)));
    if (!open && is) next.remove();
    row.classList.toggle("opened", open);
    row.querySelector(".open").setAttribute("aria-expanded", open);
  };
  body.addEventListener("click", (event) => {
    const row = event.target.closest("tr.case");
    if (row && !window.getSelection().toString()) toggle(row);
  });

  // ---- filters and sorting ----
  const filters = { text: document.getElementById("text"), product: document.getElementById("product"), dtype: document.getElementById("dtype") };
  const tiles = [...document.querySelectorAll("button.tile")];
  let only = "";
  const words = new Map(rows.map((r) => [r, r.textContent.toLowerCase()]));
  const apply = () => {
    const wanted = filters.text.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const fits = (!only || row.dataset.o === only) && (!filters.product.value || row.dataset.p === filters.product.value) &&
        (!filters.dtype.value || row.dataset.d === filters.dtype.value) && wanted.every((w) => words.get(row).includes(w));
      if (!fits && row.classList.contains("opened")) toggle(row, false);
      row.hidden = !fits;
      shown += fits;
    }
    document.getElementById("count").textContent = shown === rows.length ? `${shown} ${say("cases")}` : `${shown} / ${rows.length}`;
    document.getElementById("none").hidden = shown > 0;
    for (const tile of tiles) tile.setAttribute("aria-pressed", only === tile.dataset.only);
  };
  for (const tile of tiles) tile.addEventListener("click", () => { only = only === tile.dataset.only ? "" : tile.dataset.only; apply(); });
  for (const field of Object.values(filters)) field.addEventListener("input", apply);

  const heads = [...document.querySelectorAll("th[data-sort]")];
  const key = (row, name) => { // -1: a case without that number
    if (name === "n" || name === "l") return row.querySelector("." + name).textContent;
    return name === "o" ? row.dataset.o : parseFloat(row.dataset[name] ?? -1);
  };
  const sortBy = (head) => {
    const down = head.getAttribute("aria-sort") ? head.getAttribute("aria-sort") === "ascending" : head.classList.contains("num");
    for (const other of heads) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const name = head.dataset.sort, sign = down ? -1 : 1;
    rows.forEach((row) => toggle(row, false));
    const keyed = rows.map((row) => [key(row, name), row]);
    keyed.sort(([a], [b]) => sign * (typeof a === "number" ? a - b : a.localeCompare(b, undefined, { numeric: true })));
    body.append(...keyed.map(([, row]) => row));
  };
  for (const head of heads) head.addEventListener("click", () => sortBy(head));

  document.getElementById("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
  const follow = () => {
    const row = document.getElementById(location.hash.slice(1));
    if (!row || !row.classList.contains("case")) return;
    only = ""; filters.text.value = ""; filters.product.value = ""; filters.dtype.value = ""; apply();
    toggle(row, true);
    row.scrollIntoView({ block: "start" });
  };
  window.addEventListener("hashchange", follow);
  apply();
  follow();
})();
