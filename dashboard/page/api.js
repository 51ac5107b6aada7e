// The admin API: requests in the session of the viewer, and the stream of live frames.

// Fault is an answer with an error, in the words of the API.
class Fault extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

const session = { login: false, caller: "", role: "write", csrf: "" };
const roles = ["read", "support", "write"];
const may = role => roles.indexOf(session.role) >= roles.indexOf(role);

const api = {
  async call(method, path, body, headers) {
    const options = { method, headers: { Accept: "application/json", ...headers }, cache: "no-store", credentials: "same-origin" };
    if (body !== undefined) {
      options.body = JSON.stringify(body);
      options.headers["Content-Type"] = "application/json";
    }
    if (method !== "GET" && session.csrf) options.headers["X-Stint-CSRF"] = session.csrf;
    let response;
    try {
      response = await fetch(path.replace(/^\//, ""), options);
    } catch {
      throw new Fault(0, "unreachable", "The service does not answer. Is it running?");
    }
    const text = await response.text();
    let answer = null;
    try { answer = text ? JSON.parse(text) : null; } catch { answer = null; }
    if (response.ok || path === "/readyz" && answer) return answer;
    if (response.status === 401 && path !== "/login") showLogin("The session has ended, or it has no token any more.");
    const error = answer && answer.error;
    throw new Fault(response.status, error ? error.code : "", error ? error.message : "status " + response.status);
  },
  get(path, query) {
    const q = new URLSearchParams(Object.entries(query || {}).filter(([, v]) => v !== "" && v != null));
    return this.call("GET", path + (q.size ? "?" + q : ""));
  },
};

// because is the header with the reason of a change, as UTF-8.
const because = why => ({ "X-Stint-Why": String.fromCharCode(...new TextEncoder().encode(why)) });

// optional returns what an endpoint answers, or null where this service does not have it.
const optional = promise => promise.catch(e => { if (e.status === 404) return null; throw e; });

// live is the stream of frames. It is closed while the page is hidden, and open in all views, so that
// the last five minutes are whole.
const live = {
  source: null,
  listeners: new Set(),
  rules: new Map(), // counts by domain and name, of all frames
  nodes: [],
  names: "", // of the nodes
  samples: [], // sums of counts by time, one a frame
  heard: 0, // when the last frame came, or the stream began
  subscribe(f) {
    this.listeners.add(f);
    return () => this.listeners.delete(f);
  },
  adjust() {
    const wanted = !document.hidden && !session.login;
    if (wanted === (this.source !== null)) return;
    if (!wanted) {
      this.source.close();
      this.source = null;
      this.show(document.hidden ? "paused" : "off");
      return;
    }
    this.rules.clear();
    this.samples.push(null); // a gap
    this.source = new EventSource("v1/live");
    this.source.onmessage = e => this.take(JSON.parse(e.data));
    this.source.onerror = () => this.failed();
    this.heard = performance.now();
    this.show("connecting");
  },
  // watch looks whether frames still come. Of a service that is frozen, or of a network that lost the connection, a
  // browser says nothing.
  watch() {
    const silent = performance.now() - this.heard;
    if (!this.source || silent < 4000) return;
    if (silent >= 8000) {
      this.source.close();
      this.source = null;
      this.adjust();
    }
    this.show("no connection");
  },
  show(state) {
    $("live").dataset.state = state;
    put($("live"), state);
  },
  // failed: a browser tries again by itself, unless the answer was an error.
  failed() {
    this.show("no connection");
    if (this.source && this.source.readyState === EventSource.CLOSED) {
      this.source = null;
      api.get("/session").then(s => { if (s.login) showLogin("The session has ended."); else if (!document.hidden) setTimeout(() => this.adjust(), 2000); })
        .catch(() => setTimeout(() => this.adjust(), 2000));
    }
  },
  take(frame) {
    this.heard = performance.now();
    this.show("live");
    for (const r of frame.rules) this.rules.set(JSON.stringify([r.domain, r.name]), r);
    this.nodes = frame.nodes;
    const names = frame.nodes.map(n => n.name).sort().join("\n");
    if (names !== this.names) this.samples.push(null); // a node brings or takes all that it counted before
    this.names = names;
    const sum = { at: Date.parse(frame.at) / 1000, allowed: 0, denied: 0, over: 0, degraded: 0 };
    for (const r of this.rules.values()) {
      if (shadows.has(JSON.stringify([r.domain, r.name]))) continue;
      for (const name of ["allowed", "denied", "over", "degraded"]) sum[name] += r[name];
    }
    this.samples.push(sum);
    if (this.samples.length > 302) this.samples.shift();
    document.body.dataset.first ??= Math.round(performance.now()); // for tests: when the first frame came
    document.body.dataset.frames = Number(document.body.dataset.frames || 0) + 1;
    for (const f of this.listeners) f(frame);
  },
  // rates are decisions a second by outcome, between frames of the last five minutes.
  rates() {
    const out = [];
    for (let i = 1; i < this.samples.length; i++) {
      const a = this.samples[i - 1], b = this.samples[i];
      if (!a || !b || b.at <= a.at) {
        if (b && out.length) out.push({ at: b.at, allowed: null, denied: null, over: null, degraded: null });
        continue;
      }
      const one = { at: b.at };
      for (const name of ["allowed", "denied", "over", "degraded"]) one[name] = Math.max(0, b[name] - a[name]) / (b.at - a.at);
      out.push(one);
    }
    return out;
  },
};

// shadows are the rules in shadow mode, which decide nothing.
const shadows = new Set();

// table is what the rules in force are, by domain and name. Their numbers change with a reload.
const known = {
  limits: null,
  async load() {
    this.limits = await api.get("/v1/limits");
    const before = [...shadows].join();
    shadows.clear();
    for (const d of this.limits.domains) for (const r of d.rules) if (r.shadow) shadows.add(JSON.stringify([d.domain, r.name]));
    if (before !== [...shadows].join()) live.samples.push(null); // sums of before and after differ
    return this.limits;
  },
  rules() { return this.limits.domains.flatMap(d => d.rules.map(r => ({ domain: d.domain, ...r }))); },
  rule(domain, name) { return this.rules().find(r => r.domain === domain && r.name === name); },
  domains() { return this.limits.domains.map(d => d.domain); },
};
