// What the views share.
const views = { __proto__: null }; // an address may have any name

// Numbers, durations and times as text. Times are in the zone that the viewer chose.

const number = new Intl.NumberFormat("en-US");
const whole = n => n == null || !Number.isFinite(n) ? "–" : number.format(Math.round(n));

// rate shows a number a second: whole from ten on.
const rate = n => !Number.isFinite(n) ? "–" : n >= 10 || n === 0 ? whole(n) : n.toFixed(1);

// share shows a part as a percentage of a whole.
const share = (part, all) => !all ? "–" : percent(part / all);
const percent = x => !Number.isFinite(x) ? "–" : x === 0 ? "0 %" : x > 0 && x < 0.001 ? "< 0.1 %" : (100 * x).toFixed(x < 0.1 ? 1 : 0) + " %";

// span shows nanoseconds in the unit that suits them; 0 is not measured.
const span = ns => {
  if (!ns) return "–";
  for (const [size, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]]) {
    if (ns >= size) return Number((ns / size).toPrecision(3)) + " " + unit;
  }
  return ns + " ns";
};

// age shows how long ago a time was.
const age = at => {
  const s = Math.max(0, (Date.now() - at) / 1000);
  for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "min"]]) {
    if (s >= size) return Math.floor(s / size) + " " + unit + " ago";
  }
  return Math.floor(s) + " s ago";
};

// moment reads a time of the API; null for the zero time of Go.
const moment = text => !text || text.startsWith("0001-") ? null : new Date(text);

const local = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
const zone = {
  name: "",
  forms: {},
  use(name) {
    this.name = name;
    const form = (options) => new Intl.DateTimeFormat("en-CA", { timeZone: name, hourCycle: "h23", ...options });
    const day = { year: "numeric", month: "2-digit", day: "2-digit" }, time = { hour: "2-digit", minute: "2-digit" };
    this.forms = { day: form(day), time: form(time), second: form({ ...time, second: "2-digit" }) };
  },
};

// stored is the setting of this browser with a name; browsers may refuse to keep settings.
const stored = {
  get(name) { try { return localStorage.getItem("stint." + name); } catch { return null; } },
  set(name, value) { try { localStorage.setItem("stint." + name, value); } catch { /* it lasts until the page is closed */ } },
};

{
  const known = stored.get("zone");
  try { zone.use(known || local); } catch { zone.use("UTC"); }
}

const stamp = at => at ? zone.forms.day.format(at) + " " + zone.forms.second.format(at) : "never";

// limitText shows the numbers of a limit in one line.
const limitText = l => {
  if (!l || l.algorithm === "unlimited") return "unlimited";
  const more = [];
  if (l.burst != null && l.burst !== l.requests) more.push("burst " + whole(l.burst));
  if (l.blocks > 1) more.push(whole(l.blocks) + " blocks");
  return [l.algorithm + ": " + whole(l.requests) + (l.per ? " per " + l.per : ""), ...more].join(", ");
};

// entriesText shows the entries of a key. A value that the rule file does not show is a star.
const entriesText = entries => (entries || []).map(e => e.key + "=" + (e.value || "∗")).join(" ");
