package examples

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stint/internal/testkit"
	"stint/internal/testkit/programs"
)

func startEnvoy(t testing.TB, file string) programs.Command {
	return programs.Command{
		Path: programs.Binary(t, "envoy"),
		Args: []string{"-c", file, "--disable-hot-restart", "--concurrency", "1", "--log-level", "error"},
	}
}

// envoyWords converts the replacements to the syntax of Envoy's files: separate ports, and times in
// seconds.
func envoyWords(words map[string]string) map[string]string {
	all := map[string]string{}
	for from, to := range words {
		_, old, isAddress := strings.Cut(from, "127.0.0.1:")
		_, port, err := net.SplitHostPort(to)
		switch {
		case from == "100ms":
			all["timeout: 0.1s"] = "timeout: " + to
		case isAddress && err == nil:
			all["port_value: "+old] = "port_value: " + port
		default:
			all[from] = to
		}
	}
	return all
}

// startFeatures starts Envoy with a route for each feature.
func startFeatures(t *testing.T, timeout time.Duration, flags ...string) *setup {
	t.Helper()
	s := &setup{t: t, stint: programs.Stint(t, flags...), backend: programs.NewBackend(t)}
	address := testkit.Address(t)
	words := map[string]string{
		"127.0.0.1:8000": address, "127.0.0.1:8081": s.stint.GRPC, "127.0.0.1:9000": s.backend.Addr, "100ms": fmt.Sprintf("%gs", timeout.Seconds()),
	}
	command := startEnvoy(t, programs.Adapt(t, "proxies/testdata/envoy/envoy.yaml", envoyWords(words)))
	command.Ready = programs.Listens(address)
	programs.Run(t, command)
	s.url = "http://" + address
	return s
}

// rulesOfFeatures is the folder of the rules for them.
const rulesOfFeatures = "proxies/testdata/envoy-rules"

// The fields that a client of Envoy gets, by preset, for allowed and denied requests.
func TestEnvoyHeaders(t *testing.T) {
	t.Parallel()
	s := startFeatures(t, deadline, "--rules", rulesOfFeatures)
	client := programs.Client(t, "127.0.0.7")
	const ietf, numbers = `ratelimit-policy: "by-\w+";q=1;w=31536000 ratelimit: "by-\w+";r=0;t=\d+`, `x-ratelimit-limit: 1 x-ratelimit-remaining: 0 x-ratelimit-reset: \d+`
	const retry, retryToo = `retry-after: \d+`, `x-ratelimit-retry-after: \d+`
	for _, tt := range []struct{ preset, passed, denied string }{
		{"silent", ``, ``},
		{"none", ``, retry},
		{"ietf", ietf, ietf + " " + retry},
		{"legacy", numbers, retry + " " + numbers + " " + retryToo},
		{"draft03", `x-ratelimit-limit: 1, 1;w=31536000 x-ratelimit-remaining: 0 x-ratelimit-reset: \d+`, `retry-after: \d+ x-ratelimit-limit: 1, 1;w=31536000 x-ratelimit-remaining: 0 x-ratelimit-reset: \d+`},
		{"both", ietf + " " + numbers, ietf + " " + retry + " " + numbers + " " + retryToo},
	} {
		for i, want := range []string{tt.passed, tt.denied} {
			a := s.get(client, "/", "X-Preset: "+tt.preset)
			if got := limitFields(a.header); a.status != 200+229*i || !regexp.MustCompile(`\A`+want+`\z`).MatchString(got) {
				t.Errorf("%s: %d with %q, want %s", tt.preset, a.status, got, want)
			}
		}
	}
	for range 3 { // in shadow mode
		if a := s.get(client, "/", "X-Preset: shadow"); a.status != 200 {
			t.Errorf("shadow: %d", a.status)
		}
	}
}

// limitFields returns the header fields about limits, in order.
func limitFields(h http.Header) string {
	var fields []string
	for name, values := range h {
		if name = strings.ToLower(name); strings.Contains(name, "ratelimit") && name != "x-envoy-ratelimited" || name == "retry-after" {
			fields = append(fields, name+": "+strings.Join(values, " and "))
		}
	}
	slices.Sort(fields)
	return strings.Join(fields, " ")
}

// Descriptors of three actions count for the three together.
func TestEnvoyThreeActions(t *testing.T) {
	t.Parallel()
	s := startFeatures(t, deadline, "--rules", rulesOfFeatures)
	one, other := programs.Client(t, "127.0.0.7"), programs.Client(t, "127.0.0.8")
	for _, tt := range []struct {
		client       *http.Client
		path, header string
		want         int
	}{
		{one, "/three", "X-User: ann", 200},
		{one, "/three?q=1", "X-User: ann", 200},
		{one, "//x/../%74hree?q=2", "X-User: ann", 429},
		{one, "/three", "X-User: bob", 200},
		{one, "/thre", "X-User: ann", 200},
		{one, "/three", "X-Other: ann", 200}, // no descriptor
		{other, "/three", "X-User: ann", 200},
		{other, "/three", "X-User: ann", 200},
		{other, "/three", "X-User: ann", 429},
	} {
		if a := s.get(tt.client, tt.path, tt.header); a.status != tt.want {
			t.Errorf("%s %s: %d, want %d", tt.path, tt.header, a.status, tt.want)
		}
	}
}

