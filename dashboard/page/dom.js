// Elements are made of text nodes and properties only: no text of the API is ever read as HTML.

const $ = id => document.getElementById(id);

// el makes an element. Properties that an element has are set, others become attributes.
const el = (tag, properties, ...children) => {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (value == null || value === false) continue;
    if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
    else if (name in e && !["list", "form"].includes(name)) e[name] = value;
    else e.setAttribute(name, value === true ? "" : value);
  }
  e.append(...children.flat().filter(c => c != null && c !== false));
  return e;
};

// put sets the text of an element, if it changed.
const put = (e, text) => { if (e.textContent !== String(text)) e.textContent = text; };

// to returns the address of a view, with the parts of its path and a query.
const to = (parts, query) => {
  const q = new URLSearchParams(Object.entries(query || {}).filter(([, v]) => v));
  return "#/" + parts.map(encodeURIComponent).join("/") + (q.size ? "?" + q : "");
};

const link = (text, parts, query) => el("a", { href: to(parts, query) }, text);

// field is a labelled control.
const field = (label, control, hint) => el("label", { className: "field" }, el("span", {}, label), control, hint ? el("small", {}, hint) : null);

const select = (options, value, onchange, name) => {
  const s = el("select", { onchange: () => onchange(s.value), name: name || "" }, options.map(o => {
    const [v, text] = Array.isArray(o) ? o : [o, o];
    return el("option", { value: v }, text);
  }));
  s.value = value;
  return s;
};

// empty says why there is nothing, and what to do.
const empty = (what, todo) => el("p", { className: "empty" }, el("b", {}, what + ". "), todo);

// note shows the outcome of an action until the next one.
const note = (text, bad) => {
  const n = $("note");
  n.className = bad ? "bad" : "good";
  n.replaceChildren(el("span", {}, text), el("button", { type: "button", onclick: () => n.replaceChildren() }, "Close"));
};

const section = (title, ...children) => el("section", {}, el("h2", {}, title), ...children);

// facts shows names and values.
const factList = pairs => el("dl", { className: "facts" }, pairs.filter(Boolean).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
