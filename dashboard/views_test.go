package dashboard

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"image"
	_ "image/png"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stint/internal/logging"
	"stint/internal/testkit"
	"stint/internal/testkit/programs"
	"stint/server/access"
)

// view is a view of the page and the texts that it must show, which are the numbers of the fixture.
type view struct {
	address string
	texts   []string
}

var views = []view{
	{"overview", []string{"30", "25 %", "redis", "800 µs", "p99 3 ms", "they have different rules", "shop/user", "The last reload was refused", "all 1200 requests of shop/cart have one key", "Set trusted-proxies. See the rule", "run 7"}},
	{"rules", []string{"shop/user", "token_bucket: 100 per 1m", "4,000", "3.2 %", "120,000", "812", "p50 12 %, p99 130 %", "5 denied, now 40", "fixed_window: 5 per 1m (shadow)", "denies short bursts of 31 %"}},
	{"rules/shop/shop%2Fuser", []string{"token_bucket: 100 per 1m", "leased", "4,000 (3.2 %)", "at least 142 % of the limit", "burst: 250}", "candidate: {burst", "stint replay", "20 of 50", "250 %", "135", "reload", "run 7"}},
	{"keys", []string{"001122334455", "user=" + evil, "321", "500", "user=∗", "hidden"}},
	{"keys?domain=shop&entries=user%3D42", []string{"denied now: rate_limited", "passes in 600 ms", "wait 600ms", "88", "89", "12", "52.8 s", "leased, decided here", "burst 100 -> 101", "burst 250: passes", "001122334455", "Reset", "End override"}},
	{"keys?request=req-7", []string{"Limit then", "2026-01-02 03:04:05", "600 ms"}},
	{"coordination", []string{"node-a", evil, "124,000", "4.2 µs", "99887766aabb (1)", "connection refused", "The nodes decide by different rules", "strict", "run 7"}},
	{"coordination?domain=shop&entries=user%3D42", []string{"Lent: 30; this node can spend 12", "7a (this one)", "1.2 s ago"}},
	{"records", []string{"user=" + evil, "no end", "bans (1)", "12 entries", "can be made"}},
	{"records?kind=overrides", []string{"user=42", "shop/user", "500", "2026-02-01 00:00:00", "sale"}},
	{"records?kind=subjects", []string{"There is no subject"}},
	{"audit", []string{"oncall", "127.0.0.1", "put ban", "user=42", "too many", "2026-01-02 03:04:05"}},
	{"constructor", []string{"Now", "30"}}, // no view has this name
	{"denials", []string{"of this node", "shop/user", "001122334455", "rate_limited", "1.5 s", "17", "req-7"}},
	{"text", []string{"rate_limit: {requests: 100, per: 1m, algorithm: token_bucket}", "These files are in force", "No fault"}},
}

// open opens a view in a tab and waits until it shows the texts.
func (v *view) open(tab *programs.Tab, url string) {
	tab.Go(url + "/#/" + v.address)
	for _, text := range v.texts {
		tab.Until("document.body.dataset.view && document.querySelector('main').innerText.replaceAll('\\u00a0', ' ').includes(" + quote(text) + ")")
	}
}

// Each view shows the numbers of the API, in a picture that is not empty, as text only, without a
// message on the console, at 400 pixels without scrolling sideways, and without moving what was shown.
func TestViews(t *testing.T) {
	t.Parallel() // most of the time is the browser's
	f := startFixture(t, &access.Guard{})
	tab := programs.StartBrowser(t, "--lang=en-US").Open(f.URL + "/")
	for i := range views {
		v := &views[i]
		tab.Size(1280, 900, false)
		tab.Go("about:blank")
		v.open(tab, f.URL)
		shift := 1.0
		tab.Run(`new Promise(done => {
			let sum = 0;
			const o = new PerformanceObserver(l => { for (const e of l.getEntries()) sum += e.value; });
			o.observe({type: "layout-shift", buffered: true});
			setTimeout(() => done(sum), 500);
		})`, &shift)
		if shift > 0.05 {
			t.Errorf("%s: what was shown moved: %.3f", v.address, shift)
		}
		for _, dark := range []bool{false, true} {
			for _, width := range []int{400, 1280} {
				tab.Size(width, 900, dark)
				wide := 0
				tab.Run("document.documentElement.scrollWidth", &wide)
				if wide > width {
					t.Errorf("%s: %d pixels wide in a window of %d", v.address, wide, width)
				}
				tab.Run("Math.max(0, ...[...document.querySelectorAll('.scroll')].map(e => e.scrollWidth - e.clientWidth))", &wide)
				if v.address == "keys" && width == 1280 && wide > 0 {
					t.Errorf("%s: a table is %d pixels wider than its place", v.address, wide)
				}
				if n := colors(t, tab.Screenshot()); n < 20 {
					t.Errorf("%s: %d colors at %d pixels; is there anything to see?", v.address, n, width)
				}
			}
		}
		images, title := 0, ""
		tab.Run("document.querySelectorAll('img, iframe, [style*=url]').length", &images)
		tab.Run("document.title", &title)
		if images > 0 || title == "evil" {
			t.Errorf("%s: text became part of the page: %d images, title %q", v.address, images, title)
		}
	}
	if said := tab.Console(); said != "" {
		t.Errorf("on the console: %s", said)
	}
}

