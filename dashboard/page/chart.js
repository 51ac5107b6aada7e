// Charts with uPlot. Each has a text for those who do not see it.

const color = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const tones = { allowed: "allowed", denied: "denied", over: "over", degraded: "degraded", then: "over" };
const charts = new Set();

// inZone gives uPlot a date whose fields are those of the chosen time zone.
const inZone = t => uPlot.tzDate(new Date(t * 1000), zone.name);

const axis = more => ({ stroke: () => color("soft"), grid: { stroke: () => color("line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif", ...more });

// ticks names the day once, below the first tick of it.
const ticks = (_, at, axisNumber, space, step) => {
  let day = "";
  return at.map(t => {
    const date = new Date(t * 1000), name = zone.forms.day.format(date);
    if (step >= 86400) return name;
    const below = name === day ? "" : "\n" + name;
    day = name;
    return (step < 60 ? zone.forms.second : zone.forms.time).format(date) + below;
  });
};

// chart makes a chart of named lines over so many seconds until the last point. draw(rows, marks) shows rows {at, NAME...}, with vertical lines
// at the times of marks.
const chart = (title, names, { height = 200, labels = {}, unit = "", seconds } = {}) => {
  const box = el("div", { className: "chart", role: "img", "aria-label": title });
  box.style.height = height + "px";
  const readout = el("p", { className: "readout", "aria-hidden": "true" }, "\u00a0");
  const legend = el("ul", { className: "legend" }, names.map(n => el("li", { className: "tone-" + tones[n] }, labels[n] || n)));
  let plot = null, marks = [];
  const show = (u, i) => {
    if (i == null) return put(readout, "\u00a0");
    const at = u.data[0][i];
    put(readout, stamp(new Date(at * 1000)) + "  " + names.map((n, k) => (labels[n] || n) + " " + rate(u.data[k + 1][i]) + unit).join(", "));
  };
  const make = data => new uPlot({
    width: box.clientWidth || 600, height, tzDate: inZone, legend: { show: false },
    series: [{}, ...names.map(n => ({ label: n, width: 1.5, points: { show: false }, stroke: () => color(tones[n]), fill: () => color(tones[n] + "-fill"), spanGaps: false }))],
    cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
    scales: { x: { range: (_, low, high) => [high - seconds, high] }, y: { range: (_, low, high) => [0, Math.max(1, (high || 0) * 1.1)] } },
    axes: [axis({ values: ticks, space: 90, size: 40 }), axis({ values: (_, at) => at.map(n => Number.isInteger(n) ? whole(n) : ""), size: 58 })],
    hooks: {
      setCursor: [u => show(u, u.cursor.idx)],
      draw: [u => {
        for (const m of marks) {
          const x = Math.round(u.valToPos(m.at, "x", true));
          if (x < u.bbox.left || x > u.bbox.left + u.bbox.width) continue;
          u.ctx.save();
          u.ctx.strokeStyle = color(m.bad ? "denied" : "soft");
          u.ctx.setLineDash([4, 4]);
          u.ctx.beginPath();
          u.ctx.moveTo(x, u.bbox.top);
          u.ctx.lineTo(x, u.bbox.top + u.bbox.height);
          u.ctx.stroke();
          u.ctx.restore();
        }
      }],
    },
  }, data, box);
  const self = {
    element: el("figure", {}, el("figcaption", {}, title), legend, box, readout),
    draw(rows, vertical) {
      marks = vertical || [];
      const data = [rows.map(r => r.at), ...names.map(n => rows.map(r => r[n]))];
      if (plot && box.clientWidth && plot.width !== box.clientWidth) self.resize();
      if (plot) plot.setData(data);
      else plot = make(data);
      const last = rows.findLast(r => r[names[0]] != null);
      box.setAttribute("aria-label", title + ": " + (last ? names.map(n => (labels[n] || n) + " " + rate(last[n]) + unit).join(", ") + " at the end" : "no data yet"));
    },
    resize() { if (plot && box.clientWidth) plot.setSize({ width: box.clientWidth, height }); },
    redraw() { if (plot) plot.redraw(); },
    destroy() { if (plot) plot.destroy(); charts.delete(self); },
  };
  charts.add(self);
  return self;
};

addEventListener("resize", () => { for (const c of charts) c.resize(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { for (const c of charts) c.redraw(); });

// perSecond turns the counts of a history into decisions a second.
const perSecond = history => {
  const seconds = history.step_ns / 1e9;
  const rows = [];
  let last = null;
  for (const p of history.points) {
    const at = Date.parse(p.at) / 1000;
    if (last !== null && at - last > 1.5 * seconds) {
      for (const gap of [last + seconds, at - seconds]) rows.push({ at: gap, allowed: 0, denied: 0, over: 0, degraded: 0 });
    }
    rows.push({ at, allowed: p.allowed / seconds, denied: p.denied / seconds, over: p.over / seconds, degraded: p.degraded / seconds });
    last = at;
  }
  return rows;
};

const marksOf = history => history.marks.map(m => ({ at: Date.parse(m.at) / 1000, bad: m.what.includes("fail") }));
