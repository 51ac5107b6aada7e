package lists

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"stint/gateway/gatewaytest"
	"stint/internal/testkit"
	rulelist "stint/rule/list"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, gatewaytest.Leaks()...)
}

const site = `
{
	GLOBAL
}
http://ADDRESS {
	stint_deny DIR/deny.txt
	stint_only DIR/allow.txt DIR/more.txt
	log
	respond "served"
}
`

// proxied is the site behind a proxy on this machine, so that a test can choose its address.
var proxied = strings.Replace(site, "GLOBAL", "GLOBAL\n\tservers {\n\t\ttrusted_proxies static 127.0.0.0/8\n\t\ttrusted_proxies_strict\n\t}", 1)

func start(t *testing.T, text string) *gatewaytest.Gateway {
	t.Helper()
	g := gatewaytest.New(t)
	g.Write("allow.txt", "# offices\n192.0.2.0/24\n2001:db8::/32\n")
	g.Write("more.txt", "198.51.100.7\n")
	g.Write("deny.txt", "192.0.2.66\n")
	if err := g.Load(text); err != nil {
		t.Fatal(err)
	}
	return g
}

// Clients in a list of stint_only are served unless one of stint_deny has them too; all others get
// 403, in the format that they accept.
func TestLists(t *testing.T) {
	g := start(t, proxied)
	for client, want := range map[string]int{
		"192.0.2.1": 200, "192.0.2.66": 403, "198.51.100.7": 200, "198.51.100.8": 403,
		"2001:db8::9": 200, "2001:db9::9": 403, "::ffff:192.0.2.9": 200,
		"192.0.2.1, 203.0.113.1": 403, // a client that claims to be another
	} {
		if got := g.Get("/", "X-Forwarded-For", client); got.Status != want {
			t.Errorf("%s: %d %s, want %d", client, got.Status, got.Body, want)
		}
	}
	if got := g.Get("/"); got.Status != 403 {
		t.Errorf("without a forwarded header the client is the proxy: %d", got.Status)
	}
	got := g.Get("/", "X-Forwarded-For", "203.0.113.1")
	if want := `{"error":{"code":"denied","message":"This client is not served.","context":{}}}`; got.Body != want ||
		got.Header.Get("Content-Type") != "application/json" || got.Header.Get("Cache-Control") != "no-store" || got.Header.Get("Retry-After") != "" {
		t.Errorf("%s %v", got.Body, got.Header)
	}
	got = g.Get("/", "X-Forwarded-For", "203.0.113.1", "Accept", "application/problem+json")
	if want := `{"type":"about:blank","title":"Forbidden","status":403,"detail":"This client is not served.","code":"denied"}`; got.Body != want ||
		got.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%s %v", got.Body, got.Header)
	}
	testkit.Until(t, "the access log names the list", func() bool {
		return strings.Contains(g.Log(), `deny.txt"`) && strings.Contains(g.Log(), `"stint_list":"stint_only"`)
	})
}

// Without trusted proxies no client can choose its address. A configuration in which Caddy would read
// the forwarded header from the left is refused.
func TestForgedAddress(t *testing.T) {
	g := start(t, site)
	if got := g.Get("/", "X-Forwarded-For", "192.0.2.1"); got.Status != 403 {
		t.Errorf("status %d", got.Status)
	}
	lax := strings.Replace(proxied, "trusted_proxies_strict", "", 1)
	err := g.Load(lax)
	if want := "the server has trusted_proxies without trusted_proxies_strict: clients can write any address into the forwarded header; " +
		"hint: add trusted_proxies_strict to the block of servers; the running configuration stays in force"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v\nwant %s", err, want)
	}
}