// The cost of a request in routes of Envoy: a number, a value from the request, zero, a negative
// number.
func TestEnvoyHits(t *testing.T) {
	t.Parallel()
	s := startFeatures(t, deadline, "--rules", rulesOfFeatures)
	client := programs.Client(t, "127.0.0.7")
	for i, tt := range []struct {
		path, header string
		status       int
		left         string
	}{
		{"/number", "", 200, "7"},
		{"/number", "", 200, "4"},
		{"/peek", "", 200, "4"},
		{"/number", "", 200, "1"},
		{"/number", "", 429, "1"},
		{"/peek", "", 200, "1"},
		{"/format", "X-Cost: 2", 429, "1"},
		{"/format", "X-Cost: 1", 200, "0"},
		{"/peek", "", 200, "0"},
		{"/format", "X-Cost: junk", 200, ""}, // Envoy sends no descriptor then
		{"/format", "X-Cost: -5", 200, ""},
		{"/refund", "", 200, "2"},
		{"/format", "X-Cost: 2", 200, "0"},
	} {
		lines := []string{tt.header}
		if tt.header == "" {
			lines = nil
		}
		a := s.get(client, tt.path, lines...)
		if left := a.header.Get("X-RateLimit-Remaining"); a.status != tt.status || left != tt.left {
			t.Errorf("%d: %s %s: %d with %q left, want %d and %q", i, tt.path, tt.header, a.status, left, tt.status, tt.left)
		}
	}
}

// A limit in Envoy's request, and a domain of a route.
func TestEnvoyOverrides(t *testing.T) {
	t.Parallel()
	s := startFeatures(t, deadline, "--rules", rulesOfFeatures)
	client := programs.Client(t, "127.0.0.7")
	for _, tt := range []struct {
		path, header string
		want         []int
	}{
		{"/override", "X-Any: 1", []int{200, 200, 429, 429}},
		{"/", "X-Preset: silent", []int{200, 429}},
		{"/domain", "X-Preset: silent", []int{200, 200, 429}},
	} {
		var got []int
		for range tt.want {
			got = append(got, s.get(client, tt.path, tt.header).status)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.path, got, tt.want)
		}
	}
}

// A cost that is known after the response is charged then, as a debt if too little is left. While
// there is a debt, the peek of the next request is denied.
func TestEnvoyCostAfterwards(t *testing.T) {
	t.Parallel()
	s := startFeatures(t, deadline, "--rules", rulesOfFeatures)
	client := programs.Client(t, "127.0.0.7")
	left := func(want int) {
		t.Helper()
		programs.Until(t, fmt.Sprintf("%d left", want), func() bool {
			resp, err := http.Post("http://"+s.stint.HTTP+"/v1/check", "application/json",
				strings.NewReader(`{"domain": "features", "descriptors": [{"entries": [{"key": "tokens", "value": "ann"}], "cost": 0}]}`))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			var verdict struct{ Remaining int }
			if err := json.NewDecoder(resp.Body).Decode(&verdict); err != nil {
				t.Fatal(err)
			}
			return verdict.Remaining == want
		})
	}
	path := "/afterwards/" + strings.Repeat("x", 60-len("GET /afterwards/")) // its response has 60 bytes
	if a := s.get(client, path, "X-Tokens: ann"); a.status != 200 || len(a.body) != 60 {
		t.Fatalf("%d %q", a.status, a.body)
	}
	left(40)
	if a := s.get(client, path, "X-Tokens: ann"); a.status != 200 {
		t.Fatalf("%d %q", a.status, a.body)
	}
	left(0)
	programs.Until(t, "a look that is denied", func() bool { return s.get(client, path, "X-Tokens: ann").status == 429 })
	if a := s.get(client, path, "X-Tokens: bob"); a.status != 200 {
		t.Errorf("another key: %d", a.status)
	}
}

