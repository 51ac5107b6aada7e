// Keys: who is hit most, why, and what support can do.

views.keys = {
  title: "Keys",
  async open(page, _, query) {
    await known.load();
    const by = query.by || "denied", change = more => go(["keys"], { ...query, ...more });
    const rules = [["", "all rules"], ...known.rules().map(r => [JSON.stringify([r.domain, r.name]), r.name])];
    const chosen = query.rule ? JSON.stringify([query.domain || "", query.rule]) : "";
    if (chosen && !rules.some(([v]) => v === chosen)) rules.push([chosen, query.rule]);
    const top = table({
      name: "Busiest keys", quiet: true, id: k => [k.domain, k.rule, k.id].join(" "), sort: by[0].toUpperCase() + by.slice(1), rows: 8,
      nothing: empty("No keys yet", "The busiest keys of each rule stand here as soon as requests meet a limit" + (by === "over" ? " above its plain numbers" : by === "denied" ? " and are denied; see those allowed" : "") + "."),
      columns: [
        { title: "Key", value: k => k.id, show: k => link(k.id.slice(0, 12), ["keys"], { ...query, id: k.id }), className: "key" },
        { title: "Entries", value: k => entriesText(k.entries), className: "key" },
        { title: "Rule", value: k => k.rule, className: "key" }, { title: "Domain", value: k => k.domain },
        { title: "Denied", value: k => k.denied, number: true }, { title: "Allowed", value: k => k.allowed, number: true }, { title: "Over", value: k => k.over, number: true },
        { title: "Error at most", value: k => k.error, number: true },
        { title: "Why", action: true, value: () => "", show: k => k.entries.length && k.entries.every(e => e.value)
          ? link("why?", ["keys"], { ...query, domain: k.domain, entries: k.entries.map(e => e.key + "=" + e.value).join("\n") })
          : el("span", { title: "The rule file does not say show: true for this key, so its values are unknown here" }, "hidden") },
      ],
    });
    const result = el("div", { id: "why-result" });
    const fill = async () => {
      const answer = await optional(query.id ? api.get("/v1/facts/keys", { id: query.id }) : api.get("/v1/facts/keys", { domain: query.rule ? query.domain : "", rule: query.rule, by, n: 20 }));
      top.fill(answer ? answer.keys : []);
    };
    // All is there before it is shown, so that nothing moves.
    await Promise.all([fill(), query.request ? showWhy(result, { request: query.request }) : query.entries ? showWhy(result, { domain: query.domain, entries: parseEntries(query.entries) }) : null]);
    const busiest = section("Busiest keys",
      el("form", { className: "filters" },
        field("Rule", select(rules, chosen, v => { const [d, r] = v ? JSON.parse(v) : ["", ""]; change({ domain: d, rule: r, id: "" }); }, "rule")),
        field("Sorted by", select(["denied", "allowed", "over"], by, v => change({ by: v === "denied" ? "" : v }), "by")),
        query.id ? el("p", {}, "Key " + query.id + " in all rules. ", link("All keys", ["keys"], { ...query, id: "" })) : null),
      el("p", { className: "sub" }, "A key is shown as a keyed hash; its values only where the rule file says show: true. Error at most says by how much the count that sorts the table may differ; the other counts may be too low."),
      top.element);
    const one = section("One key", keyForm(query, result), result);
    page.show(...(query.entries || query.request ? [one, busiest] : [busiest, one]));
    page.every(5, fill, true);
  },
};

// parseEntries reads one KEY=VALUE a line.
const parseEntries = text => text.split("\n").map(l => l.trim()).filter(Boolean).map(l => {
  const i = l.indexOf("=");
  return i < 0 ? { key: l, value: "" } : { key: l.slice(0, i), value: l.slice(i + 1) };
});

// keyForm asks for a key by its entries, or for a denial by the id of its request.
const keyForm = (query, result) => {
  const domains = known.domains();
  const domain = select(domains.length ? domains : [""], query.domain && domains.includes(query.domain) ? query.domain : domains[0] || "", () => {}, "domain");
  const entries = el("textarea", { rows: 2, name: "entries", placeholder: "user=42", spellcheck: false, value: query.entries || "" });
  const request = el("input", { name: "request", value: query.request || "", autocomplete: "off" });
  return el("form", {
    className: "filters", onsubmit: e => {
      e.preventDefault();
      if (request.value.trim()) return go(["keys"], { request: request.value.trim() }, true);
      if (/^[0-9a-f]{32}$/.test(entries.value.trim())) return go(["keys"], { id: entries.value.trim() });
      if (!parseEntries(entries.value).length) return note("Write the entries of a key, such as user=42, or the id of a denied request.", true);
      go(["keys"], { ...query, id: "", request: "", domain: domain.value, entries: entries.value.trim() }, true);
    },
  }, field("Domain", domain), field("Entries, one a line, or the hash of a key", entries), field("or request id", request), el("button", { type: "submit" }, "Why?"));
};