var picture = flag.String("dashboard.picture", "", "write a picture of the overview to this file, for the documents")

// The overview of a calm day has no alert. With -dashboard.picture it becomes a picture.
func TestCalm(t *testing.T) {
	t.Parallel()
	f := startFixture(t, &access.Guard{})
	f.calm.Store(true)
	tab := programs.StartBrowser(t).Open("about:blank")
	tab.Size(1200, 790, false)
	tab.Go(f.URL + "/")
	tab.Until("document.body.dataset.view && document.querySelector('main').innerText.includes('the same rules')")
	alerts := -1
	tab.Run("document.querySelectorAll('.alert, .bad').length", &alerts)
	if alerts != 0 {
		t.Errorf("%d alerts", alerts)
	}
	if *picture != "" {
		tab.Until("Number(document.body.dataset.frames) > 305")
		testkit.Must(t, os.WriteFile(*picture, tab.Screenshot(), 0o600))
	}
}

// colors counts the colors of a picture.
func colors(t *testing.T, picture []byte) int {
	t.Helper()
	img, _, err := image.Decode(bytes.NewReader(picture))
	testkit.Must(t, err)
	seen := map[[3]uint32]bool{}
	for y := img.Bounds().Min.Y; y < img.Bounds().Max.Y; y += 2 {
		for x := img.Bounds().Min.X; x < img.Bounds().Max.X; x++ {
			r, g, b, _ := img.At(x, y).RGBA()
			seen[[3]uint32{r, g, b}] = true
		}
	}
	return len(seen)
}

// axe finds no fault in any view, in light and in dark, nor in the login.
func TestAccessible(t *testing.T) {
	t.Parallel()
	f := startFixture(t, &access.Guard{})
	closed := startFixture(t, guardOf(t))
	file, err := os.Open("testdata/axe/axe.min.js.gz")
	testkit.Must(t, err)
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	testkit.Must(t, err)
	axe, err := io.ReadAll(unzipped)
	testkit.Must(t, err)
	tab := programs.StartBrowser(t).Open("about:blank")
	check := func(what string) {
		for _, dark := range []bool{false, true} {
			tab.Size(1280, 900, dark)
			var faults []string
			tab.Run(string(axe)+`;axe.run().then(r => r.violations.flatMap(v => v.nodes.map(n => v.id + " " + n.target + " " + n.failureSummary)))`, &faults)
			for _, fault := range faults {
				t.Errorf("%s, dark %v: %s", what, dark, fault)
			}
		}
	}
	for i := range views {
		tab.Go("about:blank")
		views[i].open(tab, f.URL)
		check(views[i].address)
	}
	tab.Go(closed.URL + "/")
	tab.Until("document.querySelector('input[type=password]')")
	check("login")
}

// A table is copied as CSV with the numbers of the API, and a cell that a spreadsheet would run is text.
func TestCSV(t *testing.T) {
	t.Parallel()
	f := startFixture(t, &access.Guard{})
	tab := programs.StartBrowser(t).Open(f.URL + "/#/keys")
	copied := func() (text string) {
		tab.Run(`new Promise(done => {
			const made = URL.createObjectURL;
			URL.createObjectURL = blob => { blob.text().then(done); URL.createObjectURL = made; return made.call(URL, blob); };
			document.querySelector("button.csv").click();
		})`, &text)
		return text
	}
	tab.Until("document.querySelectorAll('tbody tr').length == 2")
	want := "Key,Entries,Rule,Domain,Denied,Allowed,Over,Error at most\r\n" +
		"00112233445566778899aabbccddeeff,\"user=" + strings.ReplaceAll(evil, `"`, `""`) + "\",shop/user,shop,321,500,0,4\r\n" +
		"ffeeddccbbaa99887766554433221100,user=∗," + strings.Repeat("a-long-name-", 20) + ",shop,45,100,2,4\r\n"
	if got := copied(); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	tab.Run("[...document.querySelectorAll('th button')].find(b => b.textContent == 'Allowed').click()", nil)
	tab.Run("[...document.querySelectorAll('th button')].find(b => b.textContent == 'Allowed').click()", nil)
	if lines := strings.Split(copied(), "\r\n"); !strings.HasPrefix(lines[1], "ffee") {
		t.Errorf("not sorted as shown: %q", lines)
	}
	tab.Go(f.URL + "/#/records")
	tab.Until("document.querySelectorAll('tbody tr').length == 1")
	if got := copied(); !strings.Contains(got, ",'=1+1,") {
		t.Errorf("a formula in %s", got)
	}
}