// Rule files in the format of envoyproxy/ratelimit work as in its examples behind Envoy: a limit
// that replaces others does not change their counts, and quotas deny only together.
func TestEnvoyAsThePeer(t *testing.T) {
	t.Parallel()
	s := startFeatures(t, deadline, "--rules", rulesOfFeatures)
	client := programs.Client(t, "127.0.0.7")
	for _, tt := range []struct {
		header []string
		want   []int
	}{
		{[]string{"X-Source: a"}, []int{200, 429}},
		{[]string{"X-Source: a", "X-Target: x"}, []int{429}},
		{[]string{"X-Target: x"}, []int{200, 200, 429}}, // the denied request was not counted
		{[]string{"X-Source: b", "X-Vip: silver"}, []int{200, 200, 200, 429}},
		{[]string{"X-Source: b"}, []int{200, 429}}, // untouched until now
		{[]string{"X-Source: c", "X-Target: y", "X-Vip: gold"}, []int{200, 200, 200, 200, 429}},
		{[]string{"X-Source: c", "X-Target: y"}, []int{200, 429}},
		{[]string{"X-Source: c", "X-Target: y", "X-Vip: allowed"}, []int{200, 200, 200, 200, 200, 200}},
		{[]string{"X-Small: k", "X-Large: k"}, []int{200, 200, 200, 429}},
		{[]string{"X-Small: k"}, []int{429}},
		{[]string{"X-Small: k", "X-Large: l"}, []int{200}},
		{[]string{"X-Unknown: k"}, []int{200, 200}},
	} {
		var got []int
		for range tt.want {
			got = append(got, s.get(client, "/", tt.header...).status)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%q: %v, want %v", tt.header, got, tt.want)
		}
	}
}

// Rules are reloaded again and again under load, some files with faults. Every response follows the
// old or the new rules, and every request is counted once.
func TestEnvoyReload(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data, err := os.ReadFile(filepath.Join(rulesOfFeatures, "features.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	const least, most = 1_000_000, 2_000_000
	write := func(limit, more string) {
		text := strings.Replace(string(data), fmt.Sprint(least), limit, 1) + more
		if err := os.WriteFile(filepath.Join(dir, "new"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "features.yaml")); err != nil {
			t.Fatal(err)
		}
	}
	write(fmt.Sprint(least), "")
	s := startFeatures(t, deadline, "--rules", filepath.Join(dir, "features.yaml"))
	ended := make(chan struct{})
	var asked atomic.Int64
	var group sync.WaitGroup
	for range 4 {
		client := programs.Client(t, "127.0.0.7")
		group.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
				}
				a, err := s.try(client, http.MethodGet, "/", "", "X-Preset: reloaded")
				asked.Add(1)
				if limit := a.header.Get("X-RateLimit-Limit"); err != nil || a.status != 200 || limit != fmt.Sprint(least) && limit != fmt.Sprint(most) {
					t.Errorf("%d, limit %q, %v", a.status, limit, err)
					return
				}
			}
		})
	}
	for i := range 10 {
		limit, more, said := fmt.Sprint([]int{most, least}[i%2]), "", "rules loaded"
		if i%4 > 1 {
			more, said = fmt.Sprintf("fault%d: yes\n", i), "rules refused"
		}
		before, served := strings.Count(s.stint.Log(), said), asked.Load()
		write(limit, more)
		programs.Until(t, said, func() bool { return strings.Count(s.stint.Log(), said) > before && asked.Load() > served+50 })
	}
	close(ended)
	group.Wait()
	a := s.get(programs.Client(t, "127.0.0.7"), "/", "X-Preset: reloaded")
	limit, left := a.header.Get("X-RateLimit-Limit"), a.header.Get("X-RateLimit-Remaining")
	var l, r int64
	if _, err := fmt.Sscan(limit+" "+left, &l, &r); err != nil || l-r != asked.Load()+1 {
		t.Errorf("%s of %s are left after %d requests", left, limit, asked.Load()+1)
	}
}

// While Redis is frozen, a client of Envoy gets the result of each rule's failure policy, because
// Stint answers before Envoy's deadline of 100 ms. A busy machine may miss the deadline sometimes,
// and then Envoy answers with 500.
func TestEnvoyFrozenRedis(t *testing.T) {
	redis := testkit.StartRedis(t)
	s := startFeatures(t, 100*time.Millisecond, "--rules", rulesOfFeatures, "--store", redis.URL())
	client := programs.Client(t, "127.0.0.7")
	const most, enough = 200, 10
	ask := func(policy string) map[int]int {
		statuses := map[int]int{}
		for range most {
			statuses[s.get(client, "/", "X-Policy: "+policy).status]++
			if statuses[200]+statuses[429] == enough {
				break
			}
		}
		return statuses
	}
	programs.Until(t, "an answer", func() bool { return s.get(client, "/", "X-Policy: deny").status != 500 })
	redis.Freeze()
	allow, deny, local := ask("allow"), ask("deny"), ask("local")
	if allow[200] != enough {
		t.Errorf("allow: %v", allow)
	}
	if deny[429] != enough {
		t.Errorf("deny: %v", deny)
	}
	if local[200] > 2 || local[200]+local[429] != enough { // 10 % of 40, divided by two nodes
		t.Errorf("local: %v", local)
	}
	redis.Thaw()
	programs.Until(t, "limits after the thaw", func() bool { return s.get(client, "/", "X-Policy: allow").status == 429 })
}
