package examples

import (
	"flag"
	"maps"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"stint/internal/testkit"
	"stint/internal/testkit/programs"
	"stint/internal/urlpath"
)

var (
	spellingsFlag = flag.Int("spellings", 10_000, "how many spellings TestServedPaths sends to each proxy")
	seedFlag      = flag.Uint64("spellings.seed", 1, "of the spellings of TestServedPaths")
)

// After the limit of the reports is used up, no spelling of their path gets the reports from any of
// the usual servers behind any of the proxies.
func TestServedPaths(t *testing.T) {
	n := *spellingsFlag
	if testing.Short() {
		n = min(n, 150)
	}
	behind := startServers(t)
	spellings := testkit.DodgePaths(limited, n-n/10, *seedFlag)
	for _, o := range []urlpath.Options{{EscapedSlash: true}, urlpath.All} {
		spellings = append(spellings, testkit.RespellPath(limited[1], n/20, o)...)
	}
	t.Run("proxies", func(t *testing.T) {
		for _, a := range spelled(t) {
			t.Run(a.name, func(t *testing.T) {
				t.Parallel()
				s := &setup{asker: a, t: t, stint: programs.Stint(t, "--config", "proxies/stint.yaml", "--rules", "proxies/testdata/served.yaml")}
				address := a.run(t, "open", s.stint, behind.Addr)
				s.url = "http://" + address
				client := programs.Client(t, "127.0.0.7")
				for _, path := range limited {
					for range 5 {
						if a := s.get(client, path); a.status != 200 || !strings.HasPrefix(a.body, servedBy+"Apache; ") {
							t.Fatalf("%s: %d %s", path, a.status, a.body)
						}
					}
				}
				s.dodge(address, spellings)
			})
		}
	})
	served, sample := map[string]int{}, 0
	for i := 0; i < len(spellings); i += 1 + len(spellings)/400 { // Tomcat is slow to refuse requests
		sample++
		for _, name := range behind.who(spellings[i]) {
			served[name]++
		}
	}
	for _, one := range behind.all { // enough spellings must reach the file
		if served[one.name] < sample/200 {
			t.Errorf("%s takes only %d of %d spellings for the path", one.name, served[one.name], sample)
		}
	}
	t.Logf("of %d spellings these were served without a proxy: %v", sample, served)
}

// dodge sends spellings of paths whose limits are used up.
func (s *setup) dodge(address string, spellings []string) {
	s.t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 7)}, Timeout: 10 * deadline}
	var w wire
	statuses, dodged := map[int]int{}, 0
	for _, spelling := range spellings {
		status, body := w.get(dialer, address, spelling)
		statuses[status]++
		if names, passed := strings.CutPrefix(body, servedBy); passed && names != "" {
			if dodged++; dodged <= 20 {
				s.t.Errorf("%q passed, and was served by %s", spelling, names)
			}
		}
	}
	if dodged > 20 {
		s.t.Errorf("%d passed and were served", dodged)
	}
	if statuses[429] < len(spellings)/20 || statuses[200] < len(spellings)/100 {
		s.t.Errorf("the answers were %v", statuses)
	}
	s.t.Logf("answers by status: %v", statuses)
}

// spelled returns the proxies with their files, and nginx with a path in proxy_pass, which forwards
// the decoded path. With gRPC, Envoy must refuse the parameters that Tomcat ignores, see
// docs/envoy.md.
func spelled(t *testing.T) []asker {
	t.Helper()
	all := slices.Clone(askers)
	for i, a := range all {
		switch {
		case a.name == "nginx":
			a.name, a.words = "nginx that decodes", map[string]string{"http://backend;": "http://backend/;"}
			all = append(all, a)
		case a.rls:
			all[i].adapt = func(words map[string]string) map[string]string {
				words = envoyWords(words)
				maps.Copy(words, semicolons(t))
				return words
			}
		}
	}
	return all
}

// semicolons returns the route of docs/envoy.md that refuses paths with parameters, as a
// replacement of text.
func semicolons(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile("../docs/envoy.md")
	if err != nil {
		t.Fatal(err)
	}
	route := regexp.MustCompile("(?s)```\\n(- match: [^`]*direct_response:[^`]*)```").FindSubmatch(page)
	if route == nil {
		t.Fatal("docs/envoy.md has no route that refuses paths")
	}
	const first = "                        - match: {prefix: /}\n"
	indented := "                        " + strings.ReplaceAll(strings.TrimSpace(string(route[1])), "\n", "\n                        ")
	return map[string]string{first: indented + "\n" + first}
}
