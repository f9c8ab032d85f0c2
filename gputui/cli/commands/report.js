"use strict";
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const page = document.getElementById("page");
  const SVG = "http://www.w3.org/2000/svg";
  const MOST_CURVES = 8, FIRST_ROWS = 10, NARROW = 600;

  // Everything that jobs said becomes text nodes and attributes, never markup.
  function el(name, props, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(props || {})) {
      if (key === "text") made.textContent = value;
      else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
      else if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value);
    }
    for (const child of children) if (child) made.append(child);
    return made;
  }
  function svg(name, props, text) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(props || {})) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }
  const number = (value, places) => value === null || value === undefined ? "" : value !== 0 && Math.abs(value) < 1e-3 || Math.abs(value) >= 1e9 ? value.toExponential(3) : value.toFixed(places);
  const short = value => value === null || value === undefined ? "" : String(Number(value.toPrecision(4)));
  function duration(seconds) {
    if (seconds === null || seconds === undefined) return "";
    const s = Math.max(0, Math.floor(seconds)), pad = n => String(n).padStart(2, "0");
    if (s < 3600) return Math.floor(s / 60) + ":" + pad(s % 60);
    if (s < 172800) return Math.floor(s / 3600) + "h" + pad(Math.floor(s / 60) % 60);
    return Math.floor(s / 86400) + "d" + pad(Math.floor(s / 3600) % 24) + "h";
  }
  // Times of day as everywhere in gputui: 24 hours, and the day where it is not clear.
  const two = n => String(n).padStart(2, "0");
  const DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
  function clock(at, seconds, day) {
    const d = new Date(at * 1000), time = two(d.getHours()) + ":" + two(d.getMinutes()) + (seconds ? ":" + two(d.getSeconds()) : "");
    return (day ? DAYS[d.getDay()] + " " : "") + time;
  }
  const date = at => { const d = new Date(at * 1000); return d.getFullYear() + "-" + two(d.getMonth() + 1) + "-" + two(d.getDate()) + " " + clock(at); };
  // Round numbers from low to high, at most so many.
  function ticks(low, high, most) {
    if (!(high > low)) return [low];
    const least = (high - low) / Math.max(1, most), power = 10 ** Math.floor(Math.log10(least));
    const step = [1, 2, 2.5, 5, 10].map(factor => factor * power).find(each => each >= least * (1 - 1e-9));
    const values = [];
    for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; n++) values.push(Number((n * step).toPrecision(12)));
    return values;
  }
  // Round times of day from start to end.
  const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];
  function timeTicks(start, end, most) {
    const step = STEPS.find(each => (end - start) / each <= most) || STEPS[STEPS.length - 1];
    const offset = new Date(start * 1000).getTimezoneOffset() * 60, values = [];
    for (let at = Math.ceil((start - offset) / step) * step + offset; at <= end; at += step) values.push([at, clock(at, step < 60, end - start > 86400)]);
    return values;
  }
  // What depends on the width is drawn again when the window changes.
  const redraws = [];
  const narrow = () => innerWidth < NARROW;
  const drawnIn = (place, draw) => { const redraw = () => place.replaceChildren(draw(Math.max(300, place.clientWidth))); redraws.push(redraw); redraw(); return redraw; };
  const fit = () => document.documentElement.classList.toggle("narrow", narrow());
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; fit(); for (const redraw of redraws) redraw(); } });
  function section(title, note, place = page) {
    const body = el("section"), head = el("h2", { text: title + " " });
    if (note) head.append(el("small", { text: note }));
    body.append(head);
    place.append(body);
    return body;
  }
  function pair() { const made = el("div", { class: "pair" }); page.append(made); return made; }
  function copyButton(title, command) {
    const button = el("button", { text: title, onclick: async () => {
      try { await navigator.clipboard.writeText(command()); } catch {
        const area = el("textarea"); area.value = command(); document.body.append(area); area.select(); document.execCommand("copy"); area.remove();
      }
      button.textContent = "Copied"; setTimeout(() => { button.textContent = title; }, 1500);
    } });
    return button;
  }
  const share = value => Math.round(value * 100) + " %";
  const counted = (count, noun) => count + " " + noun + (count === 1 ? "" : "s");
  const sum = values => values.reduce((total, value) => total + value, 0);
  const metric = data.metric ? data.metric.name : null;
  const down = data.metric && data.metric.direction === "min";
  const ranked = data.metric && data.metric.direction !== "unknown";
  const best = ranked ? data.rows.find(row => row.ok && row.best !== null) : undefined;

  function head() {
    const toggle = el("button", { id: "theme", text: "light / dark", onclick: () => {
      const style = document.documentElement.style, scheme = style.colorScheme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
      style.colorScheme = scheme === "dark" ? "light" : "dark";
    } });
    page.append(el("header", {}, el("h1", { text: data.session }),
      el("span", { class: "past", text: data.path + " @ " + data.host + (data.when ? " · " + data.when : "") }), toggle));
    const f = data.facts, facts = el("div", { class: "facts" });
    const fact = (big, small, kind) => facts.append(el("div", { class: kind }, el("b", { text: big }), el("span", { class: "past", text: small })));
    fact(f.succeeded + " ok", "of " + f.total, "ok");
    if (f.failed) fact(f.failed + " failed", "in " + counted(data.failures.length, "kind"), "bad");
    if (f.killed) fact(f.killed + " killed", data.rows.filter(row => row.state === "killed").slice(0, 3).map(row => "#" + row.id).join(" ") + (f.killed > 3 ? " …" : ""), "warn");
    if (f.running || f.waiting) fact(f.running + " running", f.waiting + " waiting");
    fact(duration(f.wall), f.ran_on);
    if (f.gpu_time) fact(f.gpu_time, f.busy === null ? "" : share(f.busy) + " busy");
    if (f.energy) fact(f.energy, f.runs > 1 ? number(f.kwh * 1000 / f.runs, 0) + " Wh a run" : "");
    if (best) fact("★ " + number(best.best, data.decimals), metric + " of #" + best.id);
    page.append(facts);
    const answer = el("div", { class: "answer" }, el("p", {}, el("b", { text: data.answer.first }), el("span", { text: data.answer.more })));
    if (data.answer.command) answer.append(copyButton("Copy command", () => data.answer.command), el("pre", { text: data.answer.command }));
    page.append(answer);
  }

  // Parameters

  function heatMap(place) {
    const body = section("Heat map", "median " + metric, place), table = el("table", { class: "heat" }), chosen = el("div", { class: "sweep" });
    const select = el("select", { "aria-label": "parameters" }, ...data.maps.map((map, i) => el("option", { value: i, text: map.rows.title + " × " + map.columns.title })));
    function draw() {
      const map = data.maps[select.value];
      const titles = map.columns.values.map(value => el("th", { text: value, title: value }));
      const buttons = [];
      function choose(row, column) {
        const cell = map.cells[row][column];
        buttons.forEach(button => button.setAttribute("aria-pressed", button === buttons[row * titles.length + column]));
        const names = map.rows.title + "=" + map.rows.values[row] + " " + map.columns.title + "=" + map.columns.values[column];
        chosen.replaceChildren(el("p", {}, el("b", { text: names + " " }), el("span", { text: [cell.job !== null ? "best #" + cell.job : "no result", cell.sweep ? "a finer sweep around it, " + counted(cell.jobs, "job") + ":" : ""].filter(Boolean).join(" · ") })));
        if (cell.sweep) chosen.append(el("pre", { text: cell.sweep }), copyButton("Copy", () => cell.sweep));
      }
      table.replaceChildren(el("thead", {}, el("tr", {}, el("th"), el("th", { text: map.columns.title, colspan: titles.length })), el("tr", {}, el("th", { text: map.rows.title, title: map.rows.title }), ...titles)), ...map.rows.values.map((value, row) => el("tr", {},
        el("th", { text: value, title: value }), ...map.cells[row].map((cell, column) => {
          const isBest = row === map.best[0] && column === map.best[1];
          const button = el("button", { onclick: () => choose(row, column) }, el("span", { text: cell.median === null ? "–" : (isBest ? "★" : "") + number(cell.median, data.decimals) }), el("small", { text: [cell.runs ? "n " + cell.runs : "", cell.failed ? cell.failed + " ✗" : ""].filter(Boolean).join(" · ") }));
          if (cell.median !== null) {
            button.style.background = "var(--h" + cell.shade + ")";
            button.style.color = cell.shade === 5 ? "light-dark(#fff, #12161b)" : cell.shade === 4 ? "light-dark(#1d2329, #12161b)" : "";
          }
          buttons.push(button);
          return el("td", {}, button);
        }))));
      choose(...map.best);
    }
    select.addEventListener("change", draw);
    body.append(el("p", { class: "bar" }, select), table, chosen);
    draw();
  }

  function strips(place) {
    const noise = data.noise !== null ? "; between seeds: " + number(data.noise, data.decimals) + " apart" : "";
    const body = section("By parameter", metric + ": median, middle half, range" + noise, place);
    const [low, high] = data.scale, at = value => 100 * Math.min(1, Math.max(0, (value - low) / (high - low || 1)));
    const part = (kind, from, to) => { const made = el("i", { class: kind }); made.style.left = at(from) + "%"; if (to !== undefined) made.style.width = at(to) - at(from) + "%"; return made; };
    const table = el("table", { class: "strips" });
    for (const effect of data.effects) {
      const axis = el("div", { class: "strip" }, ...ticks(low, high, 4).map(value => { const made = el("span", { text: short(value) }); made.style.left = at(value) + "%"; return made; }));
      table.append(el("tr", {}, el("th", { text: effect.title }), el("th", { class: "n", text: "n" }), el("th", { class: "n desk", text: "best" }), el("th", { class: "n", text: "median" }), el("th", {}, axis)));
      for (const one of effect.values) {
        const drawn = el("div", { class: "strip" }, part("", one.low, one.high), part("half", one.lower, one.upper), part("dot", one.median));
        table.append(el("tr", { class: one.has_best ? "best" : "" }, el("td", { text: (one.has_best ? "★ " : "") + one.value }), el("td", { class: "n", text: one.count }), el("td", { class: "n desk", text: number(one.best, data.decimals) }), el("td", { class: "n", text: number(one.median, data.decimals) }), el("td", {}, drawn)));
      }
    }
    body.append(table);
  }

  // Curves

  const shown = new Set(data.curves.slice(0, 6).map(curve => curve.id));
  const hasCurve = new Set(data.curves.map(curve => curve.id));
  let drawCurves = () => {};

  function curves() {
    const names = [...new Set(data.curves.flatMap(curve => Object.keys(curve.series)))].filter(name => data.curves.some(curve => (curve.series[name] || []).length > 1));
    if (!names.length) return;
    if (names.includes(metric)) names.unshift(...names.splice(names.indexOf(metric), 1));
    const body = section("Curves", "of the best; click a row of the table to add or remove one"), legend = el("div", { class: "legend" }), charts = [];
    let cursor = null, drawn = [];
    const log = el("button", { text: "log y", "aria-pressed": "false", onclick: () => { log.setAttribute("aria-pressed", log.ariaPressed !== "true"); redrawAll(); } });
    const points = (curve, name) => (curve.series[name] || []).map((point, i) => [point[0] === null ? i : point[0], point[2]]).filter(point => point[1] !== null);
    function redrawAll() {
      drawn = data.curves.filter(curve => shown.has(curve.id)).slice(0, MOST_CURVES);
      for (const chart of charts) chart.redraw();
      drawLegend();
    }
    // Nothing is interpolated: between two steps the earlier one counts.
    const reading = (curve, name) => points(curve, name).filter(point => cursor === null || point[0] <= cursor).pop();
    const mark = i => { const made = el("span", { text: "━" }); made.style.color = "var(--c" + i + ")"; return made; };
    function key(name, label) {
      const made = el("div", { class: "key" });
      drawn.forEach((curve, i) => { const point = reading(curve, name); if (point) made.append(mark(i), el("span", { text: label(curve) }), el("b", { text: name === metric ? number(point[1], data.decimals) : short(point[1]) })); });
      return made;
    }
    function drawLegend() {
      if (narrow()) legend.replaceChildren(...charts.map(chart => el("div", {}, el("b", { text: chart.select.value + (cursor === null ? " at the end" : " at " + short(cursor)) }), key(chart.select.value, curve => curve.label))));
      else legend.replaceChildren(...drawn.map((curve, i) => el("span", {}, mark(i), el("span", { text: " " + curve.label }))));
    }
    function point(at) { cursor = at; for (const chart of charts) chart.point(); drawLegend(); }
    function add(place, name) {
      const select = el("select", { "aria-label": "metric" }, ...names.map(each => el("option", { value: each, text: each })));
      const chart = el("div", { class: "chart" }), self = { select, point: () => {}, redraw: null };
      select.value = name;
      select.addEventListener("change", redrawAll);
      place.append(el("div", {}, el("p", { class: "bar" }, select), chart));
      charts.push(self);
      self.redraw = drawnIn(chart, w => drawChart(self, w));
    }
    function drawChart(self, w) {
      const lines = drawn.map(curve => points(curve, self.select.value)), all = lines.flat();
      self.point = () => {};
      if (!all.length) return el("p", { class: "past", text: "no numbers" });
      const h = 280, left = 48, right = 46, bottom = 26, top = 8, plot = { w: w - left - right, h: h - top - bottom };
      const steps = [...new Set(all.map(p => p[0]))].sort((a, b) => a - b), x0 = steps[0], x1 = steps[steps.length - 1];
      // The axis fits what follows the first tenth of the steps, and a spike is cut.
      const long = lines.some(line => line.length >= 10), late = all.filter(p => !long || p[0] >= x0 + (x1 - x0) / 10).map(p => p[1]).sort((a, b) => a - b);
      let y0 = late[0], most = late[late.length - 1], usual = late[Math.floor((late.length - 1) * 0.99)], y1 = most - y0 > 3 * (usual - y0) ? usual : most;
      const isLog = log.ariaPressed === "true" && y0 > 0;
      if (!isLog) { const room = (y1 - y0) * 0.04; y0 -= room; y1 += room; }
      const scaled = v => isLog ? Math.log(Math.max(v, 1e-300)) : v, x = v => plot.w * (v - x0) / (x1 - x0 || 1), y = v => plot.h * (1 - (scaled(v) - scaled(y0)) / (scaled(y1) - scaled(y0) || 1));
      const chart = svg("svg", { viewBox: `0 0 ${w} ${h}`, role: "img" });
      const inner = svg("svg", { x: left, y: top, width: plot.w, height: plot.h }), cross = svg("g");
      let last = Infinity;
      for (const value of isLog && y1 / y0 > 20 ? decades(y0, y1) : ticks(y0, y1, isLog ? 7 : 5)) {
        if (value < y0 || last - y(value) < 14) continue;
        last = y(value);
        chart.append(svg("line", { x1: left, x2: w - right, y1: top + last, y2: top + last, stroke: "var(--line)" }), svg("text", { x: left - 8, y: top + last + 4, "text-anchor": "end" }, short(value)));
      }
      for (const at of ticks(x0, x1, Math.floor(w / 70))) chart.append(svg("text", { x: left + x(at), y: h - 6, "text-anchor": "middle" }, short(at)));
      chart.append(inner);
      lines.forEach((line, i) => inner.append(svg("polyline", { class: "curve", points: line.map(p => x(p[0]) + "," + y(p[1])).join(" "), fill: "none", stroke: `var(--c${i})`, "stroke-width": 2 })));
      // The labels are in the order of the ends, and apart from each other.
      const ends = lines.map((line, i) => ({ i, at: line.length ? Math.min(plot.h, Math.max(8, y(line[line.length - 1][1]))) : null })).filter(end => end.at !== null).sort((a, b) => a.at - b.at);
      ends.forEach((end, n) => { if (n) end.at = Math.max(end.at, ends[n - 1].at + 13); });
      ends.forEach((end, n) => { end.at = Math.min(end.at, plot.h - 13 * (ends.length - 1 - n)); });
      for (const end of ends) { const text = svg("text", { x: w - right + 6, y: top + end.at + 4 }, "#" + drawn[end.i].id); text.style.fill = `var(--c${end.i})`; chart.append(text); }
      inner.append(cross);
      const box = el("div", { class: "box" });
      self.point = () => {
        cross.replaceChildren();
        box.hidden = cursor === null || narrow();
        if (cursor === null) return;
        cross.append(svg("line", { x1: x(cursor), x2: x(cursor), y1: 0, y2: plot.h, stroke: "var(--focus)", "stroke-dasharray": "3 3" }));
        drawn.forEach((curve, i) => { const at = reading(curve, self.select.value); if (at) cross.append(svg("circle", { cx: x(at[0]), cy: y(at[1]), r: 3.5, fill: `var(--c${i})` })); });
        box.replaceChildren(el("b", { text: "at " + short(cursor) }), key(self.select.value, curve => "#" + curve.id));
        const onLeft = x(cursor) > plot.w / 2;
        box.style.left = onLeft ? "auto" : left + x(cursor) + 12 + "px"; box.style.right = onLeft ? w - left - x(cursor) + 12 + "px" : "auto";
      };
      const move = event => {
        const at = event.clientX - chart.getBoundingClientRect().left - left;
        point(steps.reduce((nearest, step) => Math.abs(x(step) - at) < Math.abs(x(nearest) - at) ? step : nearest));
      };
      chart.addEventListener("pointermove", move);
      chart.addEventListener("pointerdown", move);
      chart.addEventListener("pointerleave", event => { if (event.pointerType === "mouse") point(null); });
      const whole = el("div", {}, chart, box);
      self.point();
      return whole;
    }
    const values = data.curves.flatMap(curve => points(curve, names[0])).map(p => p[1]).sort((a, b) => a - b);
    if (down && values[0] > 0 && values[values.length - 1] > 2 * values[0]) log.setAttribute("aria-pressed", "true");
    drawn = data.curves.filter(curve => shown.has(curve.id));
    const both = el("div", { class: "pair" });
    body.append(el("div", { class: "bar" }, log), both, legend);
    for (const name of names.slice(0, 2)) add(both, name);
    redraws.push(drawLegend);
    drawCurves = redrawAll;
    redrawAll();
  }
  function decades(low, high) {
    const values = [];
    for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power++) for (const factor of high / low > 1000 ? [1] : [1, 2, 5]) if (factor * 10 ** power <= high) values.push(Number((factor * 10 ** power).toPrecision(3)));
    return values;
  }

  // Jobs

  function jobs() {
    const body = section("Jobs", data.rows.length + (metric ? ", by " + metric + (ranked ? down ? ", lower is better" : ", higher is better" : "") : ""));
    // Each column: title, value to sort by, class, and the text if it differs from the value.
    const columns = [["id", r => r.id, "n", r => (r === best ? "★ " : "") + r.id], ["state", r => r.state, ""]];
    data.params.forEach((p, i) => columns.push([p.title, r => { const v = r.params[i]; return v !== "" && !isNaN(v) ? Number(v) : v; }, "", r => r.params[i]]));
    if (!data.params.length) columns.push(["job", r => jobName(r), "job"]);
    if (metric) columns.push([metric, r => r.best, "n", r => result(r)], ["at", r => r.step, "n", r => short(r.step)], ["last", r => r.last, "n", r => number(r.last, data.decimals)]);
    data.others.slice(0, 4).forEach((name, i) => columns.push([name, r => r.beside[i], "n", r => short(r.beside[i])]));
    columns.push(["time", r => r.seconds, "n", r => duration(r.seconds)], ["Wh", r => r.wh, "n", r => r.wh === null ? "" : number(r.wh, r.wh < 10 ? 1 : 0)], ["gpu", r => r.gpus, ""], ["end", r => r.end || r.note, "job"]);
    const jobName = r => r.name === "job_" + r.id ? r.command : r.name;
    const result = r => r.best === null ? r.not_finite : number(r.best, data.decimals);
    const empty = value => value === null || value === undefined || value === "";
    for (const title of ["at", "Wh", "gpu", "end"]) {
      const at = columns.findIndex(column => column[0] === title);
      if (at >= 0 && data.rows.every(row => empty(columns[at][1](row)))) columns.splice(at, 1);
    }
    const kind = row => row.state === "succeeded" ? "ok" : row.failed ? "bad" : row.state === "killed" ? "warn" : "";
    const wide = row => el("tr", {}, ...columns.map(([title, value, kinds, text]) => {
      const words = text ? text(row) : value(row);
      return el("td", { class: title === "state" ? kind(row) : kinds, text: empty(words) ? "" : words, title: kinds === "job" ? words : null });
    }), el("td", {}, trend(row)), el("td", {}, ...links(row)));
    function phone(row) {
      const named = data.params.map((p, i) => row.params[i] === "" ? "" : isNaN(row.params[i]) ? row.params[i] : p.title + "=" + row.params[i]).filter(Boolean).join(" ") || jobName(row);
      const second = [empty(row.step) ? "" : "at " + short(row.step), ...data.others.slice(0, 1).map((name, i) => empty(row.beside[i]) ? "" : name + " " + short(row.beside[i])), duration(row.seconds), row.gpus && "GPU " + row.gpus, row.end || row.note];
      return el("tr", {}, el("td", {}, el("div", {}, el("span", {}, el("b", { text: (row === best ? "★ " : "") + "#" + row.id + " " }), named)),
          el("div", {}, el("small", {}, el("span", { class: kind(row), text: row.state === "succeeded" ? "✓ " : row.state + " " }), el("span", { class: "past", text: second.filter(Boolean).join(" · ") })), el("small", {}, ...links(row)))),
        el("td", { class: "n" }, el("b", { text: result(row) }), trend(row)));
    }
    const links = row => [row.out && el("a", { href: row.out, text: "OUT" }), row.err && el("a", { href: row.err, text: "ERR" })].filter(Boolean).flatMap(link => [link, " "]);
    function trend(row) {
      if (row.trend.length < 2) return null;
      const low = Math.min(...row.trend), high = Math.max(...row.trend), drawn = svg("svg", { viewBox: "0 0 84 16" });
      drawn.append(svg("polyline", { points: row.trend.map((value, i) => 1 + i * 82 / (row.trend.length - 1) + "," + (14 - 12 * (value - low) / (high - low || 1))).join(" "), fill: "none", stroke: "var(--past)", "stroke-width": 1.3 }));
      return drawn;
    }
    const filter = el("input", { id: "filter", type: "search", placeholder: "filter: failed  lr=0.03  resnet", "aria-label": "filter" });
    const order = el("select", { "aria-label": "sort by" }, el("option", { value: "", text: "sort by" }), ...columns.map(([title], at) => el("option", { value: at, text: title })));
    const count = el("span", { id: "count", class: "past" }), more = el("button", { id: "more", onclick: () => { all = true; draw(); } });
    const table = el("table", { id: "results", class: "results" }), thead = el("thead"), tbody = el("tbody");
    let sorted = null, reverse = false, all = false, state = 0;
    function sort(at) { reverse = sorted === at ? !reverse : false; sorted = at; draw(); }
    const titles = columns.map(([title, , kinds], at) => el("th", { class: kinds === "n" ? "n" : "", text: title, onclick: () => sort(at) }));
    thead.append(el("tr", {}, ...titles, el("th", { text: metric ? "trend" : "" }), el("th", { text: "log" })));
    table.append(thead, tbody);
    const words = row => [row.id, row.state, row.name, row.command, row.end, row.note, ...data.params.flatMap((p, i) => [row.params[i], p.title + "=" + row.params[i]])].join(" ").toLowerCase();
    const texts = new Map(data.rows.map(row => [row, words(row)]));
    const states = [["All", () => true], ["Done", row => row.state === "succeeded" || row.state === "killed"], ["Failed", row => row.failed]].map(([title, fits], at) =>
      ({ fits, button: el("button", { text: title + " " + data.rows.filter(fits).length, onclick: () => { state = at; draw(); } }) }));
    function compare(a, b) {
      const x = columns[sorted][1](a), y = columns[sorted][1](b);
      if (empty(x) || empty(y)) return empty(x) - empty(y);
      const difference = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
      return reverse ? -difference : difference;
    }
    function draw() {
      const wanted = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      let rows = data.rows.filter(row => states[state].fits(row) && wanted.every(word => word.startsWith("!") ? !texts.get(row).includes(word.slice(1)) : texts.get(row).includes(word)));
      if (sorted !== null) rows = [...rows].sort(compare);
      titles.forEach((title, at) => at === sorted ? title.setAttribute("aria-sort", reverse ? "descending" : "ascending") : title.removeAttribute("aria-sort"));
      states.forEach(({ button }, at) => button.setAttribute("aria-pressed", at === state));
      count.textContent = rows.length + " of " + data.rows.length + (data.left_out ? " (" + data.left_out + " more are not on this page)" : "");
      const short = all || wanted.length ? rows : rows.slice(0, FIRST_ROWS);
      more.textContent = "Show all " + rows.length;
      more.hidden = short.length === rows.length;
      thead.hidden = narrow();
      order.hidden = !narrow();
      tbody.replaceChildren(...short.map(row => {
        const line = narrow() ? phone(row) : wide(row);
        line.classList.toggle("best", row === best);
        line.dataset.id = row.id;
        if (hasCurve.has(row.id)) {
          line.dataset.curve = shown.has(row.id);
          line.addEventListener("click", event => {
            if (event.target.closest("a")) return;
            if (!shown.delete(row.id)) shown.add(row.id);
            drawCurves();
          });
        }
        return line;
      }));
    }
    filter.addEventListener("input", draw);
    order.addEventListener("change", () => { if (order.value !== "") sort(Number(order.value)); });
    body.append(el("div", { class: "bar" }, filter, ...states.map(each => each.button), order, count), el("div", { class: "wide" }, table), el("p", {}, more));
    redraws.push(draw);
    draw();
  }

  // The jobs of each device, and its load below them

  const ENDS = { failed: "--failed", killed: "--killed" };
  function timeline() {
    const tracks = new Map(((data.load && data.load.tracks) || []).filter(track => track.load.some(value => value !== null)).map(track => [track.label, track]));
    if (!data.bars.length) return;
    const until = bar => bar.to === null ? data.made : bar.to;
    const start = Math.min(...data.bars.map(bar => bar.from)), end = Math.max(...data.bars.map(until), tracks.size ? data.load.to : 0);
    const slots = [...new Set([...data.bars.map(bar => bar.slot), ...tracks.keys()])].sort((a, b) => a.localeCompare(b, undefined, { numeric: true }));
    const others = [...tracks.values()].some(track => track.others.some(Boolean));
    const body = section("Timeline", "jobs" + (tracks.size ? ", load below" : "")), place = el("div");
    const note = data.users.length ? data.users.map(user => user.name).join(", ") : "somebody else";
    if (others) body.firstChild.lastChild.append("; ", el("span", { class: "others", text: "purple: " + note }));
    const kinds = [["ok", "--job", bar => !(bar.end in ENDS)], ...Object.entries(ENDS).map(([end, color]) => [end, color, bar => bar.end === end])];
    body.append(el("div", { class: "legend", id: "ends" }, ...kinds.filter(kind => data.bars.some(kind[2])).map(([text, color]) => {
      const mark = el("i");
      mark.style.background = `var(${color})`;
      return el("span", {}, mark, " " + text);
    })), place);
    const BAR = 20, LOAD = 20, GAP = 12, names = data.names;
    // Jobs that share a device are drawn below each other.
    const lanes = slots.map(slot => {
      const ends = [], bars = data.bars.filter(bar => bar.slot === slot).sort((a, b) => a.from - b.from).map(bar => {
        let row = ends.findIndex(at => at <= bar.from + 0.5);
        if (row < 0) row = ends.length;
        ends[row] = until(bar);
        return { ...bar, row };
      });
      const track = tracks.get(slot), rows = Math.max(1, ends.length);
      return { slot, bars, track, rows, height: Math.max(rows * BAR + (track ? LOAD : 0), names[slot] ? 32 : 0) + GAP };
    });
    drawnIn(place, w => {
      const name = slot => narrow() ? "" : names[slot] || "";
      const left = Math.min(w / 3, 14 + 6.5 * Math.max(...slots.map(slot => Math.max(slot.length, name(slot).length)))), h = sum(lanes.map(lane => lane.height)) + 20;
      const x = at => left + (w - left - 10) * (at - start) / (end - start || 1);
      const drawn = svg("svg", { viewBox: `0 0 ${w} ${h}`, role: "img" });
      const times = timeTicks(start, end, Math.floor((w - left) / 90));
      for (const [at, text] of times) drawn.append(svg("line", { x1: x(at), x2: x(at), y1: 0, y2: h - 18, stroke: "var(--line)" }), svg("text", { x: Math.min(x(at), w - 30), y: h - 4, "text-anchor": "middle" }, text));
      let top = 0;
      for (const lane of lanes) {
        const title = svg("text", { x: 0, y: top + 14 }, lane.slot);
        title.style.fill = "var(--text)";
        drawn.append(title);
        if (name(lane.slot)) drawn.append(svg("text", { x: 0, y: top + 29 }, name(lane.slot)));
        lane.bars.forEach((bar, i) => {
          const at = top + bar.row * BAR, wide = Math.max(1, x(until(bar)) - x(bar.from) - 0.6), label = (best && bar.job === best.id ? "★ " : "") + "#" + bar.job;
          const box = svg("rect", { x: x(bar.from), y: at, width: wide, height: BAR - 2, fill: ENDS[bar.end] ? `var(${ENDS[bar.end]})` : i % 2 ? "var(--job2)" : "var(--job)" });
          box.append(svg("title", {}, "#" + bar.job + "  " + clock(bar.from) + " – " + (bar.to === null ? "" : clock(bar.to)) + "  " + duration(until(bar) - bar.from) + (bar.mean !== null ? "  GPU " + Math.round(bar.mean) + " %" : "") + (bar.end ? "  " + bar.end : "")));
          drawn.append(box);
          if (wide > 8 + 7 * label.length) { const text = svg("text", { x: x(bar.from) + wide / 2, y: at + 13, "text-anchor": "middle", "pointer-events": "none" }, label); text.style.fill = "var(--on-job)"; drawn.append(text); }
        });
        if (lane.track) {
          const base = top + lane.rows * BAR + LOAD, seconds = (data.load.to - data.load.from) / lane.track.load.length, paths = ["", ""];
          lane.track.load.forEach((value, i) => {
            const from = data.load.from + i * seconds;
            if (value) paths[lane.track.others[i] ? 1 : 0] += `M${x(from).toFixed(1)} ${base}V${(base - value * (LOAD - 2)).toFixed(1)}H${x(from + seconds).toFixed(1)}V${base}Z`;
          });
          paths.forEach((path, i) => { if (path) drawn.append(svg("path", { d: path, class: i ? "others" : "ours", fill: i ? "var(--others)" : "var(--load)" })); });
          drawn.append(svg("line", { x1: left, x2: w - 10, y1: base, y2: base, stroke: "var(--line)" }));
        }
        top += lane.height;
      }
      return drawn;
    });
  }

  function failures(place) {
    if (!data.failures.length) return;
    const body = section("Failures", counted(data.facts.failed, "job"), place);
    for (const one of data.failures) {
      const jobs = one.jobs.slice(0, 20).map(id => "#" + id).join(" ") + (one.count > 20 ? " …" : "");
      body.append(el("div", { class: "failure" }, el("b", { class: "bad", text: one.count + " × " }), el("code", { text: one.message }),
        el("div", { class: "past", text: [jobs, one.common ? "all " + one.common : "", one.where].filter(Boolean).join("  ·  ") })));
    }
  }

  function consumption(place) {
    if (!data.devices.length) return;
    const f = data.facts, body = section("Time and energy", [f.gpu_time, f.energy].filter(Boolean).join(" · "), place), uses = el("div", { class: "uses" });
    const cells = (...texts) => uses.append(...texts.map(text => el("span", { class: "past n", text })));
    uses.append(el("span"), el("span"));
    cells("busy", "load", "time", "runs");
    for (const one of data.devices) {
      const track = ((data.load && data.load.tracks) || []).find(each => each.label === one.label), known = track ? track.load.filter((value, i) => value !== null && !track.others[i]) : [];
      const ours = el("b"), theirs = el("b");
      ours.style.width = one.share * 100 + "%";
      theirs.style.width = (track ? Math.min(1 - one.share, track.others.filter(Boolean).length / track.others.length) : 0) * 100 + "%";
      uses.append(el("span", {}, one.label + " ", el("span", { class: "past desk", text: data.names[one.label] || "" })), el("i", {}, ours, theirs));
      cells(share(one.share), one.busy && known.length ? share(sum(known) / known.length) : "–", duration(one.busy), one.jobs);
    }
    body.append(uses);
    const lost = sum(data.bars.filter(bar => bar.end === "failed" || bar.end === "killed").map(bar => (bar.to === null ? data.made : bar.to) - bar.from));
    const notes = [lost >= 60 ? duration(lost) + " in runs that failed or were killed" : "", ...data.users.map(user => duration(user.seconds) + " used by " + user.name), f.paused >= 60 ? duration(f.paused) + " paused" : ""];
    for (const group of data.groups) notes.push(group.name + ": " + counted(group.jobs, "job") + ", " + group.used);
    for (const note of notes.filter(Boolean)) body.append(el("div", { class: "past", text: note }));
  }

  fit();
  head();
  if (data.effects.length) { const both = pair(); if (data.maps.length) heatMap(both); strips(both); }
  curves(); jobs(); timeline();
  const last = pair();
  failures(last); consumption(last);
  page.append(el("p", { class: "past", text: "generated by gputui report, " + date(data.made) + " · one file, no network" }));
  document.documentElement.dataset.ready = "yes";
})();
