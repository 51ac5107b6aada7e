// Tables: sorted by a click on a head, kept in place while their rows change, and copied as CSV.

// csvCell writes a cell. An apostrophe stands before each sign that a spreadsheet would take for the beginning of
// a formula, as in GuardFormulas of internal/text.
const csvCell = value => {
  let text = value == null ? "" : String(value);
  if (typeof value !== "number") {
    text = text.replace(/(^|[;\t\r\n])([ "']*)(?=[=+\-@＝＋－＠])/g, "$1$2'").replace(/^([ "']*)(?=[\t\r\n])/, "$1'");
  }
  return /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
};

const csvOf = (columns, rows) => [columns.map(c => c.title), ...rows.map(r => columns.map(c => c.value(r)))]
  .map(line => line.map(csvCell).join(",") + "\r\n").join("");

const download = (name, text) => {
  const a = el("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: name });
  document.body.append(a);
  a.click();
  a.remove();
  setTimeout(() => URL.revokeObjectURL(a.href), 1000);
};

// table makes a table. A column has a title, value(row) for sorting and CSV, and may have show(row),
// text or a node for the cell, and number, for digits at the right. id(row) names a row. The caption of
// a quiet table is not shown, because the title above says the same.
const table = ({ name, columns, id, sort, descending = true, nothing, rows: least = 0, quiet = false }) => {
  let rows = [], by = sort == null ? null : columns.find(c => c.title === sort), down = descending;
  const body = el("tbody");
  const made = new Map();
  const heads = columns.map(c => {
    const button = el("button", { type: "button", onclick: () => {
      down = by === c ? !down : Boolean(c.number);
      by = c;
      draw();
    } }, c.title);
    const th = el("th", { scope: "col", className: c.number ? "n" : "" }, c.title && !c.action ? button : c.title);
    return th;
  });
  const caption = el("caption", { className: quiet ? "quiet" : "" }, name);
  const csv = el("button", { type: "button", className: "csv", onclick: () => download(name.toLowerCase().replace(/\W+/g, "-") + ".csv", csvOf(columns.filter(c => !c.action), ordered())) }, "CSV");
  csv.setAttribute("aria-label", name + " as CSV");
  const grid = el("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": name }, el("table", {}, caption, el("thead", {}, el("tr", {}, heads)), body));
  if (least) grid.style.minHeight = (38 + 35 * least) + "px";
  const none = el("div", { className: "none", hidden: true }, nothing || "");

  const ordered = () => {
    if (!by) return rows;
    const sign = down ? -1 : 1;
    return [...rows].sort((a, b) => {
      const x = by.value(a), y = by.value(b);
      if (x == null || y == null) return (x == null) - (y == null);
      return sign * (typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y)));
    });
  };
  // cell shows a value; a node is replaced only if what it stands for changed.
  const cell = (td, c, row) => {
    const value = c.show ? c.show(row) : c.value(row);
    if (!(value instanceof Node)) return put(td, value == null ? "–" : c.number && typeof value === "number" ? whole(value) : value);
    const print = value.textContent + (value.href || "");
    if (td.dataset.print === print) return;
    td.dataset.print = print;
    td.replaceChildren(value);
  };
  const draw = () => {
    heads.forEach((th, i) => {
      if (columns[i] === by) th.setAttribute("aria-sort", down ? "descending" : "ascending");
      else th.removeAttribute("aria-sort");
    });
    const all = ordered(), keep = new Set();
    all.forEach((row, i) => {
      const key = id(row);
      keep.add(key);
      let tr = made.get(key);
      if (!tr) {
        tr = el("tr", {}, columns.map(c => el("td", { className: (c.number ? "n " : "") + (c.className || "") })));
        made.set(key, tr);
      }
      columns.forEach((c, k) => cell(tr.children[k], c, row));
      if (body.children[i] !== tr && !tr.contains(document.activeElement)) body.insertBefore(tr, body.children[i] || null);
    });
    for (const [key, tr] of made) if (!keep.has(key)) { tr.remove(); made.delete(key); }
    none.hidden = all.length > 0;
    csv.disabled = all.length === 0;
  };
  return {
    element: el("div", { className: "table" }, el("div", { className: "bar" }, csv), grid, none),
    fill(next) { rows = next; draw(); },
    csv: () => csvOf(columns.filter(c => !c.action), ordered()),
  };
};