// A changed file is in force at once; a file with a fault, an empty allow list and a missing file are
// refused with one log line, and the previous list stays.
func TestChanges(t *testing.T) {
	g := start(t, proxied)
	served := func(client string) bool { return g.Get("/", "X-Forwarded-For", client).Status == 200 }
	eventually := func(what, client string, want bool) {
		t.Helper()
		testkit.Until(t, what, func() bool { return served(client) == want })
	}
	g.Write("allow.txt", "203.0.113.0/24\n")
	eventually("the new list is in force", "203.0.113.9", true)
	if served("192.0.2.1") {
		t.Error("an old network is served")
	}
	for _, bad := range []struct{ text, want string }{
		{"203.0.113.0/24\n192.0.2.0/24\nnonsense\n", `allow.txt:3: \"nonsense\" is neither a network nor an address; hint: write it such as`},
		{"# nobody\n", `allow.txt: no network in it, so stint_only would refuse every client; hint: `},
	} {
		g.Write("allow.txt", bad.text)
		testkit.Until(t, "the fault is logged", func() bool { return strings.Contains(g.Log(), bad.want) })
		if !served("203.0.113.9") || served("192.0.2.1") {
			t.Errorf("%q: the list has changed", bad.text)
		}
	}
	if err := os.Remove(g.Dir + "/allow.txt"); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the loss is logged", func() bool { return strings.Contains(g.Log(), `allow.txt: cannot read it: no such file`) })
	if !served("203.0.113.9") {
		t.Error("the list is gone")
	}
	for line := range strings.Lines(g.Log()) {
		if strings.Contains(line, "not reloaded") && !strings.Contains(line, "keeping the 1 networks of ") {
			t.Errorf("the line does not name the list in force: %s", line)
		}
	}
	if n := strings.Count(g.Log(), "not reloaded"); n != 3 {
		t.Errorf("%d lines about 3 faults", n)
	}
	g.Write("allow.txt", "203.0.113.0/24\n198.51.100.0/24\n")
	eventually("the mended list is in force", "198.51.100.200", true)
}

// A reload of the configuration keeps the lists, serves every request, and leaves no goroutine. A
// reload with a bad list is refused, and the previous configuration stays.
func TestReloads(t *testing.T) {
	g := start(t, proxied)
	stop, failed := make(chan struct{}), make(chan string, 1)
	go func() {
		defer close(failed)
		for {
			select {
			case <-stop:
				return
			default:
			}
			r, _ := http.NewRequest(http.MethodGet, "http://"+g.Address, http.NoBody)
			r.Header.Set("X-Forwarded-For", "192.0.2.1")
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				continue // a reload of Caddy may reset a connection that it has not accepted yet
			}
			_ = resp.Body.Close()
			if resp.StatusCode != 200 {
				failed <- resp.Status
				return
			}
		}
	}()
	goroutines := 0
	for n := range 50 {
		if err := g.Load(proxied); err != nil {
			t.Fatal(err)
		}
		if n == 10 {
			goroutines = runtime.NumGoroutine()
		}
	}
	close(stop)
	if text, bad := <-failed; bad {
		t.Errorf("a request failed: %s", text)
	}
	testkit.Until(t, "goroutines of old configurations end", func() bool { return runtime.NumGoroutine() <= goroutines+5 })
	g.Write("more.txt", "x\n")
	if err := g.Load(proxied); err == nil || !strings.Contains(err.Error(), `more.txt:1: "x" is neither a network nor an address; hint: `) {
		t.Errorf("a bad list: %v", err)
	}
	if got := g.Get("/", "X-Forwarded-For", "198.51.100.7"); got.Status != 200 {
		t.Errorf("after the refused reload: %d", got.Status)
	}
}

// Validation reads the lists, and neither starts a goroutine nor keeps one.
func TestValidate(t *testing.T) {
	g := gatewaytest.New(t)
	for _, name := range []string{"allow.txt", "more.txt", "deny.txt"} {
		g.Write(name, "192.0.2.0/24\n")
	}
	before := goleak.IgnoreCurrent()
	if err := g.Check(site); err != nil {
		t.Error(err)
	}
	if err := goleak.Find(append(gatewaytest.Leaks(), before)...); err != nil {
		t.Error(err)
	}
}