// The stream shows its first frame at once, is closed while the page is hidden, and opens again. The
// digits open views, and the time zone changes all times.
func TestLive(t *testing.T) {
	t.Parallel()
	f := startFixture(t, &access.Guard{})
	tab := programs.StartBrowser(t).Open(f.URL + "/")
	tab.Until("document.getElementById('live').textContent == 'live'")
	first := 0.0
	tab.Run("performance.now()", &first)
	t.Logf("%.0f ms from the start of the page to a live frame", first)
	hide := func(hidden bool) {
		tab.Run(fmt.Sprintf("Object.defineProperty(document, 'hidden', {value: %v, configurable: true}); document.dispatchEvent(new Event('visibilitychange'))", hidden), nil)
	}
	hide(true)
	testkit.Until(t, "the stream ends while the page is hidden", func() bool { return f.viewers.Load() == 0 })
	tab.Until("document.getElementById('live').textContent == 'paused'")
	hide(false)
	testkit.Until(t, "the stream begins again", func() bool { return f.viewers.Load() == 1 })
	tab.Until("document.getElementById('live').textContent == 'live'")

	tab.Run("document.body.focus()", nil)
	tab.Key("7")
	tab.Until("location.hash == '#/denials' && document.querySelectorAll('tbody tr').length == 1")
	for zone, at := range map[string]string{"Asia/Tokyo": "", "America/New_York": "", "UTC": ""} {
		tab.Run("document.getElementById('zone').value = "+quote(zone)+"; document.getElementById('zone').dispatchEvent(new Event('change'))", nil)
		tab.Run("new Date("+fmt.Sprint(f.began.UnixMilli())+").toLocaleString('en-CA', {timeZone: "+quote(zone)+", hourCycle: 'h23', year: 'numeric', month: '2-digit', day: '2-digit', hour: '2-digit', minute: '2-digit', second: '2-digit'}).replace(',', '')", &at)
		tab.Until("document.querySelector('tbody td') && document.querySelector('tbody td').textContent == " + quote(at))
	}
}

// A stream that is open and says nothing is not live, and the page opens another one.
func TestFrozen(t *testing.T) {
	t.Parallel()
	f := startFixture(t, &access.Guard{})
	tab := programs.StartBrowser(t).Open(f.URL + "/")
	tab.Until("document.getElementById('live').textContent == 'live'")
	f.frozen.Store(true)
	tab.Until("document.getElementById('live').textContent == 'no connection'")
	f.frozen.Store(false) // for new streams
	tab.Until("document.getElementById('live').textContent == 'live'")
	testkit.Until(t, "the silent stream ends", func() bool { return f.viewers.Load() == 1 })
}

// What a node counted before it joined is no rate, neither of all nor of a rule.
func TestNodeJoins(t *testing.T) {
	t.Parallel()
	f := startFixture(t, &access.Guard{})
	tab := programs.StartBrowser(t, "--lang=en-US").Open(f.URL + "/")
	shown := "document.querySelector('main').innerText"
	tab.Until("document.body.dataset.view && Number(document.body.dataset.frames) > 3 && " + shown + ".includes('25 %')")
	tab.Run("window.jumped = 0; setInterval(() => { if ("+shown+".replaceAll(',', '').includes('1000000030')) window.jumped = 1; }, 5)", nil)
	f.joined.Store(true)
	tab.Until(shown + ".replaceAll(',', '').includes('10001')")
	tab.Until("Number(document.body.dataset.frames) > 20")
	jumped := 0
	tab.Run("window.jumped", &jumped)
	if jumped != 0 {
		t.Error("a rate of 1,000,000,030 a second")
	}
}

