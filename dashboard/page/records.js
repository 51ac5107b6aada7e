// Records and their audit trail.

const noRecords = () => empty("This service has no records", "Start it with --records FILE, and bans and overrides can be made here while it runs.");

const recordKinds = {
  bans: ["ban", [
    { title: "Banned", value: r => r.subject || r.address || r.network, className: "key" }, { title: "Until", value: r => r.until || "", show: r => untilText(r), className: "time" },
    { title: "Why", value: r => r.why || "" }, { title: "Changed", value: r => r.changed, show: r => stamp(moment(r.changed)), className: "time" },
  ], r => "/v1/bans/" + encodeURIComponent(r.subject || r.address || r.network)],
  overrides: ["override", [
    { title: "Whose", value: r => r.subject || r.pattern, className: "key" }, { title: "Rule", value: r => r.rule, className: "key" },
    { title: "Requests", value: r => r.unlimited ? "unlimited" : r.requests, number: true }, { title: "Per", value: r => r.per || "" }, { title: "Burst", value: r => r.burst, number: true },
    { title: "Until", value: r => r.until || "", show: r => untilText(r), className: "time" }, { title: "Why", value: r => r.why || "" }, { title: "Changed", value: r => r.changed, show: r => stamp(moment(r.changed)), className: "time" },
  ], r => "/v1/overrides/" + encodeURIComponent(r.subject || r.pattern) + "/" + encodeURIComponent(r.rule)],
  subjects: ["subject", [
    { title: "Subject", value: r => r.subject, className: "key" }, { title: "Kind", value: r => r.kind || "" }, { title: "Plan", value: r => r.plan || "" },
    { title: "Groups", value: r => (r.groups || []).join(", ") }, { title: "Notes", value: r => r.notes || "" }, { title: "Changed", value: r => r.changed, show: r => stamp(moment(r.changed)), className: "time" },
  ], null],
  keys: ["API key", [
    { title: "Hash", value: r => r.hash, show: r => r.hash.slice(0, 12), className: "key" }, { title: "Ends with", value: r => r.last || "" }, { title: "Subject", value: r => r.subject || "", className: "key" },
    { title: "Until", value: r => r.until || "", show: r => untilText(r), className: "time" }, { title: "Why", value: r => r.why || "" }, { title: "Changed", value: r => r.changed, show: r => stamp(moment(r.changed)), className: "time" },
  ], null],
};

const untilText = r => r.until ? stamp(new Date(r.until)) + (r.ended ? " (ended)" : "") : "no end";

views.records = {
  title: "Records",
  async open(page, _, query) {
    const kind = recordKinds[query.kind] ? query.kind : "bans";
    const status = await optional(api.get("/v1/records"));
    if (!status) return page.show(section("Records", noRecords()));
    const [noun, columns, path] = recordKinds[kind];
    let reload = () => {};
    const remove = path && { title: "End", action: true, value: () => "", show: r => el("button", { type: "button", disabled: !may("support"), "aria-label": "End " + (r.subject || r.pattern || r.address || r.network), onclick: () => confirmEnd(noun, r, path(r), reload) }, "End") };
    const list = table({
      name: kind[0].toUpperCase() + kind.slice(1), id: r => r.hash || [r.subject, r.pattern, r.address, r.network, r.rule].join(" "), sort: "Changed", rows: 5,
      nothing: empty("There is no " + noun, kind === "bans" || kind === "overrides" ? "Make one with the form below, or with stint " + noun + "." : "See docs/records.md for how to make one."),
      columns: remove ? [...columns, remove] : columns,
    });
    const tabs = el("p", { className: "steps" }, Object.keys(recordKinds).map(k => el("a", { href: to(["records"], { kind: k }), "aria-current": k === kind ? "true" : null }, k + " (" + whole(status.kinds[recordKinds[k][0].toLowerCase().replace("api key", "key")] || 0) + ")")));
    const next = el("p", { className: "next" });
    const target = () => input(kind === "bans" ? "Subject, address or network" : "Subject or pattern", "subject", { required: true, placeholder: kind === "bans" ? "user=42 or 203.0.113.0/24" : "user=42 or user=test-*" });
    const forms = kind === "bans" ? [banForm(target(), () => reload())] : kind === "overrides" ? [overrideForm(target(), null, () => reload())] : [];
    page.show(section("Records",
      factList([["Revision", whole(status.revision)], ["Certain since", span(status.age_ms * 1e6) + " ago"], ["Changes", status.writable ? "can be made" : "cannot be made: " + status.error],
        ["Audit trail", whole(status.head.number) + " entries"], ["Nodes", status.nodes.length ? status.nodes.map(n => n.name + " at " + n.revision).join(", ") : "this one"]]),
      tabs, list.element, next, forms.length ? el("div", { className: "actions" }, forms) : null));
    reload = async () => {
      const answer = await api.get("/v1/" + kind, { after: query.after, limit: 100, rule: kind === "overrides" ? query.rule : "", subject: kind === "overrides" || kind === "keys" ? query.subject : "" });
      list.fill(answer.records);
      next.replaceChildren(...[query.after && link("First page", ["records"], { ...query, after: "" }), answer.next && link("Next page", ["records"], { ...query, after: answer.next })].filter(Boolean));
    };
    page.every(5, reload);
  },
};