// Each fault is one line with its place and a hint.
func TestFaults(t *testing.T) {
	g := gatewaytest.New(t)
	g.Write("bad.txt", "192.0.2.1/24\ny\n")
	g.Write("empty.txt", "")
	for line, want := range map[string]string{
		"stint_only":                        "stint_only without a file; hint: name files with one network a line, such as stint_only allow.txt",
		"stint_only DIR/empty.txt {\n x\n}": "stint_only has no option x; hint: write networks into a file and name it on the line of stint_only",
		"stint_only DIR/absent.txt":         "absent.txt: cannot read it: no such file or directory; hint: name a file with one network or address a line",
		"stint_deny DIR/bad.txt":            `bad.txt:1: "192.0.2.1/24" is an address inside a network (and 1 more faults); hint: write 192.0.2.0/24 for the network`,
		"stint_only DIR/empty.txt":          "empty.txt: no network in it, so stint_only would refuse every client; hint: ",
	} {
		err := g.Check("{\nGLOBAL\n}\nhttp://ADDRESS {\n" + line + "\n}")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v\nwant %s", line, err, want)
		}
	}
	if err := g.Check("{\nGLOBAL\n}\nhttp://ADDRESS {\nstint_deny DIR/empty.txt\n}"); err != nil {
		t.Errorf("an empty deny list: %v", err)
	}
}

// The directives stand before everything that costs time, in whatever order they are written.
func TestAdapt(t *testing.T) {
	g := gatewaytest.New(t)
	adapted, err := g.Adapt(`
http://example.com {
	reverse_proxy 127.0.0.1:1
	basic_auth {
		bob $2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG
	}
	redir /old /new
	rewrite /a /b
	header X-Served yes
	stint_only @api allow.txt more.txt
	stint_deny deny.txt
	@api path /api/*
}`)
	if err != nil {
		t.Fatal(err)
	}
	testkit.CheckGolden(t, "testdata/adapt.json", gatewaytest.Indent(adapted))
}

// hundredThousand returns a list of 100,000 networks of all sizes.
func hundredThousand() string {
	r := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for i := range 100_000 {
		var addr netip.Addr
		bits := 16 + r.IntN(17)
		if i%4 == 0 {
			a := [16]byte{0x20, 0x01, byte(r.IntN(256)), byte(r.IntN(256)), byte(r.IntN(256)), byte(r.IntN(256)), byte(r.IntN(256)), byte(r.IntN(256))}
			addr, bits = netip.AddrFrom16(a), 32+r.IntN(33)
		} else {
			addr = netip.AddrFrom4([4]byte{byte(r.IntN(256)), byte(r.IntN(256)), byte(r.IntN(256)), byte(r.IntN(256))})
		}
		fmt.Fprintln(&b, netip.PrefixFrom(addr, bits).Masked())
	}
	return b.String()
}

// The reported memory of a large list is what it really uses.
func TestSize(t *testing.T) {
	text := hundredThousand()
	before := testkit.Heap()
	l, err := rulelist.ParseNetworks("large.txt", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	used := float64(testkit.Heap() - before)
	began := time.Now()
	size := float64(sizeOf(l.Set))
	t.Logf("%d networks: %.2f MB measured, %.2f MB reported in %v", l.Set.Len(), used/1e6, size/1e6, time.Since(began))
	if size > used || size < 0.6*used {
		t.Errorf("reports %.0f bytes, uses %.0f", size, used)
	}
	runtime.KeepAlive(l)
	runtime.KeepAlive(text)
}

// BenchmarkFind reports the cost of looking up an address in 100,000 networks.
func BenchmarkFind(b *testing.B) {
	l, err := rulelist.ParseNetworks("large.txt", []byte(hundredThousand()))
	if err != nil {
		b.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 4))
	addrs := make([]netip.Addr, 1<<16)
	for i := range addrs {
		addrs[i] = netip.AddrFrom4([4]byte{byte(r.IntN(256)), byte(r.IntN(256)), byte(r.IntN(256)), byte(r.IntN(256))})
	}
	found := 0
	for i := 0; b.Loop(); i++ {
		if l.Networks.Holds(addrs[i&(1<<16-1)]) {
			found++
		}
	}
	b.ReportMetric(float64(found)/float64(b.N), "found/op")
}
