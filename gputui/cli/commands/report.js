"use strict";
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const page = document.getElementById("page");
  const SVG = "http://www.w3.org/2000/svg";
  const HUES = ["#5a9be6", "#d9a441", "#4fae6a", "#c26bd4", "#e06c75", "#3fb5b5", "#b08a5a", "#8a8fe0"];

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
  // What is drawn as wide as its place is drawn again when that changes.
  const redraws = [];
  const drawnIn = (place, draw) => { redraws.push(() => place.replaceChildren(draw(Math.max(300, place.clientWidth)))); redraws[redraws.length - 1](); };
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; for (const redraw of redraws) redraw(); } });
  const section = (title, note) => {
    const body = el("section"), head = el("h2", { text: title + " " });
    if (note) head.append(el("small", { text: note }));
    page.append(head, body);
    return body;
  };
  const metric = data.metric ? data.metric.name : null;
  const down = data.metric && data.metric.direction === "min";
  const ranked = data.metric && data.metric.direction !== "unknown";

  function head() {
    const toggle = el("button", { id: "theme", text: "light / dark", onclick: () => {
      const root = document.documentElement, dark = getComputedStyle(root).getPropertyValue("--page").trim() === "#12161b";
      root.classList.toggle("light", dark); root.classList.toggle("dark", !dark);
    } });
    page.append(el("header", {}, el("h1", { text: data.session }),
      el("span", { class: "past", text: data.path + " @ " + data.host + (data.when ? " · " + data.when : "") }), toggle));
    const f = data.facts, facts = el("div", { class: "facts" });
    const fact = (big, small, kind) => facts.append(el("div", { class: kind }, el("b", { text: big }), el("span", { class: "past", text: small })));
    fact(f.succeeded + " ok", "of " + f.total, "ok");
    if (f.failed) fact(f.failed + " failed", "in " + data.failures.length + (data.failures.length === 1 ? " kind" : " kinds"), "bad");
    if (f.running || f.waiting) fact(f.running + " run", f.waiting + " wait");
    fact(duration(f.wall), "wall");
    if (f.gpu_seconds) fact(f.gpu_time, f.ran_on);
    if (f.busy !== null) fact(Math.round(f.busy * 100) + " % busy", f.paused >= 60 ? duration(f.paused) + " paused" : f.gpu_seconds ? " " : f.ran_on);
    const best = data.rows.find(row => row.ok && row.best !== null);
    if (best && ranked) fact("★ " + number(best.best, data.decimals), metric + " of #" + best.id);
    page.append(facts);
  }

  function results() {
    const body = section("Jobs", metric ? "by " + metric + (ranked ? down ? ", lower is better" : ", higher is better" : "") : "");
    const columns = [["id", r => r.id, 1, "n"], ["state", r => r.state, 0, ""]];
    data.params.forEach((p, i) => columns.push([p.title, r => { const v = r.params[i]; return v !== "" && !isNaN(v) ? Number(v) : v; }, 0, "", r => r.params[i]]));
    if (!data.params.length) columns.push(["job", r => r.name === "job_" + r.id ? r.command : r.name, 0, "job"]);
    if (metric) columns.push([metric, r => r.best, 1, "n", r => r.best === null ? r.not_finite : number(r.best, data.decimals)], ["last", r => r.last, 1, "n", r => number(r.last, data.decimals)], ["at", r => r.step, 1, "n", r => short(r.step)]);
    data.others.slice(0, 6).forEach((name, i) => columns.push([name, r => r.beside[i], 1, "n", r => short(r.beside[i])]));
    columns.push(["time", r => r.seconds, 1, "n", r => duration(r.seconds)], ["gpu", r => r.gpus, 0, ""], ["end", r => r.end || r.note, 0, "job"]);
    const empty = value => value === null || value === undefined || value === "";
    for (const title of ["at", "gpu", "end"]) {
      const at = columns.findIndex(column => column[0] === title);
      if (at >= 0 && data.rows.every(row => empty(columns[at][1](row)))) columns.splice(at, 1);
    }
    const filter = el("input", { id: "filter", type: "search", placeholder: "filter: failed  lr=0.03  resnet", "aria-label": "filter" });
    const count = el("span", { id: "count", class: "past" });
    const table = el("table", { id: "results" }), thead = el("thead"), tbody = el("tbody");
    let sorted = null, reverse = false;
    const titles = columns.map((column, at) => el("th", { class: column[3] === "n" ? "n" : "", text: column[0], onclick: () => {
      reverse = sorted === at ? !reverse : false; sorted = at; draw();
    } }));
    thead.append(el("tr", {}, ...titles, el("th", { text: "log" })));
    table.append(thead, tbody);
    const words = row => [row.id, row.state, row.name, row.command, row.end, row.note, ...data.params.flatMap((p, i) => [row.params[i], p.title + "=" + row.params[i]])].join(" ").toLowerCase();
    const texts = new Map(data.rows.map(row => [row, words(row)]));
    const first = data.rows.find(row => row.ok && row.best !== null);
    function compare(a, b) {
      const x = columns[sorted][1](a), y = columns[sorted][1](b);
      if (empty(x) || empty(y)) return empty(x) - empty(y);
      const told = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
      return reverse ? -told : told;
    }
    function draw() {
      const wanted = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      let rows = data.rows.filter(row => wanted.every(word => word.startsWith("!") ? !texts.get(row).includes(word.slice(1)) : texts.get(row).includes(word)));
      if (sorted !== null) rows = [...rows].sort(compare);
      titles.forEach((title, at) => at === sorted ? title.setAttribute("aria-sort", reverse ? "descending" : "ascending") : title.removeAttribute("aria-sort"));
      count.textContent = " " + rows.length + " of " + data.rows.length + (data.left_out ? " (" + data.left_out + " more are not on this page)" : "");
      tbody.replaceChildren(...rows.map(row => {
        const line = el("tr", { class: row === first && ranked ? "best" : "" });
        for (const [, value, , kind, told] of columns) {
          const text = told ? told(row) : value(row);
          line.append(el("td", { class: kind, text: text === null || text === undefined ? "" : text, title: kind === "job" ? text : null }));
        }
        line.children[1].className = row.ok ? row.state === "succeeded" ? "ok" : "" : "bad";
        const links = el("td");
        if (row.out) links.append(el("a", { href: row.out, text: "OUT" }), " ");
        if (row.err) links.append(el("a", { href: row.err, text: "ERR" }));
        line.append(links);
        return line;
      }));
    }
    filter.addEventListener("input", draw);
    body.append(el("p", {}, filter, count), el("div", { class: "wide" }, table));
    draw();
  }

  function effects() {
    if (!data.effects.length) return;
    const body = section("By parameter", metric + (data.noise !== null ? "; between seeds: " + number(data.noise, data.decimals) + " apart (median)" : ""));
    const [low, high] = data.scale, span = high - low || 1;
    const x = value => 2 + 96 * Math.min(1, Math.max(0, (value - low) / span));
    const grid = el("div", { class: "effects" });
    for (const effect of data.effects) {
      const table = el("table", {}, el("thead", {}, el("tr", {}, el("th", { text: effect.title }), el("th", { class: "n", text: "n" }), el("th", { class: "n", text: "best" }), el("th", { class: "n", text: "median" }), el("th", { text: short(low) + " – " + short(high) }))));
      for (const one of effect.values) {
        const drawn = svg("svg", { viewBox: "0 0 100 10", height: 14, preserveAspectRatio: "none" });
        drawn.append(svg("line", { x1: x(one.low), x2: x(one.high), y1: 5, y2: 5, stroke: "var(--past)", "stroke-width": 0.8 }),
          svg("line", { x1: x(one.lower), x2: x(one.upper), y1: 5, y2: 5, stroke: "var(--range)", "stroke-width": 3 }),
          svg("line", { x1: x(one.median), x2: x(one.median), y1: 1, y2: 9, stroke: "var(--text)", "stroke-width": 1 }));
        table.append(el("tr", { class: one.has_best ? "best" : "" }, el("td", { text: (one.has_best ? "★ " : "") + one.value }), el("td", { class: "n", text: one.count }), el("td", { class: "n", text: number(one.best, data.decimals) }), el("td", { class: "n", text: number(one.median, data.decimals) }), el("td", {}, drawn)));
      }
      grid.append(table);
    }
    body.append(grid);
  }

  function curves() {
    const names = [...new Set(data.curves.flatMap(one => Object.keys(one.series)))];
    if (!names.length) return;
    const body = section("Curves", "of the best " + Math.min(8, data.curves.length));
    const select = el("select", { "aria-label": "metric" }, ...names.map(name => el("option", { value: name, text: name })));
    if (names.includes(metric)) select.value = metric;
    const place = el("div"), labels = el("div", { class: "past" });
    function chart(w) {
      const shown = data.curves.filter(one => (one.series[select.value] || []).length).slice(0, 8);
      const lines = shown.map(one => one.series[select.value].map((point, i) => [point[0] === null ? i : point[0], point[2]]).filter(point => point[1] !== null));
      labels.replaceChildren(...shown.map((one, i) => { const mark = el("span", { class: "curve", text: "━ " + one.label }); mark.style.color = HUES[i]; return mark; }));
      const all = lines.flat(), h = 320, left = 60, right = 20;
      if (!all.length) return el("p", { class: "past", text: "no numbers" });
      const xs = all.map(p => p[0]), ys = all.map(p => p[1]).sort((a, b) => a - b);
      const x0 = Math.min(...xs), x1 = Math.max(...xs), y0 = ys[0], most = ys[ys.length - 1];
      const usual = ys[Math.floor((ys.length - 1) * 0.99)], y1 = most - y0 > 3 * (usual - y0) ? usual : most; // a spike is cut, the best is not
      const x = v => left + (w - left - right) * (v - x0) / (x1 - x0 || 1), y = v => 10 + (h - 40) * (1 - (Math.min(v, y1) - y0) / (y1 - y0 || 1));
      const drawn = svg("svg", { viewBox: `0 0 ${w} ${h}`, role: "img" });
      for (const value of ticks(y0, y1, 5)) drawn.append(svg("line", { x1: left, x2: w - right, y1: y(value), y2: y(value), stroke: "var(--line)" }), svg("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, short(value)));
      for (const at of ticks(x0, x1, Math.floor(w / 90))) drawn.append(svg("text", { x: x(at), y: h - 8, "text-anchor": "middle" }, short(at)));
      lines.forEach((points, i) => {
        const line = svg("polyline", { points: points.map(p => x(p[0]) + "," + y(p[1])).join(" "), fill: "none", stroke: HUES[i], "stroke-width": 1.8 });
        line.append(svg("title", {}, shown[i].label));
        drawn.append(line);
      });
      return drawn;
    }
    const draw = () => place.replaceChildren(chart(Math.max(300, place.clientWidth)));
    select.addEventListener("change", draw);
    body.append(el("p", {}, select), place, labels);
    drawnIn(place, chart);
  }

  function timeline() {
    if (!data.bars.length) return;
    const end = Math.max(...data.bars.map(bar => bar.to === null ? data.made : bar.to)), start = Math.min(...data.bars.map(bar => bar.from));
    const slots = [...new Set(data.bars.map(bar => bar.slot))].sort((a, b) => a.localeCompare(b, undefined, { numeric: true }));
    const days = end - start > 86400, body = section("Timeline", clock(start, false, days) + " – " + clock(end, false, days));
    const tracks = ((data.load && data.load.tracks) || []).filter(track => track.load.some(value => value !== null));
    const row = 26, h = slots.length * row + 24, place = el("div");
    body.append(place);
    drawnIn(place, w => {
      const x = at => LEFT + (w - LEFT - 10) * (at - start) / (end - start || 1);
      const drawn = svg("svg", { viewBox: `0 0 ${w} ${h}`, role: "img" });
      slots.forEach((slot, i) => drawn.append(svg("text", { x: 0, y: i * row + 16 }, slot)));
      data.bars.forEach((bar, i) => {
        const at = slots.indexOf(bar.slot), to = bar.to === null ? data.made : bar.to, width = Math.max(1, x(to) - x(bar.from) - 0.6);
        const box = svg("rect", { x: x(bar.from), y: at * row + 3, width, height: row - 8, fill: bar.bad ? "var(--bad)" : "var(--load)", opacity: bar.bad ? 1 : i % 2 ? 0.95 : 0.7 });
        box.append(svg("title", {}, "#" + bar.job + "  " + duration(to - bar.from) + (bar.mean !== null ? "  GPU " + Math.round(bar.mean) + " %" : "")));
        drawn.append(box);
        const label = "#" + bar.job;
        if (width > 8 + 7 * label.length) { const text = svg("text", { x: x(bar.from) + 4, y: at * row + 17 }, label); text.style.fill = "var(--page)"; drawn.append(text); }
      });
      for (const [at, text] of timeTicks(start, end, Math.floor((w - LEFT) / 90))) drawn.append(svg("text", { x: Math.min(x(at), w - 30), y: h - 4, "text-anchor": "middle" }, text));
      return drawn;
    });
    if (tracks.length) utilisation(tracks);
    if (data.devices.length) shares();
  }

  const LEFT = 74;
  function utilisation(tracks) {
    const others = tracks.some(track => track.others.some(Boolean));
    const body = section("Utilisation", "over the same time" + (others ? "; grey: other people's processes" : ""));
    for (const track of tracks) {
      const place = el("div");
      body.append(place);
      drawnIn(place, w => {
        const step = (w - LEFT - 10) / track.load.length, drawn = svg("svg", { viewBox: `0 0 ${w} 40`, role: "img" });
        drawn.append(svg("text", { x: 0, y: 24 }, track.label));
        track.load.forEach((value, i) => { if (value !== null) drawn.append(svg("rect", { x: LEFT + i * step, y: 36 - 32 * value, width: step, height: 32 * value, fill: track.others[i] ? "var(--others)" : "var(--load)" })); });
        return drawn;
      });
    }
  }

  function shares() {
    const body = section("Busy", "share of session time with a job on the device");
    for (const one of data.devices) {
      const full = el("b"); full.style.width = one.share * 100 + "%";
      body.append(el("div", { class: "bar" }, el("span", { text: one.label }), el("i", {}, full), el("span", { text: Math.round(one.share * 100) + " %" }), el("span", { class: "past", text: one.jobs + (one.jobs === 1 ? " run" : " runs") })));
    }
  }

  function failures() {
    if (!data.failures.length) return;
    const body = section("Failures", data.facts.failed + " jobs");
    for (const one of data.failures) {
      const jobs = one.jobs.slice(0, 20).map(id => "#" + id).join(" ") + (one.count > 20 ? " …" : "");
      body.append(el("div", { class: "failure" }, el("b", { class: "bad", text: one.count + " × " }), el("code", { text: one.message }),
        el("div", { class: "past", text: [jobs, one.common ? "all " + one.common : "", one.where].filter(Boolean).join("  ·  ") })));
    }
  }

  head(); results(); effects(); curves(); timeline(); failures();
  page.append(el("p", { class: "past", text: "generated by gputui report, " + date(data.made) }));
  document.documentElement.dataset.ready = "yes";
})();
