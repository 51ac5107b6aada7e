// The frame of the page: views by address, login, time zone, keyboard.

const order = ["overview", "rules", "keys", "coordination", "records", "audit", "denials", "text"];
let leave = () => {};
let opened = 0;

// go opens a view; again also where the address is the same.
const go = (parts, query, again) => {
  const address = to(parts, query);
  if (location.hash === address) { if (again) route(); } else location.hash = address;
};

// place reads the address: the parts of the path, and the query.
const place = () => {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  let parts;
  try { parts = path.split("/").map(decodeURIComponent); } catch { parts = [""]; }
  return { parts, query: Object.fromEntries(new URLSearchParams(query || "")) };
};

// pageOf gives a view what it may use until it is left.
const pageOf = number => {
  const ends = [], main = $("main");
  const current = () => number === opened;
  return {
    end: () => { for (const f of ends) f(); },
    show: (...children) => {
      if (!current()) return;
      main.replaceChildren(el("h1", { className: "quiet" }, document.title), ...children);
      for (const c of charts) c.resize();
    },
    title: text => { document.title = text + " – Stint"; },
    use: (...list) => ends.push(...list.map(c => () => c.destroy())),
    live: f => { if (current()) ends.push(live.subscribe(f)); },
    // every asks now, unless later, and then each so many seconds, not while the page is hidden.
    every(seconds, f, later) {
      if (!current()) return;
      let timer = 0;
      const run = async () => {
        if (!current()) return;
        if (!document.hidden && !session.login) {
          try { await f(); } catch (e) { if (current() && e.status !== 401) note(e.message, true); }
        }
        if (current()) timer = setTimeout(run, seconds * 1000);
      };
      const wake = () => { if (!document.hidden) { clearTimeout(timer); run(); } };
      document.addEventListener("visibilitychange", wake);
      ends.push(() => { clearTimeout(timer); document.removeEventListener("visibilitychange", wake); });
      if (later) timer = setTimeout(run, seconds * 1000);
      else run();
    },
  };
};

async function route() {
  const { parts: [name, ...rest], query } = place();
  if (session.login) return;
  const view = views[name] || views.overview;
  leave();
  const page = pageOf(++opened);
  leave = page.end;
  page.title(view.title);
  for (const a of $("nav").children) {
    if (views[a.dataset.view] === view) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  }
  try {
    await view.open(page, rest, query);
  } catch (e) {
    if (e.status !== 401) page.show(section(view.title, empty("The view could not be opened: " + e.message, "It tries again when you reload the page.")));
  }
  document.body.dataset.view = name || "overview";
}

// showLogin asks for a token.
function showLogin(why) {
  session.login = true;
  session.csrf = "";
  live.adjust();
  leave();
  opened++;
  $("logout").hidden = true;
  put($("who"), "");
  const token = el("input", { type: "password", name: "token", autocomplete: "current-password", required: true });
  const problem = el("p", { role: "alert", className: "alert", hidden: !why }, why || "");
  $("main").replaceChildren(el("form", { className: "login", onsubmit: async e => {
    e.preventDefault();
    try {
      begin(await api.call("POST", "/login", { token: token.value }));
      route();
    } catch (fault) {
      problem.hidden = false;
      put(problem, fault.message);
    }
  } }, el("h1", {}, "Log in"), problem, field("Admin token", token, "the token of --admin-token-file, or one of --admin-access"), el("button", { type: "submit" }, "Log in")));
  token.focus();
}

// begin takes over who the viewer is.
const begin = s => {
  Object.assign(session, { login: false, csrf: "" }, s);
  put($("who"), session.caller ? session.caller + " (" + session.role + ")" : "");
  $("logout").hidden = !session.csrf;
  // The stream begins when the rules in shadow mode are known.
  known.load().catch(() => {}).then(() => live.adjust());
};

const zones = () => {
  const all = [...new Set([local, "UTC", ...(Intl.supportedValuesOf ? Intl.supportedValuesOf("timeZone") : [])])];
  const s = $("zone");
  s.replaceChildren(...all.map(z => el("option", { value: z }, z === local ? z + " (this browser)" : z)));
  s.value = all.includes(zone.name) ? zone.name : "UTC";
  s.addEventListener("change", () => {
    zone.use(s.value);
    stored.set("zone", s.value);
    for (const c of charts) c.redraw();
    route();
  });
};

const start = async () => {
  $("nav").replaceChildren(...order.map((name, i) => {
    const a = link(views[name].title, [name]);
    a.dataset.view = name;
    a.title = "key " + (i + 1);
    return a;
  }));
  zones();
  $("skip").addEventListener("click", () => $("main").focus());
  $("logout").addEventListener("click", async () => {
    await api.call("POST", "/logout").catch(e => note(e.message, true));
    showLogin("");
  });
  addEventListener("hashchange", route);
  document.addEventListener("visibilitychange", () => live.adjust());
  setInterval(() => live.watch(), 1000);
  // The digits open the views, unless the viewer writes.
  addEventListener("keydown", e => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input, textarea, select, dialog")) return;
    const name = order[Number(e.key) - 1];
    if (name) go([name]);
  });
  try {
    const s = await api.get("/session");
    if (s.login) return showLogin("");
    begin(s);
  } catch (e) {
    return $("main").replaceChildren(empty(e.message, "Reload the page when it does."));
  }
  route();
};

start();