// showWhy shows why a request passes or not, its limits, and what can be done.
async function showWhy(result, question) {
  result.replaceChildren(el("p", { className: "sub" }, "Asking …"));
  try {
    if (question.request) return result.replaceChildren(foundBox(await api.get("/v1/why", { request_id: question.request })));
    const why = await api.call("POST", "/v1/why", checkOf(question));
    result.replaceChildren(whyBox(why), whyTable(why), actions(question, why, result));
  } catch (e) {
    result.replaceChildren(empty("No answer: " + e.message, question.request ? "The log of denials is a sample; ask by the entries." : "Look at the domain and the entries."));
    if (question.entries) result.append(actions(question, { limits: [] }, result)); // a key can be helped while nobody knows why
  }
}

const checkOf = question => ({ domain: question.domain, descriptors: [{ entries: question.entries }] });

const waitText = ms => ms < 0 ? "never" : ms === 0 ? "now" : "in " + span(ms * 1e6);

// barredText says which ban or list decides before any limit.
const barredText = b => (b.ban ? "It is banned" : b.exempt ? "It is exempt" : "It is denied") + " by " + b.list
  + (b.file ? " (" + b.file + ":" + b.line + ")" : "") + (b.ends_ms >= 0 ? "; that ends " + waitText(b.ends_ms) : "; that has no end") + ".";

const whyBox = why => el("div", { className: "advice" },
  el("p", {}, el("b", {}, why.allowed ? "A request of this key passes now." : "A request of this key is denied now: " + why.reason + "."),
    why.allowed ? "" : " It passes " + waitText(why.wait_ms) + "."),
  why.barred ? el("p", {}, barredText(why.barred)) : null,
  why.smallest.length ? el("div", {}, el("p", {}, "The smallest change that lets it pass now:"), el("ul", {}, why.smallest.map(c => el("li", {}, (c.rule ? c.rule + ": " : "") + c.text)))) : null);

const modeText = l => l.coordination + (l.own ? ", decided here" : "") + (l.degraded ? ", degraded: " + l.on_store_failure : "") + (l.shadow ? ", shadow" : "");

const whyTable = why => {
  const t = table({
    name: "Limits of this key", id: l => l.descriptor + " " + l.rule, nothing: empty("No rule has a limit for these entries", "Compare them with the descriptors of the rules."),
    columns: [
      { title: "Rule", value: l => l.rule, className: "key" }, { title: "Limit", value: l => limitText(l.config) },
      { title: "Denies", value: l => l.denies ? "yes" : l.allowed ? "no" : "no (shadow)" },
      { title: "Used before", value: l => l.before.used, number: true }, { title: "Used after", value: l => l.after.used, number: true }, { title: "Remaining", value: l => l.before.remaining, number: true },
      { title: "Retry", value: l => l.allowed ? "" : waitText(l.retry_after_ms) },
      { title: "Whole again", value: l => l.before.reset_after_ms, show: l => waitText(l.before.reset_after_ms) },
      { title: "Mode", value: modeText },
      { title: "Candidate", value: l => l.candidate ? limitText(l.candidate.config) + ": " + (l.candidate.allowed ? "passes" : "denied, passes " + waitText(l.candidate.retry_after_ms)) : "" }, { title: "Override", value: l => l.override ? l.override.subject || l.override.pattern || "yes" : "" },
      { title: "Its counts", value: l => l.key || "", show: l => l.key ? link(l.key.slice(0, 12), ["keys"], { id: l.key }) : "", className: "key" },
      { title: "Would let it pass", value: l => l.changes.map(c => c.text).join("; "), className: "wide" },
    ],
  });
  t.fill(why.limits);
  return t.element;
};

