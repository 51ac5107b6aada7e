package httpapi

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"stint/internal/testkit"
	"stint/internal/testkit/programs"
)

// page is a page of another site. It sends all requests that a browser sends without a preflight: a
// form of each encoding, and fetches whose answers it may not read. Under the rebound name it has
// the same origin as the admin listener, so it may send and read anything.
const page = `<!doctype html><title>waiting</title>
<iframe name=sink></iframe>
<form id=plain target=sink method=post enctype=text/plain action="%[1]s/json">
  <input name='{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"victim"}]}],"hitsAddend":1}//' value=x></form>
<form id=reset target=sink method=post enctype=text/plain action="%[2]s/v1/reset"><input name='%[3]s' value=''></form>
<form id=encoded target=sink method=post action="%[1]s/v1/check"><input name='%[3]s' value=''></form>
<pre id=log></pre>
<script>
const body = %[3]s, log = [];
async function send(name, url, options) {
  try { const r = await fetch(url, options); log.push(name + " " + (r.type == "opaque" ? "opaque" : r.status)); }
  catch (e) { log.push(name + " failed"); }
}
(async () => {
  for (const kind of ["text/plain", "application/x-www-form-urlencoded"]) {
    const simple = {method: "POST", mode: "no-cors", headers: {"Content-Type": kind}, body: JSON.stringify(body)};
    await send("check", "%[1]s/v1/check", simple);
    await send("json", "%[1]s/json", simple);
    await send("reset", "%[2]s/v1/reset", simple);
  }
  await send("preflight", "%[1]s/v1/check", {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(body)});
  navigator.sendBeacon("%[1]s/v1/check", new Blob([JSON.stringify(body)], {type: "application/x-www-form-urlencoded"}));
  await send("rebound reset", "/v1/reset", {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(body)});
  await send("rebound limits", "/v1/limits");
  for (const id of ["plain", "reset", "encoded"]) {
    const loaded = new Promise(r => document.querySelector("iframe").addEventListener("load", r, {once: true}));
    document.getElementById(id).submit();
    await Promise.race([loaded, new Promise(r => setTimeout(r, 500))]);
  }
  document.getElementById("log").textContent = log.join("; ");
  document.title = "done";
})();
</script>`

// A real browser that shows a page of another site, or of a name that was rebound to this machine,
// takes no unit and resets no key.
func TestBrowser(t *testing.T) {
	t.Parallel() // most of the time is the browser's
	l, _ := newLimiter(t)
	var asked, administered atomic.Int64
	count := func(n *atomic.Int64, h http.Handler) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				n.Add(1)
			}
			h.ServeHTTP(w, r)
		}))
		t.Cleanup(s.Close)
		return s
	}
	victim := fmt.Sprintf(short, "user", "victim", 1)
	taking := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { // handles every request to /json
		call(t, NewTraffic(l, TrafficOptions{}).Handler(), "POST", CheckPath, victim)
	})
	traffic := count(&asked, NewTraffic(l, TrafficOptions{JSON: taking}).Handler())
	admin := count(&administered, NewAdmin(l, AdminOptions{}))
	used := func() string {
		_, answer, _ := call(t, NewAdmin(l, AdminOptions{}), "POST", "/v1/inspect", victim)
		_, rest, _ := strings.Cut(answer, `"used":`)
		n, _, _ := strings.Cut(rest, ",")
		return n
	}
	if status, answer, _ := call(t, NewTraffic(l, TrafficOptions{}).Handler(), "POST", CheckPath, victim); status != 200 || used() != "1" {
		t.Fatalf("%d %s; used %s", status, answer, used())
	}
	target, err := url.Parse(admin.URL)
	testkit.Must(t, err)
	rebound := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host // keep the name that the browser uses; only its address was rebound
	}}
	text := fmt.Sprintf(page, traffic.URL, admin.URL, victim)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			rebound.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, text)
	}))
	defer site.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(site.URL, "http://"), ":")
	dom, console := programs.Browse(t, "http://rebound.example:"+port+"/", "--host-resolver-rules=MAP rebound.example 127.0.0.1")
	for _, want := range []string{"<title>done</title>", "check opaque; json opaque; reset opaque", "preflight failed", "rebound reset 403; rebound limits 403"} {
		if !strings.Contains(dom, want) {
			t.Errorf("the page lacks %q:\n%s\n%s", want, dom[max(0, strings.Index(dom, "<pre")):], console)
		}
	}
	if n := used(); n != "1" {
		t.Errorf("a page changed what the key has used: %s, want 1", n)
	}
	if asked.Load() < 4 || administered.Load() < 3 { // the requests that the page waits for
		t.Errorf("%d requests came for traffic and %d for admin; did the page send any?", asked.Load(), administered.Load())
	}
}