// confirmEnd asks for the reason before a record is deleted.
const confirmEnd = (noun, r, path, done) => {
  const dialog = el("dialog", { "aria-label": "End the " + noun, onclose: () => dialog.remove() });
  const what = r.subject || r.pattern || r.address || r.network;
  dialog.append(ask("End the " + noun, "support", [el("p", {}, what + (r.rule ? ", rule " + r.rule : "")), whyField()], async f => {
    await api.call("DELETE", path, undefined, because(f.why));
    dialog.close();
    return "Ended: the " + noun + " of " + what + ".";
  }, done), el("button", { type: "button", onclick: () => dialog.close() }, "Cancel"));
  document.body.append(dialog);
  dialog.showModal();
};

views.audit = {
  title: "Audit",
  async open(page, _, query) {
    const filters = ["subject", "rule", "who", "since"];
    const form = el("form", { className: "filters", onsubmit: e => {
      e.preventDefault();
      go(["audit"], Object.fromEntries([...new FormData(form)].map(([k, v]) => [k, v.trim()])), true);
    } }, filters.map(n => input(n[0].toUpperCase() + n.slice(1), n, { value: query[n] || "", placeholder: { since: "7d", subject: "user=42" }[n] || "" })), el("button", { type: "submit" }, "Filter"));
    const verified = el("span", { role: "status" });
    const list = table({
      name: "Audit trail", id: e => String(e.number), sort: "Entry", rows: 8,
      nothing: empty("No entry", Object.values(query).some(Boolean) ? "Leave out a filter." : "Changes of records, resets and changes of rules per API stand here, with who made them and why."),
      columns: [
        { title: "Entry", value: e => e.number, number: true }, { title: "Time", value: e => e.time, show: e => stamp(moment(e.time)), className: "time" },
        { title: "Who", value: e => e.actor || "(no name)" }, { title: "From", value: e => e.from }, { title: "What", value: e => e.action + " " + e.kind },
        { title: "Object", value: e => e.erased ? "(erased)" : e.object || "", className: "key" }, { title: "Why", value: e => e.why || "" },
        { title: "Until", value: e => e.until || "", show: e => e.until ? stamp(moment(e.until)) : "" },
        { title: "Before", value: e => e.before ? JSON.stringify(e.before) : "", className: "key wide" }, { title: "After", value: e => e.after ? JSON.stringify(e.after) : "", className: "key wide" },
      ],
    });
    const next = el("p", { className: "next" });
    const ask = () => optional(api.get("/v1/audit", { ...query, limit: 100 }));
    const first = await ask();
    if (!first) return page.show(section("Audit", noRecords()));
    const verify = el("button", { type: "button", onclick: async () => {
      put(verified, "verifying …");
      try {
        const report = await api.get("/v1/audit/verify");
        put(verified, report.whole ? "The chain is whole up to entry " + whole(report.head.number) + "." : "The chain is broken at entry " + whole(report.break.number) + ": " + report.break.problem);
      } catch (e) { put(verified, e.message); }
    } }, "Verify the chain");
    page.show(section("Audit", form, el("p", {}, verify, " ", verified), list.element, next));
    const fill = answer => {
      list.fill(answer.entries);
      next.replaceChildren(...[query.before && link("Newest", ["audit"], { ...query, before: "" }), answer.next && link("Older entries", ["audit"], { ...query, before: answer.next })].filter(Boolean));
    };
    fill(first);
    page.every(5, async () => fill(await ask()));
  },
};