// foundBox shows a denied request of the log.
const foundBox = found => el("div", {}, found.denials.map(d => factList([
  ["Request", found.request_id], ["Denied", stamp(moment(d.at))], ["Rule", el("span", {}, link(d.rule, ["rules", d.domain, d.rule]))], ["Reason", d.reason + (d.degraded ? ", degraded" : "")],
  ["Limit then", whole(d.limit)], ["Limit now", d.config ? limitText(d.config) : "no rule has this name"], ["Retry after", d.retry_after_ns < 0 ? "never" : span(d.retry_after_ns)],
  ["Key", el("span", {}, link(d.key, ["keys"], { id: d.key }))],
])));

// ask is a form for one change: it needs a role, and says why it cannot be made.
const ask = (title, role, fields, submit, done) => {
  const button = el("button", { type: "submit", disabled: !may(role) }, title);
  const form = el("form", { className: "action", "aria-label": title, onsubmit: async e => {
    e.preventDefault();
    button.disabled = true;
    try {
      note(await submit(Object.fromEntries(new FormData(form))));
      done();
    } catch (fault) {
      note(title + " failed: " + fault.message, true);
    }
    button.disabled = !may(role);
  } }, el("h3", {}, title), fields, may(role) ? null : el("p", { className: "sub" }, "needs the role " + role + "; " + session.caller + " has " + session.role), button);
  return form;
};

const input = (label, name, options, hint) => field(label, el("input", { name, autocomplete: "off", ...options }), hint);

// actions are the changes that support can make for a key.
const actions = (question, why, result) => {
  const done = () => showWhy(result, question), check = checkOf(question), subjects = question.entries.map(e => e.key + "=" + e.value);
  const limited = [...new Set(why.limits.map(l => l.rule).filter(Boolean))];
  const subject = () => field("Subject", el("select", { name: "subject" }, subjects.map(s => el("option", {}, s))));
  return el("div", { className: "actions" },
    ask("Reset", "support", [whyField()], async f => {
      const answer = await api.call("POST", "/v1/reset", check, because(f.why));
      return "Reset: " + (answer.limits.map(l => l.rule).join(", ") || "no limit applies") + ".";
    }, done),
    banForm(subject(), done), unbanForm(subject(), done),
    overrideForm(subject(), limited, done), endOverrideForm(subject(), limited, done));
};

const whyField = () => input("Why", "why", { required: true, placeholder: "ticket 17" });
const until = required => input("Until", "until", { placeholder: "1h", required, pattern: ".{1,40}" }, "1h, 7d, or a time such as 2030-01-31T12:00:00Z");

const banForm = (target, done) => ask("Ban", "support", [target, until(false), whyField()], async f => {
  const kind = f.subject.includes("=") ? "subject" : f.subject.includes("/") ? "network" : "address";
  await api.call("PUT", "/v1/bans", { [kind]: f.subject, why: f.why, ...(f.until ? { until: f.until } : {}) });
  return "Banned: " + f.subject + (f.until ? ", until " + f.until : ", without an end") + ".";
}, done);

const unbanForm = (target, done) => ask("Unban", "support", [target, whyField()], async f => {
  await api.call("DELETE", "/v1/bans/" + encodeURIComponent(f.subject), undefined, because(f.why));
  return "Unbanned: " + f.subject + ".";
}, done);

const ruleField = rules => rules && rules.length ? field("Rule", el("select", { name: "rule" }, rules.map(r => el("option", {}, r)))) : input("Rule", "rule", { required: true });

const overrideForm = (target, rules, done) => ask("Override", "support", [
  target, ruleField(rules), input("Requests", "requests", { type: "number", min: 0, max: 4294967295, required: true }), input("Per", "per", { placeholder: "as the rule" }),
  input("Burst", "burst", { type: "number", min: 0, max: 4294967295 }), until(!may("write")), whyField(),
], async f => {
  const body = { [f.subject.includes("*") ? "pattern" : "subject"]: f.subject, rule: f.rule, requests: Number(f.requests), why: f.why };
  if (f.per) body.per = f.per;
  if (f.burst) body.burst = Number(f.burst);
  if (f.until) body.until = f.until;
  const answer = await api.call("PUT", "/v1/overrides", body);
  return "Override: " + f.subject + " has " + f.requests + " for " + f.rule + "." + (answer.warning ? " Warning: " + answer.warning + "." : "");
}, done);

const endOverrideForm = (target, rules, done) => ask("End override", "support", [target, ruleField(rules), whyField()], async f => {
  await api.call("DELETE", "/v1/overrides/" + encodeURIComponent(f.subject) + "/" + encodeURIComponent(f.rule), undefined, because(f.why));
  return "Ended: the override of " + f.subject + " for " + f.rule + ".";
}, done);
