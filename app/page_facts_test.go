package app

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stint/facts"
	"stint/internal/testkit"
	"stint/internal/testkit/programs"
	"stint/limiter"
	"stint/rule"
	"stint/server/factsapi"
)

// get asks the admin listener.
func (s *pageService) get(t *testing.T, path string, into any) {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, s.admin.URL+path, nil)
	testkit.Must(t, err)
	r.Header.Set("Authorization", "Bearer "+s.tokens["read"])
	answer, err := http.DefaultClient.Do(r)
	testkit.Must(t, err)
	defer answer.Body.Close()
	testkit.Must(t, json.NewDecoder(answer.Body).Decode(into))
}

// The views of a real service show the numbers of its API. The log says how long the first live frame
// takes, which is a second at most on a machine that does nothing else.
func TestPageNumbers(t *testing.T) {
	t.Parallel() // most of the time is the browser's
	s := startPageService(t, true)
	for range 1234 {
		s.take(t)
	}
	tab := programs.StartBrowser(t).Open(s.admin.URL + "/")
	tab.Until("Number(document.body.dataset.frames) > 0 && document.querySelectorAll('tbody tr').length > 0")
	first := 0.0
	tab.Run("Number(document.body.dataset.first)", &first)
	t.Logf("%.0f ms from the start of the page to the first frame", first)
	var summary facts.Summary
	testkit.Until(t, "all decisions are counted", func() bool {
		s.get(t, "/v1/facts", &summary)
		return len(summary.Rules) == 1 && summary.Rules[0].Allowed+summary.Rules[0].Denied == 1234
	})
	var keys struct{ Keys []facts.Key }
	s.get(t, "/v1/facts/keys", &keys)
	if r := summary.Rules[0]; r.Allowed != 2 || len(keys.Keys) != 1 || keys.Keys[0].Denied != 1232 {
		t.Fatalf("%+v %+v", r, keys)
	}
	for address, texts := range map[string][]string{
		"overview":               {"api/user", "1,232", "memory", summary.Nodes[0].Hash, "start"},
		"rules":                  {"api/user", "fixed_window: 2 per 1h", "1,232", "100 %"},
		"rules/api/api%2Fuser":   {"1,232 (100 %)", "fixed_window: 2 per 1h", "Busiest key", "start"},
		"keys":                   {keys.Keys[0].ID[:12], "1,232", "user=∗"},
		"coordination":           {summary.Nodes[0].Name, "1,234", summary.Nodes[0].Hash + " (1)", "strict"},
		"denials":                {"rate_limited", keys.Keys[0].ID[:12], "api/user"},
		"text":                   {"rate_limit: {requests: 2, per: 1h}", "These files are in force"},
		"records?kind=overrides": {"There is no override"},
		"audit":                  {"No entry"},
	} {
		tab.Go(s.admin.URL + "/#/" + address)
		for _, text := range texts {
			tab.Until(fmt.Sprintf("document.querySelector('main').innerText.includes(%q)", text))
		}
	}
}

// Ten viewers under a flood cost at most 10 ms of CPU a second, and ten browsers show what happens.
func TestPageCost(t *testing.T) {
	s := startPageService(t, true)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	var group sync.WaitGroup
	defer group.Wait()
	defer end()
	var decided atomic.Int64
	group.Go(func() {
		var v limiter.Verdict
		req := limiter.Request{Domain: "api", Descriptors: []limiter.Descriptor{{Entries: []rule.Entry{{Key: "user", Value: ""}}, Cost: 1}}}
		for i := 0; ctx.Err() == nil; i++ {
			req.Descriptors[0].Entries[0].Value = strconv.Itoa(i % 100_000)
			if err := s.limiter.Decide(ctx, &req, &v); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
			decided.Add(1)
		}
	})
	var frames atomic.Int64
	for range 10 {
		group.Go(func() {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.admin.URL+"/v1/live", nil)
			if err != nil {
				t.Error(err)
				return
			}
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			defer answer.Body.Close()
			for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
				if strings.HasPrefix(lines.Text(), "data: ") {
					frames.Add(1)
				}
			}
		})
	}
	testkit.Until(t, "ten viewers see frames", func() bool { return frames.Load() >= 20 })
	file := filepath.Join(t.TempDir(), "cpu")
	out, err := os.Create(file)
	testkit.Must(t, err)
	runtime.SetCPUProfileRate(250) // StartCPUProfile keeps it, and complains; kernels count in steps of 4 ms
	testkit.Must(t, pprof.StartCPUProfile(out))
	began, before, seen := time.Now(), decided.Load(), frames.Load()
	testkit.Until(t, "200 more frames", func() bool { return frames.Load() >= seen+200 })
	pprof.StopCPUProfile()
	seconds, decisions, sent := time.Since(began).Seconds(), decided.Load()-before, frames.Load()-seen
	testkit.Must(t, out.Close())
	browser := programs.StartBrowser(t)
	var tabs []*programs.Tab
	for range 10 {
		tabs = append(tabs, browser.Open(s.admin.URL+"/"))
	}
	for _, tab := range tabs {
		tab.Until("Number(document.body.dataset.frames) >= 3 && Number(document.getElementById('denied').textContent.replaceAll(',', '')) > 0")
	}
	cost := labelled(t, file, factsapi.CostLabel)
	t.Logf("%.0f decisions a second, %.1f frames a second, %.2f ms of CPU a second for ten viewers", float64(decisions)/seconds, float64(sent)/seconds, cost.Seconds()*1000/seconds)
	if limit := 10 * time.Millisecond; cost.Seconds()/seconds > limit.Seconds() && !testkit.Race {
		t.Errorf("ten viewers cost %s of CPU a second, at most %s", time.Duration(float64(cost)/seconds), limit)
	}
}

var sampled = regexp.MustCompile(`(?m)^ +\d+ +(\d+): `)

// labelled returns the CPU time of the samples of a profile that have a label.
func labelled(t *testing.T, file, label string) (sum time.Duration) {
	t.Helper()
	out, err := exec.Command("go", "tool", "pprof", "-raw", file).Output()
	testkit.Must(t, err)
	var last time.Duration
	for line := range strings.Lines(string(out)) {
		if m := sampled.FindStringSubmatch(line); m != nil {
			n, err := strconv.ParseInt(m[1], 10, 64)
			testkit.Must(t, err)
			last = time.Duration(n)
		} else if strings.Contains(line, label+":") {
			sum += last
		}
	}
	return sum
}
