// Rules: limit, use, candidates, advice and history of each.

// advices returns the advice by domain and rule; empty where the service gives none.
const advices = async () => {
  const answer = await optional(api.get("/v1/advice"));
  const list = answer ? answer.advice || [] : [];
  return new Map(list.map(a => [JSON.stringify([a.domain, a.rule]), a]));
};

const useText = p => p && p.periods ? "p50 " + percent(p.p50) + ", p99 " + percent(p.p99) : "–";

views.rules = {
  title: "Rules",
  async open(page, [domain, name], query) {
    await known.load();
    if (name !== undefined) return openRule(page, domain, name, query);
    const list = table({
      name: "Rules", quiet: true, id: r => JSON.stringify([r.domain, r.name]), sort: "Denied", rows: 8,
      nothing: empty("No rules are in force", "Write a rule file and start the service with --rules FILE; docs/recipes.md has the usual limits."),
      columns: [
        { title: "Rule", value: r => r.name, show: r => link(r.name, ["rules", r.domain, r.name]), className: "key" },
        { title: "Domain", value: r => r.domain },
        { title: "Limit", value: r => limitText(r) + (r.shadow ? " (shadow)" : "") },
        { title: "Denied", value: r => r.facts ? r.facts.denied : 0, number: true },
        { title: "Share", value: r => r.facts && r.facts.allowed + r.facts.denied ? r.facts.denied / (r.facts.allowed + r.facts.denied) : null, show: r => r.facts ? share(r.facts.denied, r.facts.allowed + r.facts.denied) : "–", number: true },
        { title: "Allowed", value: r => r.facts ? r.facts.allowed : 0, number: true },
        { title: "Over", value: r => r.facts ? r.facts.over : 0, number: true },
        { title: "Keys", value: r => r.facts ? r.facts.keys : 0, number: true },
        { title: "Peak use of a key", value: r => r.facts && r.facts.peaks.periods ? r.facts.peaks.p99 : null, show: r => useText(r.facts && r.facts.peaks) },
        { title: "Candidate", value: r => r.facts && r.facts.candidate ? r.facts.candidate.then.denied : null, show: r => candidateText(r.facts && r.facts.candidate) },
        { title: "Advice", value: r => r.advice ? r.advice.text : "", className: "wide" },
      ],
    });
    page.show(section("Rules", el("p", { className: "sub" }, "Most denials first. A rule has its history, its keys and its advice behind its name."), list.element));
    let facts = new Map(), advice = new Map();
    const draw = () => list.fill(known.rules().concat(perAPI(facts)).map(r => ({ ...r, facts: facts.get(JSON.stringify([r.domain, r.name])), advice: advice.get(JSON.stringify([r.domain, r.name])) })));
    page.every(5, async () => {
      const summary = await optional(api.get("/v1/facts"));
      facts = new Map((summary ? summary.rules : []).map(r => [JSON.stringify([r.domain, r.name]), r]));
      draw();
    });
    page.every(60, async () => { advice = await advices(); draw(); });
  },
};

// perAPI returns the rows of facts that belong to no rule of a file: rules per API share one set a domain.
const perAPI = facts => [...facts.values()].filter(f => !known.rule(f.domain, f.name)).map(f => ({ domain: f.domain, name: f.name, algorithm: "unlimited", rules: "per API" }));

const candidateText = c => c ? c.limit + ": " + whole(c.then.denied) + " denied, now " + whole(c.now.denied) : "–";

