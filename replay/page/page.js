"use strict";
(() => {
  const color = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const whole = n => n == null ? "–" : n.toLocaleString("en-US");
  const times = series.offered.map((_, i) => series.start + i * series.width_seconds);
  const allowed = series.offered.map((n, i) => n - series.denied[i]);
  const utc = t => uPlot.tzDate(new Date(t * 1e3), "Etc/UTC");
  const stamp = uPlot.fmtDate("{YYYY}-{MM}-{DD} {HH}:{mm}:{ss}");
  const clock = {
    label: "From", value: (_, t) => t == null ? "–" : stamp(utc(t)),
  };
  // The last bucket is drawn to its end; a stepped line needs a point there.
  const x = times.concat(series.start + times.length * series.width_seconds);
  const closed = values => values.concat(values[values.length - 1]);

  const line = (label, tone) => ({
    label, value: (_, n) => whole(n), width: 1.25, points: { show: false },
    stroke: () => color(tone), fill: () => color(tone + "-fill"), paths: uPlot.paths.stepped({ align: 1 }),
  });
  const axis = extra => ({ stroke: () => color("soft"), grid: { stroke: () => color("line"), width: 1 }, ticks: { show: false }, ...extra });

  const form = Object.fromEntries(["{YYYY}-{MM}-{DD}", "{HH}:{mm}", "{HH}:{mm}:{ss}"].map(f => [f, uPlot.fmtDate(f)]));
  // Ticks name the day once, below the first tick of it.
  const ticks = (_, at, axisNumber, space, step) => {
    let day = "";
    return at.map(t => {
      const date = form["{YYYY}-{MM}-{DD}"](utc(t));
      if (step >= 86400) return date;
      const time = form[step >= 60 ? "{HH}:{mm}" : "{HH}:{mm}:{ss}"](utc(t));
      const below = date === day ? "" : "\n" + date;
      day = date;
      return time + below;
    });
  };
  const counts = (_, at) => at.map(n => Number.isInteger(n) ? whole(n) : "");

  const charts = [];
  const draw = (id, data, lines) => {
    const element = document.getElementById(id);
    if (!element) return;
    const chart = new uPlot({
      width: element.clientWidth, height: 230, tzDate: utc, series: [clock, ...lines],
      cursor: { sync: { key: "time" }, y: false, points: { show: false } },
      scales: { y: { range: (_, low, high) => [0, Math.max(1, high * 1.08)] } },
      axes: [axis({ values: ticks, space: 90 }), axis({ values: counts, size: 64 })],
    }, [x, ...data.map(closed)], element);
    charts.push({ element, chart });
  };

  draw("offered", [series.offered, allowed], [line("Offered", "denied"), line("Allowed", "allowed")]);
  draw("peaks", [series.peak_offered, series.peak_allowed], [line("Offered", "denied"), line("Allowed", "allowed")]);
  draw("refused", [series.denied], [line("Denied", "denied")]);

  // Curves of many limits: shares of denied keys and requests, over the limit on a logarithmic axis.
  const share = n => n == null ? "–" : n.toLocaleString("en-US", { maximumFractionDigits: 2 }) + " %";
  const curve = (label, tone) => ({ ...line(label, tone), value: (_, n) => share(n), fill: null, width: 2, paths: undefined });
  sweeps.forEach((sweep, i) => {
    const element = document.getElementById("sweep-" + i);
    if (!element || sweep.points.length < 2) return;
    const of = (name, all) => sweep.points.map(p => 100 * p[name] / all);
    const chart = new uPlot({
      width: element.clientWidth, height: 230,
      series: [{ label: "Limit per " + sweep.per, value: (_, n) => whole(n) }, curve("Denied keys", "denied"), curve("Denied requests", "allowed")],
      cursor: { y: false },
      scales: { x: { time: false, distr: 3 }, y: { range: (_, low, high) => [0, Math.max(1, high * 1.08)] } },
      axes: [axis({ values: counts, space: 50 }), axis({ values: (_, at) => at.map(n => n + " %"), size: 64 })],
    }, [sweep.points.map(p => p.requests), of("denied_keys", sweep.keys), of("denied", sweep.takes)], element);
    charts.push({ element, chart });
  });

  addEventListener("resize", () => {
    for (const { element, chart } of charts) chart.setSize({ width: element.clientWidth, height: 230 });
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const { chart } of charts) chart.redraw();
  });
})();
