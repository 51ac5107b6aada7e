// The log of denials: a sample, newest first.

views.denials = {
  title: "Denials",
  async open(page, _, query) {
    await known.load();
    const form = el("form", { className: "filters", onsubmit: e => {
      e.preventDefault();
      go(["denials"], Object.fromEntries([...new FormData(form)].map(([k, v]) => [k, v.trim()])), true);
    } }, ["domain", "rule", "key", "request"].map(n => input(n === "request" ? "Request id" : n[0].toUpperCase() + n.slice(1), n, { value: query[n] || "" })), el("button", { type: "submit" }, "Filter"));
    const list = table({
      name: "Log of denials", quiet: true, id: d => [d.at, d.domain, d.rule, d.key, d.request_id].join(" "), sort: "Time", rows: 10,
      nothing: empty("No denial", Object.values(query).some(Boolean) ? "Leave out a filter." : "Denied requests stand here: the first of each key, rule and minute, then one in many."),
      columns: [
        { title: "Time", value: d => d.at, show: d => stamp(moment(d.at)), className: "time" },
        { title: "Rule", value: d => d.rule, show: d => link(d.rule, ["rules", d.domain, d.rule]), className: "key" }, { title: "Domain", value: d => d.domain },
        { title: "Key", value: d => d.key, show: d => link(d.key.slice(0, 12), ["keys"], { id: d.key }), className: "key" },
        { title: "Reason", value: d => d.reason + (d.degraded ? " (degraded)" : "") }, { title: "Limit", value: d => d.limit, number: true },
        { title: "Retry after", value: d => d.retry_after_ns, show: d => d.retry_after_ns < 0 ? "never" : span(d.retry_after_ns), number: true }, { title: "Stands for", value: d => d.sampled, number: true },
        { title: "Request", value: d => d.request_id || "", show: d => d.request_id ? link(d.request_id, ["keys"], { request: d.request_id }) : "", className: "key" },
      ],
    });
    page.show(section("Log of denials", el("p", { className: "sub" }, "A sample of the denials of this node; other nodes have logs of their own."), form, list.element));
    page.every(5, async () => {
      const answer = await optional(api.get("/v1/facts/denials", { ...query, n: 200 }));
      list.fill(answer ? answer.denials : []);
    });
  },
};
