// Coordination: the nodes, what they have borrowed, and changes of epoch.

views.coordination = {
  title: "Coordination",
  async open(page, _, query) {
    await known.load();
    const nodes = table({
      name: "Nodes", quiet: true, id: n => n.name, sort: "Node", descending: false, rows: 3,
      nothing: empty("No node has reported yet", "A node reports every 5 s; without Redis a page shows its own node alone."),
      columns: [
        { title: "Node", value: n => n.name, className: "key" }, { title: "Reported", value: n => n.at, show: n => age(moment(n.at)) },
        { title: "Decisions", value: n => n.decided, number: true }, { title: "Without decision", value: n => n.failed, number: true }, { title: "Degraded", value: n => n.degraded, number: true },
        { title: "Median", value: n => n.median_ns, show: n => span(n.median_ns), number: true }, { title: "p99", value: n => n.p99_ns, show: n => span(n.p99_ns), number: true },
        { title: "Rules", value: n => n.hash + " (" + n.generation + ")", className: "key" }, { title: "Store", value: n => n.store_error || "no error" },
      ],
    });
    const differ = el("div");
    const modes = table({
      name: "How rules are coordinated", id: m => m.mode, nothing: empty("No rules are in force", "Start the service with --rules FILE."),
      columns: [{ title: "Mode", value: m => m.mode }, { title: "Rules", value: m => m.n, number: true }, { title: "While the store is away", value: m => m.failure }],
    });
    const groups = new Map();
    for (const r of known.rules()) {
      const key = r.coordination + " " + r.on_store_failure, g = groups.get(key) || { mode: r.coordination, failure: r.on_store_failure, n: 0 };
      g.n++;
      groups.set(key, { ...g });
    }
    modes.fill([...groups.values()].map(g => ({ ...g, mode: g.mode })));
    const epochs = table({
      name: "Epochs", quiet: true, id: m => m.at + m.what, sort: "Time", rows: 1,
      nothing: empty("The epoch did not change in the last 7 days", "It changes when the store loses its data or another server takes over."),
      columns: [{ title: "Time", value: m => m.at, show: m => stamp(moment(m.at)), className: "time" }, { title: "Change", value: m => m.what }, { title: "Note", value: m => m.note || "" }],
    });
    const leases = el("div", { id: "leases" });
    const domains = known.domains();
    const domain = select(domains.length ? domains : [""], query.domain || domains[0] || "", () => {}, "domain");
    const entries = el("textarea", { rows: 2, name: "entries", placeholder: "user=42", value: query.entries || "" });
    const form = el("form", { className: "filters", onsubmit: e => { e.preventDefault(); go(["coordination"], { domain: domain.value, entries: entries.value.trim() }, true); } },
      field("Domain", domain), field("Entries, one a line", entries), el("button", { type: "submit" }, "Show leases"));
    const showFleet = list => {
      nodes.fill(list);
      const hashes = new Set(list.map(n => n.hash));
      differ.replaceChildren(...hashes.size > 1 ? [el("p", { className: "alert" }, "The nodes decide by different rules: " + [...hashes].join(", ") + ". Reload those that have the old ones.")] : []);
    };
    const summary = await optional(api.get("/v1/facts"));
    if (summary) showFleet(summary.nodes);
    page.show(section("Nodes", differ, nodes.element), section("Modes", modes.element), section("Leases of a key", form, leases), section("Epochs", epochs.element));
    page.live(f => showFleet(f.nodes));
    page.every(60, async () => {
      const h = await optional(api.get("/v1/facts/history", { step: "10m" }));
      if (h) epochs.fill(h.marks.filter(m => m.what === "epoch"));
    });
    if (query.entries) await showLeases(leases, { domain: query.domain, descriptors: [{ entries: parseEntries(query.entries) }] });
  },
};

async function showLeases(box, check) {
  try {
    const state = await api.call("POST", "/v1/inspect", check);
    const leased = state.limits.filter(l => l.leases);
    if (!leased.length) return box.replaceChildren(empty("No leased limit applies to this key", "Only rules with coordination: leased lend units to nodes."));
    box.replaceChildren(...leased.map(l => {
      const t = table({
        name: "Leases of " + l.rule, id: n => n.node, nothing: empty("Nothing of this key is lent", "The store lends units of busy keys only."),
        columns: [{ title: "Node", value: n => n.node + (n.here ? " (this one)" : ""), className: "key" }, { title: "Units", value: n => n.units, number: true }, { title: "Reported", value: n => n.age_ms, show: n => span(n.age_ms * 1e6) + " ago", number: true }],
      });
      t.fill(l.leases.nodes);
      return el("div", {}, el("p", {}, "Lent: " + whole(l.leases.lent) + "; this node can spend " + whole(l.leases.here.units) + (l.leases.epoch_ms ? "; epoch since " + stamp(new Date(l.leases.epoch_ms)) : "") + (l.leases.store_error ? "; the store does not answer: " + l.leases.store_error : "") + "."), t.element);
    }));
  } catch (e) {
    box.replaceChildren(empty("No answer: " + e.message, "Look at the domain and the entries."));
  }
}