// The faults of a refused rule file stand below their lines.
func TestRuleText(t *testing.T) {
	t.Parallel()
	f := startFixture(t, &access.Guard{})
	testkit.Must(t, os.WriteFile(f.rules, []byte(strings.Replace(ruleText, "requests: 100", "requests: many", 1)), 0o600))
	tab := programs.StartBrowser(t).Open(f.URL + "/#/text/" + strings.ReplaceAll(f.rules, "/", "%2F") + "/4")
	tab.Until("document.querySelector('li#at .fault.error') && document.querySelector('main').innerText.includes('earlier rules are in force')")
	line := ""
	tab.Run("document.querySelector('li#at').innerText", &line)
	if !strings.Contains(line, "requests: many") || !strings.Contains(line, "error: ") {
		t.Errorf("line 4 is %q", line)
	}
	tab.Run("document.querySelector('tbody a').textContent", &line)
	if line != filepath.ToSlash(f.rules)+":4" {
		t.Errorf("the place is %q", line)
	}
}

// The forms send what they say, and a role that may not change something sees why.
func TestForms(t *testing.T) {
	t.Parallel()
	f := startFixture(t, &access.Guard{})
	tab := programs.StartBrowser(t).Open(f.URL + "/#/keys?domain=shop&entries=user%3D42")
	for _, c := range []struct{ form, fields, want string }{
		{"Reset", `{"why": "ticket ü"}`, `POST /v1/reset {"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"42"}]}]} ticket ü`},
		{"Ban", `{"why": "w", "until": "1h"}`, `PUT /v1/bans {"subject":"user=42","why":"w","until":"1h"}`},
		{"Unban", `{"why": "w"}`, `DELETE /v1/bans/user%3D42  w`},
		{"Override", `{"why": "w", "requests": "7", "until": "7d"}`, `PUT /v1/overrides {"subject":"user=42","rule":"shop/user","requests":7,"why":"w","until":"7d"}`},
		{"End override", `{"why": "w"}`, `DELETE /v1/overrides/user%3D42/shop%2Fuser  w`},
	} {
		send(tab, c.form, c.fields)
		if got := <-f.asked; got != c.want {
			t.Errorf("%s sent\n%s\nwant\n%s", c.form, got, c.want)
		}
		tab.Until("document.getElementById('note').className == 'good' && document.getElementById('note').textContent")
		tab.Run("document.getElementById('note').replaceChildren()", nil)
	}
	closed := startFixture(t, guardOf(t))
	tab.Go(closed.URL + "/#/records")
	login(tab, "reader-token")
	tab.Until("document.querySelector('form[aria-label=Ban] button[type=submit]')")
	disabled, text := false, ""
	tab.Run("document.querySelector('form[aria-label=Ban] button[type=submit]').disabled", &disabled)
	tab.Run("document.querySelector('form[aria-label=Ban]').innerText", &text)
	if !disabled || !strings.Contains(text, "needs the role support; reader has read") {
		t.Errorf("disabled %v: %s", disabled, text)
	}
}

// send fills the fields of a form and sends it, as soon as it is there.
func send(tab *programs.Tab, form, fields string) {
	tab.Until("document.querySelector(" + quote(`form[aria-label="`+form+`"]`) + ")")
	tab.Run("(() => { const f = document.querySelector("+quote(`form[aria-label="`+form+`"]`)+"); for (const [k, v] of Object.entries("+fields+")) f.elements[k].value = v; f.requestSubmit(); })()", nil)
}

// login enters a token.
func login(tab *programs.Tab, token string) {
	tab.Until("document.querySelector('form.login')")
	tab.Run("(() => { const f = document.querySelector('form.login'); f.elements.token.value = "+quote(token)+"; f.requestSubmit(); })()", nil)
	tab.Until("!document.querySelector('form.login')")
}

// guardOf returns a guard that knows reader, who has the role read and reader-token, and
// admin-token, who has the token secret.
func guardOf(t *testing.T) *access.Guard {
	t.Helper()
	hash := sha256.Sum256([]byte("reader-token"))
	list, err := access.Parse("access", []byte("reader read sha256:"+hex.EncodeToString(hash[:])+"\n"))
	testkit.Must(t, err)
	single := access.Single("secret")
	return &access.Guard{
		Lists:   []func() *access.List{func() *access.List { return single }, func() *access.List { return list }},
		Refused: &logging.MisuseLog{Log: slog.New(slog.DiscardHandler)},
	}
}
