// Overview: is it working, what passes, what is denied?

const card = (title, id) => {
  const value = el("dd", { id }, "–"), small = el("dd", { className: "small", id: id + "-more" }, "\u00a0");
  return { element: el("div", { className: "card" }, el("dt", {}, title), value, small), set(v, more, bad) {
    put(value, v);
    put(small, more || "\u00a0");
    small.parentElement.classList.toggle("bad", Boolean(bad));
  } };
};

views.overview = {
  title: "Overview",
  async open(page) {
    await known.load(); // the rules in shadow mode do not count
    const cards = {
      allowed: card("Allowed a second", "allowed"), denied: card("Denied a second", "denied"), over: card("Over a second", "over"),
      degraded: card("Degraded a second", "degraded"), latency: card("Latency, median", "latency"), store: card("Store", "store"),
      nodes: card("Nodes", "nodes"), reloads: card("Rules", "reloads"),
    };
    const now = chart("Decisions a second, the last five minutes", ["allowed", "denied", "over", "degraded"], { height: 180, unit: "/s", seconds: 300 });
    const day = chart("Decisions a second of this node, the last 24 hours by minute", ["allowed", "denied", "over", "degraded"], { height: 180, unit: "/s", seconds: 86400 });
    page.use(now, day);
    const top = table({
      name: "Rules with most denials now", id: r => r.domain + " " + r.name, sort: "Denied a second", rows: 5,
      nothing: empty("No rule has decided anything yet", "Send a request to /v1/check, or see README for a first limit."),
      columns: [
        { title: "Rule", value: r => r.name, show: r => link(r.name, ["rules", r.domain, r.name]), className: "key" },
        { title: "Domain", value: r => r.domain },
        { title: "Denied a second", value: r => r.rates ? r.rates.denied : 0, show: r => rate(r.rates ? r.rates.denied : NaN), number: true },
        { title: "Allowed a second", value: r => r.rates ? r.rates.allowed : 0, show: r => rate(r.rates ? r.rates.allowed : NaN), number: true },
        { title: "Denied", value: r => r.denied, number: true },
        { title: "Allowed", value: r => r.allowed, number: true },
      ],
    });
    const changes = table({
      name: "Changes in the last 24 hours", id: m => m.at + m.what, sort: "Time", rows: 1,
      nothing: empty("Nothing changed", "Reloads of the rules, refused reloads and changes of epoch stand here."),
      columns: [
        { title: "Time", value: m => m.at, show: m => stamp(moment(m.at)), className: "time" },
        { title: "Change", value: m => m.what },
        { title: "Note", value: m => m.note || "" },
      ],
    });
    const alert = el("div", { className: "alerts", role: "alert" });
    let before = null;
    const frame = f => {
      const rates = live.rates(), last = rates.findLast(r => r.allowed != null);
      for (const name of ["allowed", "denied", "over", "degraded"]) cards[name].set(last ? rate(last[name]) : "–", last && name !== "allowed" ? share(last[name], last.allowed + last.denied) : "", name === "degraded" && last && last.degraded > 0);
      if (rates.length) now.draw(rates);
      showNodes(cards, f.nodes);
      const at = Date.parse(f.at) / 1000, rows = [];
      for (const [key, r] of live.rules) {
        const old = before && before.rules.get(key);
        const seconds = before ? at - before.at : 0;
        rows.push({ ...r, rates: old && seconds > 0 && before.names === live.names ? { allowed: (r.allowed - old.allowed) / seconds, denied: (r.denied - old.denied) / seconds } : null });
      }
      before = { at, names: live.names, rules: new Map(live.rules) };
      rows.sort((a, b) => (b.rates ? b.rates.denied - (a.rates ? a.rates.denied : 0) : 0) || b.denied - a.denied);
      top.fill(rows.filter(r => r.allowed + r.denied > 0).slice(0, 5));
    };
    page.every(60, async () => {
      const h = await optional(api.get("/v1/facts/history", { step: "1m" }));
      if (!h) return;
      day.draw(perSecond(h), marksOf(h));
      changes.fill(h.marks);
    });
    const readiness = async () => {
      const [ready, alarms] = await Promise.all([api.get("/readyz"), optional(api.get("/v1/alarms"))]);
      cards.reloads.set(whole(ready.rules.count), "generation " + ready.rules.generation + ", " + (ready.rules.hash || "no rules"), ready.rules.reload_error);
      const [kind, where] = (ready.store.kind || "–").split("://");
      cards.store.set(kind, ready.store.error || (where ? where + ", no error" : "no error"), ready.store.error);
      const wrong = [
        !ready.ready && ["Not ready: " + ready.reason + ".", null],
        ready.store.error && ["The store has an error: " + ready.store.error + ". Rules answer by their on_store_failure.", null],
        ready.rules.reload_error && ["The last reload was refused; earlier rules are in force. ", link("See the faults", ["text"])],
        ready.catalog && ready.catalog.reload_error && ["The last reload of rules per API was refused: " + ready.catalog.reload_error, null],
        ...(alarms ? alarms.alarms || [] : []).map(a => [(a.text || a.kind) + (a.hint ? " " + a.hint : ""), a.rule ? link(" See the rule", ["rules", a.domain || "", a.rule]) : null]),
      ].filter(Boolean);
      alert.replaceChildren(...wrong.map(([text, more]) => el("p", { className: "alert" }, text, more)));
    };
    await readiness(); // before anything is shown, so that an alert moves nothing
    page.show(alert, el("dl", { className: "cards" }, Object.values(cards).map(c => c.element)),
      section("Now", now.element), section("Which rules deny", top.element), section("Today", day.element, changes.element));

    page.every(5, readiness, true);
    page.live(frame);
  },
};

// showNodes fills the cards about nodes.
const showNodes = (cards, nodes) => {
  const hashes = new Set(nodes.map(n => n.hash)), failing = nodes.filter(n => n.store_error);
  const slowest = nodes.reduce((a, n) => Math.max(a, n.median_ns), 0), p99 = nodes.reduce((a, n) => Math.max(a, n.p99_ns), 0);
  cards.latency.set(span(slowest), p99 ? "p99 " + span(p99) : "not measured yet");
  cards.nodes.set(whole(nodes.length), hashes.size > 1 ? "they have different rules" : failing.length ? failing.length + " with an error of the store" : "the same rules", hashes.size > 1 || failing.length);
};