async function openRule(page, domain, name, query) {
  const r = known.rule(domain, name);
  const step = query.step === "1m" ? "1m" : "10m";
  page.title(name);
  const history = chart(step === "1m" ? "Decisions a second of this node, the last 24 hours" : "Decisions a second of this node, the last 7 days", ["allowed", "denied", "over", "degraded"], { height: 220, unit: "/s", seconds: step === "1m" ? 86400 : 7 * 86400 });
  page.use(history);
  const about = el("div", { className: "about" }), use = el("div"), candidate = el("div"), advice = el("div");
  const marks = table({
    name: "Changes", id: m => m.at + m.what, sort: "Time", rows: 1, nothing: empty("Nothing changed", "Reloads and changes of epoch stand here."),
    columns: [{ title: "Time", value: m => m.at, show: m => stamp(moment(m.at)), className: "time" }, { title: "Change", value: m => m.what }, { title: "Note", value: m => m.note || "" }],
  });
  const steps = el("p", { className: "steps" },
    el("a", { href: to(["rules", domain, name], { step: "1m" }), "aria-current": step === "1m" ? "true" : null }, "24 hours"),
    el("a", { href: to(["rules", domain, name]), "aria-current": step === "1m" ? null : "true" }, "7 days"));
  about.replaceChildren(r ? factList([
    ["Limit", limitText(r) + (r.shadow ? ", in shadow mode: it denies nobody" : "")],
    ["Coordination", r.coordination], ["On store failure", r.on_store_failure],
    ["Overrides", el("span", {}, link(whole(r.overrides || 0), ["records"], { kind: "overrides", rule: name }))],
    ["Keys", el("span", {}, link("the busiest", ["keys"], { domain, rule: name }))],
    ["Denials", el("span", {}, link("the log", ["denials"], { domain, rule: name }))],
    r.file ? ["Text", el("span", {}, link(r.file + ":" + r.line, ["text", r.file, String(r.line)]))] : null,
  ]) : empty("No rule of a file has this name now", "It may be a rule per API, or a rule that a reload removed."));
  const drawHistory = async () => {
    const h = await optional(api.get("/v1/facts/history", { domain, rule: name, step }));
    if (!h) return;
    history.draw(perSecond(h), marksOf(h));
    marks.fill(h.marks);
  };
  const drawAdvice = async () => {
    const a = (await advices()).get(JSON.stringify([domain, name]));
    advice.replaceChildren(a ? adviceBox(a) : empty("No advice", "Advice needs 50 keys, 1,000 requests and an hour, and says nothing where all is well."));
  };
  const drawFacts = async () => {
    const summary = await optional(api.get("/v1/facts"));
    const f = summary && summary.rules.find(x => x.domain === domain && x.name === name);
    use.replaceChildren(f ? factsOf(f) : empty("Nothing is known yet", "The rule was never asked since " + (summary ? stamp(moment(summary.since)) : "the start") + "."));
    candidate.replaceChildren(f && f.candidate ? candidateBox(f.candidate) : empty("This rule tries no other numbers", "Write candidate: beside rate_limit, and see here what would change."));
  };
  // All is there before it is shown, so that nothing moves.
  await Promise.all([drawHistory(), drawAdvice(), drawFacts()]);
  page.show(
    el("p", { className: "crumbs" }, link("Rules", ["rules"]), " › " + domain),
    section(name, about),
    section("Advice", advice), section("History", steps, history.element, marks.element),
    section("How close keys come to the limit", use), section("Candidate", candidate));
  page.every(60, drawHistory, true);
  page.every(60, drawAdvice, true);
  page.every(5, drawFacts, true);
}

// adviceBox shows a piece of advice with the lines that would do it.
const adviceBox = a => el("div", { className: "advice" }, el("p", {}, a.text),
  [["The lines that would do it", a.yaml], ["To try it beside the limit in force", a.candidate], ["To see its effect on an access log", a.command]].filter(([, text]) => text).map(([title, text]) =>
    el("div", {}, el("p", { className: "sub" }, title), el("pre", { tabIndex: 0, role: "region", "aria-label": title }, text))));

const factsOf = f => {
  const p = f.peaks, all = f.allowed + f.denied;
  const rows = [
    ["Allowed", whole(f.allowed)], ["Denied", whole(f.denied) + " (" + share(f.denied, all) + ")"], ["Over", whole(f.over)], ["Degraded", whole(f.degraded)],
    ["Looks", whole(f.looks)], ["Keys", whole(f.keys)], ["Busiest key", percent(p.largest) + " of requests"],
    ["First asked", stamp(moment(f.first))], ["Last asked", stamp(moment(f.last))],
  ];
  if (p.periods) {
    rows.push(["Peak use, median", percent(p.p50)], ["Peak use, p90", percent(p.p90)], ["Peak use, p99", percent(p.p99)], ["Peak use, p99.9", percent(p.p999)],
      ["Sampled keys", whole(p.sampled) + ", " + whole(p.denied_keys) + " denied"], ["Excess of denied keys", p.denied_keys ? "at least " + percent(p.excess) + " of the limit" : "–"],
      ["Retries that pass", whole(p.passed) + " of " + whole(p.retries)], ["Denied bursts", whole(p.bursts)]);
  }
  const most = Math.max(1, ...p.denials);
  const tenths = el("ol", { className: "tenths", "aria-label": "Denials by tenths of the period" }, p.denials.map((n, i) => {
    const bar = el("i");
    bar.style.height = Math.round(60 * n / most) + "px";
    return el("li", { title: "tenth " + (i + 1) + ": " + whole(n) }, bar, el("span", {}, whole(n)));
  }));
  return el("div", {}, factList(rows), p.periods ? null : el("p", { className: "sub" }, "No key has finished a period yet."),
    p.denials.some(Boolean) ? el("div", {}, el("h3", {}, "When in the period denials fall"), tenths) : null);
};

const candidateBox = c => {
  const t = table({
    name: "Candidate", quiet: true, id: r => r.what, nothing: "", columns: [
      { title: "What", value: r => r.what }, { title: "Now", value: r => r.now, number: true }, { title: "With the candidate", value: r => r.then, number: true },
    ],
  });
  t.fill([
    { what: "Requests denied", now: c.now.denied, then: c.then.denied }, { what: "Requests allowed", now: c.now.allowed, then: c.then.allowed },
    { what: "Keys denied", now: c.keys_denied_now, then: c.keys_denied_then },
  ]);
  return el("div", {}, el("p", {}, "The rule tries " + c.limit + " on the same requests, without effect."), t.element);
};
