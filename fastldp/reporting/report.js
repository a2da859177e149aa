"use strict";
// What a report shows beyond its text: curves to explore and a table to sort and filter, from the data beside it.
// Whatever comes from a file is put on the page as text, never as markup.
(() => {
  const COLORS = 10, SHOWN_AT_FIRST = 12, BARS_UP_TO = 26;
  const DASHES = ["", "6 4", "2 4", "10 4 2 4"];
  const SVG = "http://www.w3.org/2000/svg";

  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (value !== null && value !== undefined) made.setAttribute(name, value);
    }
    made.append(...children);
    return made;
  }

  function drawing(tag, attributes = {}, text = null) {
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text !== null) made.textContent = text;
    return made;
  }

  const SUPER = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
  const raised = (number) => [...String(number)].map((sign) => SUPER[sign] ?? "").join("");

  function shown(value, digits = 4) {
    if (value === null || value === undefined) return "–";
    if (typeof value !== "number") return String(value);
    const size = Math.abs(value);
    if (Number.isInteger(value) && size < 1e7) return value.toLocaleString("en-US");
    if (size >= 1e5 || (size > 0 && size < 1e-3)) {
      const [front, back] = value.toExponential(digits - 1).split("e");
      const short = String(Number(front));
      return `${short === "1" ? "" : short === "-1" ? "−" : short.replace("-", "−") + "×"}10${raised(Number(back))}`;
    }
    return String(Number(value.toPrecision(digits))).replace("-", "−");
  }

  // The axes: where a value lies between 0 and 1, and which values are labelled.
  function axis(values, log) {
    const usable = values.filter((v) => Number.isFinite(v) && (!log || v > 0));
    if (!usable.length) return null;
    let low = usable.reduce((a, b) => Math.min(a, b)), high = usable.reduce((a, b) => Math.max(a, b));
    if (log) {
      if (low === high) [low, high] = [low / 2, Math.min(high * 2, Number.MAX_VALUE)];
      // By logarithms: the ratio of numbers, and what lies beyond them, may be none.
      const wide = Math.log(high) - Math.log(low), room = Math.exp(wide * 0.04);
      [low, high] = [Math.max(low / room, Number.MIN_VALUE), Math.min(high * room, Number.MAX_VALUE)];
      const whole = Math.log(high) - Math.log(low);
      return { low, high, place: (v) => (Math.log(v) - Math.log(low)) / whole, ticks: logTicks(low, high) };
    }
    if (low === high) [low, high] = [low - (Math.abs(low) || 1) / 2, high + (Math.abs(high) || 1) / 2];
    const room = (high - low) * 0.04;
    [low, high] = [low - room, high + room];
    return { low, high, place: (v) => (v - low) / (high - low), ticks: evenTicks(low, high) };
  }

  function evenTicks(low, high) {
    const rough = (high - low) / 6, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough) * power;
    const ticks = [];
    for (let k = Math.ceil(low / step); k * step <= high; k += 1) ticks.push(Number((k * step).toPrecision(12)));
    return ticks;
  }

  function logTicks(low, high) {
    const decades = Math.log10(high) - Math.log10(low);
    const factors = decades > 4 ? [1] : decades > 2 ? [1, 3] : decades > 0.7 ? [1, 2, 5] : null;
    if (!factors) return evenTicks(low, high).filter((v) => v > 0);
    const every = decades > 10 ? Math.ceil(decades / 8) : 1, ticks = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1) {
      if (power % every) continue;
      for (const factor of factors) {
        const tick = Number(`${factor}e${power}`);
        if (tick >= low && tick <= high) ticks.push(tick);
      }
    }
    return ticks;
  }

  // Curves with error bars, a legend whose keys are buttons, and values under the pointer or the arrow keys.
  // Series: {name, x, y, error, runs}; a place on the x axis is a number, or a word where not all are numbers.
  class Chart {
    constructor(host) {
      this.off = new Set();
      this.known = new Set();
      this.plot = element("div", { class: "plot" });
      this.legend = element("ul", { class: "legend", "aria-label": "Curves: press one to hide or show it" });
      this.readout = element("p", { class: "readout", "aria-live": "polite" });
      this.tip = element("div", { class: "tip", hidden: "" });
      host.append(element("div", { class: "figure" }, this.plot, this.legend, this.readout));
      new ResizeObserver(() => this.width !== this.plot.clientWidth && this.draw()).observe(this.plot);
    }

    show(picture) {
      this.picture = picture;
      // Of very many curves the first are shown until others are asked for.
      picture.series.forEach((one, k) => {
        if (!this.known.has(one.name) && (k >= SHOWN_AT_FIRST || one.off)) this.off.add(one.name);
        this.known.add(one.name);
      });
      this.draw();
      this.keys();
    }

    color(k) {
      return `--color: var(--s${k % COLORS})`;
    }

    keys() {
      const focused = [...this.legend.querySelectorAll("button")].indexOf(document.activeElement);
      const { series } = this.picture;
      const all = (hide) => () => {
        for (const one of series) this.off[hide ? "add" : "delete"](one.name);
        this.draw();
        this.keys();
      };
      const rows = series.map((one, k) => {
        const line = drawing("svg", { viewBox: "0 0 30 12", "aria-hidden": "true" });
        line.append(
          drawing("line", { x1: 1, x2: 29, y1: 6, y2: 6, "stroke-dasharray": DASHES[Math.floor(k / COLORS) % DASHES.length] }),
          drawing("circle", { cx: 15, cy: 6, r: 3 }),
        );
        const pick = (on) => () => {
          this.plot.classList.toggle("picking", on && !this.off.has(one.name));
          this.plot.querySelectorAll(".series").forEach((g) => g.classList.toggle("picked", on && g.dataset.name === one.name));
        };
        const toggle = () => {
          this.off[this.off.has(one.name) ? "delete" : "add"](one.name);
          this.draw();
          this.keys();
        };
        const key = element("button", { type: "button", class: "key", style: this.color(k), "aria-pressed": String(!this.off.has(one.name)),
          onclick: toggle, onmouseenter: pick(true), onmouseleave: pick(false), onfocus: pick(true), onblur: pick(false) },
        line, element("span", {}, one.name));
        return element("li", {}, key);
      });
      const several = series.length > 2
        ? [element("li", { class: "all" }, element("button", { type: "button", class: "button", onclick: all(false) }, "Show all"),
          element("button", { type: "button", class: "button", onclick: all(true) }, "Hide all"))] : [];
      this.legend.replaceChildren(...several, ...rows);
      this.plot.classList.remove("picking");
      if (focused >= 0) this.legend.querySelectorAll("button")[focused]?.focus();
    }

    draw() {
      if (!this.picture) return;
      const { series, x, y, logX, logY, title } = this.picture;
      this.width = this.plot.clientWidth || 700;
      const width = Math.max(260, this.width - 10), height = Math.round(Math.min(460, Math.max(300, width * 0.6)));
      const box = { left: 74, right: width - 14, top: 12, bottom: height - 46 };
      const lit = series.map((one, k) => ({ ...one, k })).filter((one) => !this.off.has(one.name));
      const words = series.some((one) => one.x.some((v) => typeof v !== "number"));
      const places = words ? [...new Set(series.flatMap((one) => one.x))] : null;
      const at = words ? (v) => places.indexOf(v) : (v) => v;
      const byX = words
        ? { place: (v) => (v + 0.5) / places.length, ticks: places.map((_, k) => k) } : axis(lit.flatMap((one) => one.x), logX);
      const ends = (one, sign) => one.y.map((v, j) => (v === null ? null : v + sign * (one.error[j] ?? 0)));
      // A bar that reaches down to zero must not stretch a logarithmic axis.
      const lows = (one) => (logY ? ends(one, -1).map((v, j) => (v > one.y[j] / 5 ? v : one.y[j])) : ends(one, -1));
      const values = lit.flatMap((one) => [...one.y, ...ends(one, 1), ...lows(one)]).filter((v) => v !== null);
      const byY = axis(values, logY);
      const svg = drawing("svg", { viewBox: `0 0 ${width} ${height}`, role: "group", tabindex: "0",
        "aria-label": `${title}. ${lit.length} of ${series.length} curves. Arrow keys go from point to point.` });
      this.points = [];
      if (byX && byY) this.fill(svg, box, byX, byY, lit, at, places);
      else {
        const said = lit.length ? "nothing to draw on these axes" : "no curve is shown: press one in the legend";
        svg.append(drawing("text", { x: (box.left + box.right) / 2, y: height / 2, "text-anchor": "middle", class: "name" }, said));
      }
      svg.append(
        drawing("text", { x: (box.left + box.right) / 2, y: height - 6, "text-anchor": "middle", class: "name" }, x),
        drawing("text", { x: 0, y: 0, transform: `translate(15 ${(box.top + box.bottom) / 2}) rotate(-90)`, "text-anchor": "middle", class: "name" }, y),
      );
      this.mark = drawing("circle", { class: "mark", r: 7, visibility: "hidden" });
      svg.append(this.mark);
      svg.addEventListener("pointermove", (event) => this.hover(event, svg, width));
      svg.addEventListener("pointerleave", () => this.tell(null));
      svg.addEventListener("keydown", (event) => this.step(event));
      svg.addEventListener("blur", () => this.tell(null));
      const had = this.plot.contains(document.activeElement);
      this.plot.replaceChildren(svg, this.tip);
      this.current = null;
      this.tip.hidden = true;
      const lost = lit.reduce((sum, one) => sum + one.y.filter((v, j) => v !== null && ((logY && v <= 0) || (logX && !words && one.x[j] <= 0))).length, 0);
      this.still = lost ? `${lost} points are not positive, and so not on logarithmic axes.` : "";
      this.readout.textContent = this.still;
      if (had) svg.focus();
    }

    fill(svg, box, byX, byY, lit, at, places) {
      const { logX, logY, bars } = this.picture;
      const X = (v) => box.left + byX.place(at(v)) * (box.right - box.left);
      const Y = (v) => box.bottom - byY.place(v) * (box.bottom - box.top);
      const floor = (v) => Math.min(box.bottom, Math.max(box.top, logY && v <= 0 ? box.bottom : Y(v)));
      let last = -Infinity;
      for (const tick of byX.ticks) {
        const px = places ? X(places[tick]) : X(tick), name = shown(places ? places[tick] : tick, 3);
        svg.append(drawing("line", { class: "grid", x1: px, x2: px, y1: box.top, y2: box.bottom }));
        if (px - last > 7 * name.length + 10) {
          const cut = places ? Math.max(5, Math.floor((box.right - box.left) / places.length / 7)) : 99;
          svg.append(drawing("text", { x: px, y: box.bottom + 18, "text-anchor": "middle" }, name.length > cut ? `${name.slice(0, cut - 1)}…` : name));
          last = px;
        }
      }
      for (const tick of byY.ticks) {
        const py = Y(tick);
        svg.append(drawing("line", { class: "grid", x1: box.left, x2: box.right, y1: py, y2: py }));
        svg.append(drawing("text", { x: box.left - 8, y: py + 4, "text-anchor": "end" }, shown(tick, 3)));
      }
      svg.append(drawing("path", { class: "axis", fill: "none", d: `M${box.left} ${box.top}V${box.bottom}H${box.right}` }));
      for (const one of lit) {
        const group = drawing("g", { class: "series", style: this.color(one.k) });
        group.dataset.name = one.name;
        const points = one.x.map((v, j) => ({ one, v, y: one.y[j], error: one.error[j], runs: one.runs?.[j] }))
          .filter((p) => p.y !== null && Number.isFinite(p.y) && !(logY && p.y <= 0) && !(logX && !places && p.v <= 0));
        for (const p of points) [p.px, p.py] = [X(p.v), Y(p.y)];
        const told = bars && points.some((p) => p.error);
        if (told && points.length <= BARS_UP_TO) {
          const marks = points.filter((p) => p.error).map((p) => {
            const [top, bottom] = [floor(p.y + p.error), floor(p.y - p.error)].map((v) => v.toFixed(1));
            return `M${(p.px - 3).toFixed(1)} ${top}h6m-3 0V${bottom}m-3 0h6`;
          });
          group.append(drawing("path", { class: "bars", d: marks.join("") }));
        } else if (told) {
          const edge = (sign, list) => list.map((p) => `${p.px.toFixed(1)} ${floor(p.y + sign * (p.error ?? 0)).toFixed(1)}`);
          group.append(drawing("path", { class: "band", d: `M${[...edge(1, points), ...edge(-1, [...points].reverse())].join("L")}Z` }));
        }
        group.append(drawing("path", { class: "curve", d: points.length ? `M${points.map((p) => `${p.px.toFixed(1)} ${p.py.toFixed(1)}`).join("L")}` : "",
          "stroke-dasharray": DASHES[Math.floor(one.k / COLORS) % DASHES.length] }));
        if (points.length <= BARS_UP_TO) for (const p of points) group.append(drawing("circle", { cx: p.px.toFixed(1), cy: p.py.toFixed(1), r: 3.2 }));
        svg.append(group);
        this.points.push(points);
      }
    }

    hover(event, svg, width) {
      const frame = svg.getBoundingClientRect(), scale = width / frame.width;
      const [mx, my] = [(event.clientX - frame.left) * scale, (event.clientY - frame.top) * scale];
      let best = null, least = 45 ** 2;
      for (const p of this.points.flat()) {
        const far = (p.px - mx) ** 2 + (p.py - my) ** 2;
        if (far < least) [best, least] = [p, far];
      }
      this.tell(best);
    }

    step(event) {
      const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
      const lines = this.points.filter((points) => points.length);
      if (!(event.key in moves) || !lines.length) return;
      event.preventDefault();
      const row = lines.findIndex((points) => points.includes(this.current));
      if (row < 0) return void this.tell(lines[0][0]);
      const [down, along] = moves[event.key];
      const next = lines[(row + down + lines.length) % lines.length];
      const place = lines[row].indexOf(this.current) + along;
      this.tell(next[Math.min(next.length - 1, Math.max(0, place))]);
    }

    tell(point) {
      this.current = point;
      this.mark.setAttribute("visibility", point ? "visible" : "hidden");
      this.tip.hidden = !point;
      if (!point) return void (this.readout.textContent = this.still);
      const { x, y, errorName } = this.picture;
      const value = `${shown(point.y)}${point.error ? ` ± ${shown(point.error, 2)}${errorName ? ` (${errorName})` : ""}` : ""}`;
      const runs = point.runs ? `, ${point.runs} runs` : "";
      this.mark.setAttribute("cx", point.px);
      this.mark.setAttribute("cy", point.py);
      this.tip.replaceChildren(element("strong", {}, point.one.name), `${x} ${shown(point.v)}: ${value}${runs}`);
      const room = this.plot.clientWidth, wide = Math.min(304, this.tip.offsetWidth || 200);
      this.tip.style.left = `${Math.max(4, Math.min(room - wide - 8, point.px - wide / 2))}px`;
      this.tip.style.top = point.py > 90 ? `${point.py - this.tip.offsetHeight - 6}px` : `${point.py + 24}px`;
      this.readout.textContent = `${point.one.name}: ${y} at ${x} ${shown(point.v)} is ${value}${runs}`;
    }
  }

  const option = (value, text, chosen) => {
    const made = element("option", { value }, text);
    made.selected = value === chosen;
    return made;
  };

  const chooser = (name, choices, chosen, onchange) =>
    element("label", {}, name, element("select", { onchange }, ...choices.map(([value, text]) => option(value, text, chosen))));

  const ticker = (name, checked, onchange) => {
    const box = element("input", { type: "checkbox", onchange });
    box.checked = checked;
    return element("label", { class: "tick" }, box, name);
  };

  // A fixed set of curves.
  function figure(host, data) {
    const state = { logX: data.logX, logY: data.logY, bars: true };
    const controls = element("div", { class: "controls" });
    const chart = (host.append(controls), new Chart(host));
    const draw = () => chart.show({ ...data, ...state });
    controls.append(
      ticker("logarithmic x", state.logX, (event) => { state.logX = event.target.checked; draw(); }),
      ticker("logarithmic y", state.logY, (event) => { state.logY = event.target.checked; draw(); }),
    );
    if (data.series.some((one) => one.error.some((v) => v))) {
      controls.append(ticker("error bars", true, (event) => { state.bars = event.target.checked; draw(); }));
    }
    draw();
  }

  // All settings of a sweep: any measure against any parameter or the rounds, and all of them in a table.
  function explorer(host, data) {
    const { parameters, measures } = data;
    const value = (row, k) => (data.rows[row][k] < 0 ? null : parameters[k].values[data.rows[row][k]]);
    const state = { measure: data.measure, x: data.x, logX: false, logY: data.logY, error: "std", only: {}, words: "", sort: null, down: false };
    const named = (row, except) => parameters.map((p, k) => [p.name, value(row, k)])
      .filter(([name, v]) => name !== except && v !== null)
      .map(([name, v]) => (data.plain.includes(name) ? shown(v) : `${name} ${shown(v)}`)).join(", ") || "all runs";

    const controls = element("div", { class: "controls" }), sieve = element("div", { class: "controls" });
    host.append(controls, sieve);
    const chart = new Chart(host);
    const count = element("p", { class: "count", "aria-live": "polite" });
    const table = element("table"), frame = element("div", { class: "wide rows", tabindex: "0", role: "region", "aria-label": "All settings" }, table);
    host.append(count, frame);

    const cells = data.rows.map((_, row) => [
      ...parameters.map((p, k) => ({ value: value(row, k), text: shown(value(row, k)) })),
      { value: data.runs[row], text: data.outcomes[row], number: true },
      ...measures.map((m) => ({ value: m.mean[row], text: shown(m.mean[row]), more: m.mean[row] === null || m.std[row] === null ? "" : ` ± ${shown(m.std[row], 2)}`, number: true })),
    ]);
    const heads = [...parameters.map((p) => p.name), "runs", ...measures.map((m) => `${m.name} ± std`)];
    const numeric = heads.map((_, k) => cells.every((row) => row[k].value === null || typeof row[k].value === "number"));
    const haystack = cells.map((row) => row.map((cell, k) => `${heads[k]}=${cell.text}`.toLowerCase()));

    const kept = () => {
      const words = state.words.toLowerCase().split(/\s+/).filter(Boolean);
      return data.rows.map((_, row) => row).filter((row) =>
        Object.entries(state.only).every(([k, wanted]) => wanted === "" || data.rows[row][k] === Number(wanted)) &&
        words.every((word) => haystack[row].some((text, k) => (word.includes("=") ? text === word : cells[row][k].text.toLowerCase().includes(word)))));
    };

    function curves(rows) {
      const measure = measures.find((m) => m.name === state.measure);
      const spread = (std, runs) => (std === null || state.error === "none" ? null : state.error === "std" ? std : runs > 1 ? std / Math.sqrt(runs - 1) : null);
      if (state.x === "round") {
        return rows.filter((row) => measure.curves[row]).map((row) => {
          const [means, stds] = measure.curves[row];
          return { name: named(row), x: data.rounds[data.roundsOf[row]].slice(0, means.length), y: means, error: stds.map((s) => spread(s, data.runs[row])), runs: means.map(() => data.runs[row]) };
        });
      }
      const k = parameters.findIndex((p) => p.name === state.x), lines = new Map();
      for (const row of rows) {
        if (value(row, k) === null) continue;
        const name = named(row, state.x);
        if (!lines.has(name)) lines.set(name, []);
        lines.get(name).push(row);
      }
      return [...lines].map(([name, mine]) => {
        mine.sort((a, b) => (numeric[k] ? value(a, k) - value(b, k) : data.rows[a][k] - data.rows[b][k]));
        return { name, x: mine.map((row) => value(row, k)), y: mine.map((row) => measure.mean[row]),
          error: mine.map((row) => spread(measure.std[row], data.runs[row])), runs: mine.map((row) => data.runs[row]) };
      });
    }

    function draw() {
      const rows = kept(), errorName = { std: "std", error: "standard error", none: "" }[state.error];
      chart.show({ series: curves(rows), x: state.x, y: state.measure, logX: state.logX, logY: state.logY, bars: state.error !== "none",
        errorName, title: `${state.measure} against ${state.x}` });
      fill(rows);
    }

    function fill(rows) {
      if (state.sort !== null) {
        const k = state.sort, sign = state.down ? -1 : 1;
        rows = [...rows].sort((a, b) => {
          const [u, v] = [cells[a][k].value, cells[b][k].value];
          if (u === null || v === null) return (u === null) - (v === null);  // what is not there comes last
          return sign * (numeric[k] ? u - v : String(u).localeCompare(String(v), "en", { numeric: true })) || a - b;
        });
      }
      count.textContent = `${rows.length.toLocaleString("en-US")} of ${data.rows.length.toLocaleString("en-US")} settings`;
      const body = element("tbody", {}, ...rows.map((row) => element("tr", {}, ...cells[row].map((cell, k) =>
        element("td", { class: cell.number || numeric[k] ? "number" : null }, cell.text, ...(cell.more ? [element("span", {}, cell.more)] : []))))));
      const old = table.querySelector("tbody");
      if (old) old.replaceWith(body);
      else table.append(body);
      table.querySelectorAll("thead th").forEach((head, k) => {
        if (k === state.sort) head.setAttribute("aria-sort", state.down ? "descending" : "ascending");
        else head.removeAttribute("aria-sort");
      });
    }

    table.append(element("caption", {}, "Press the head of a column to sort."),
      element("thead", {}, element("tr", {}, ...heads.map((head, k) => element("th", { scope: "col", class: numeric[k] ? "number" : null },
        element("button", { type: "button", onclick: () => {
          state.down = state.sort === k && !state.down;
          state.sort = k;
          fill(kept());
        } }, head))))));

    const axes = [...parameters.filter((p) => p.values.length > 1).map((p) => p.name), ...(data.rounds.length ? ["round"] : [])];
    const setLog = () => { controls.querySelectorAll(".tick input")[1].checked = state.logY; };
    controls.append(
      chooser("Measure", measures.map((m) => [m.name, m.name]), state.measure, (event) => {
        state.measure = event.target.value;
        state.logY = measures.find((m) => m.name === state.measure).log;
        setLog();
        draw();
      }),
      chooser("Against", axes.map((name) => [name, name === "round" ? "round (along the runs)" : name]), state.x, (event) => { state.x = event.target.value; draw(); }),
      chooser("Error bars", [["std", "standard deviation"], ["error", "standard error"], ["none", "none"]], state.error, (event) => { state.error = event.target.value; draw(); }),
      ticker("logarithmic x", state.logX, (event) => { state.logX = event.target.checked; draw(); }),
      ticker("logarithmic y", state.logY, (event) => { state.logY = event.target.checked; draw(); }),
    );
    parameters.forEach((p, k) => {
      if (p.values.length < 2 || p.values.length > 100) return;
      sieve.append(chooser(p.name, [["", "all"], ...p.values.map((v, j) => [String(j), shown(v)])], "", (event) => { state.only[k] = event.target.value; draw(); }));
    });
    if (data.rows.length > 1) {
      sieve.append(element("label", { class: "search" }, "Filter", element("input", { type: "search", placeholder: "words, or name=value",
        oninput: (event) => { state.words = event.target.value; draw(); } })));
    }
    draw();
  }

  const found = JSON.parse(document.getElementById("data").textContent);
  document.querySelectorAll("[data-block]").forEach((host) => {
    const data = found[Number(host.dataset.block)];
    ({ explorer, figure })[data.kind](host, data);
  });
})();
