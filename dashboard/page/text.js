// The text of the rule files, with each fault below its line.

views.text = {
  title: "Rule text",
  async open(page, [file, line]) {
    const answer = await optional(api.get("/v1/rule-text"));
    if (!answer || !answer.files.length) return page.show(section("Rule text", empty("There are no rule files", "Write one and start the service with --rules FILE; docs/rules.md has every word.")));
    const faults = table({
      name: "Faults", quiet: true, id: f => [f.file, f.line, f.problem].join(" "), nothing: empty("No fault", "stint check finds nothing in these files either."),
      columns: [
        { title: "Place", value: f => f.file + (f.line ? ":" + f.line : ""), show: f => link(f.file + (f.line ? ":" + f.line : ""), ["text", f.file, String(f.line)]), className: "key" },
        { title: "Severity", value: f => f.severity }, { title: "Problem", value: f => f.problem, className: "wide" }, { title: "Hint", value: f => f.hint, className: "wide" },
      ],
    });
    const chosen = answer.files.find(f => f.name === file) || answer.files.find(f => f.faults.some(x => x.severity === "error")) || answer.files[0];
    const wrong = answer.files.some(f => f.faults.some(x => x.severity === "error"));
    page.show(
      section("Faults", el("p", { className: wrong ? "alert" : "sub" }, answer.in_force ? "These files are in force." : wrong ? "These files have errors; earlier rules are in force." : "These files are not in force yet."), faults.element),
      section("Text", el("p", { className: "steps" }, answer.files.map(f => el("a", { href: to(["text", f.name]), "aria-current": f === chosen ? "true" : null }, f.name + (f.faults.length ? " (" + f.faults.length + ")" : "")))), textOf(chosen, Number(line) || 0)));
    faults.fill(answer.files.flatMap(f => f.faults.map(x => ({ file: f.name, ...x }))));
    const at = $("at");
    if (at) at.scrollIntoView({ block: "center" });
  },
};

const textOf = (file, at) => {
  if (file.problem) return empty("The text is not shown", file.problem + ".");
  const below = f => el("p", { className: "fault " + f.severity }, el("b", {}, f.severity + ": "), f.problem + " ", el("i", {}, f.hint));
  const lines = file.text.replace(/\n$/, "").split("\n");
  const list = el("ol", { className: "code" }, lines.map((text, i) => el("li", { id: i + 1 === at ? "at" : null, className: i + 1 === at ? "at" : "" }, el("code", {}, text || "\u00a0"), file.faults.filter(f => f.line === i + 1).map(below))));
  return el("div", {}, file.faults.filter(f => f.line < 1 || f.line > lines.length).map(below), el("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": file.name }, list));
};
