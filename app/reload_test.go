package app

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stint/app/settings"
	"stint/internal/testkit"
	"stint/rule"
)

// After an error the old rules stay, and log, metric and /readyz report it; the next good file ends
// that. Keys keep their use.
func TestReload(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, file, rulesOf(3))
	s := start(t, func(c *settings.Config) { c.Rules = []string{file} })
	if got := s.limit("x"); got != 3 {
		t.Fatalf("limit %d, want 3", got)
	}

	at := s.log.size()
	write(t, file, badRules)
	at = s.log.await(t, at, "level=ERROR", "rules refused: keeping the old ones", "line=3", "hint=")
	if got := s.limit("x"); got != 3 {
		t.Errorf("limit %d after a bad reload, want 3", got)
	}
	status, _, body := s.get("admin", "/readyz")
	if status != http.StatusOK || !strings.Contains(body, "rules.yaml:3") {
		t.Errorf("/readyz: status %d, want the place of the fault in %s", status, body)
	}
	if _, _, body := s.get("admin", "/metrics"); !strings.Contains(body, `stint_reloads_total{result="failure"} 1`) {
		t.Errorf("no failed reload in the metrics:\n%s", grep(body, "reload"))
	}

	write(t, file, rulesOf(5))
	at = s.log.await(t, at, "rules loaded", "files changed")
	if got := s.limit("x"); got != 5 {
		t.Errorf("limit %d, want 5", got)
	}
	if _, _, body := s.get("admin", "/readyz"); strings.Contains(body, "rules.yaml:3") {
		t.Errorf("/readyz still shows the fault: %s", body)
	}

	testkit.Must(t, os.Remove(file))
	at = s.log.await(t, at, "level=ERROR", "rules refused: keeping the old ones", "rules.yaml")
	if got := s.limit("x"); got != 5 {
		t.Errorf("limit %d after the file was removed, want 5", got)
	}
	write(t, file, rulesOf(6))
	at = s.log.await(t, at, "rules loaded")
	if got := s.limit("x"); got != 6 {
		t.Errorf("limit %d, want 6", got)
	}

	testkit.Must(t, s.Reload("SIGHUP")) // the same rules: logged, because of the explicit reload
	s.log.await(t, at, "rules loaded", "SIGHUP")
	write(t, file, badRules)
	if err := s.Reload("SIGHUP"); err == nil {
		t.Error("a bad file was loaded")
	}
}

// Kubernetes changes a mounted volume by changing a link to a folder.
func TestReloadLinkSwap(t *testing.T) {
	for _, test := range []struct {
		name string
		path string // path of the rules, below the volume
	}{
		{"a file", "rules.yaml"},
		{"the folder", "."},
	} {
		t.Run(test.name, func(t *testing.T) {
			volume := t.TempDir()
			write(t, filepath.Join(volume, "..2026_01", "rules.yaml"), rulesOf(3))
			testkit.Must(t, os.Symlink("..2026_01", filepath.Join(volume, "..data")))
			testkit.Must(t, os.Symlink("..data/rules.yaml", filepath.Join(volume, "rules.yaml")))
			s := start(t, func(c *settings.Config) { c.Rules = []string{filepath.Join(volume, test.path)} })

			for i, version := range []string{"..2026_02", "..2026_03"} { // the second change: the watch follows the link
				at := s.log.size()
				write(t, filepath.Join(volume, version, "rules.yaml"), rulesOf(4+i))
				testkit.Must(t, os.Symlink(version, filepath.Join(volume, "..data_tmp")))
				testkit.Must(t, os.Rename(filepath.Join(volume, "..data_tmp"), filepath.Join(volume, "..data")))
				s.log.await(t, at, "rules loaded", "files changed")
				if got := s.limit("x"); got != 4+i {
					t.Errorf("limit %d, want %d", got, 4+i)
				}
			}
		})
	}
}

// The service follows changes in a folder of rules, and a folder that replaces it.
func TestReloadFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rules")
	write(t, filepath.Join(dir, "api.yaml"), rulesOf(3))
	s := start(t, func(c *settings.Config) { c.Rules = []string{dir} })

	at := s.log.size()
	write(t, filepath.Join(dir, "other.yaml"), strings.Replace(rulesOf(3), "api", "other", 1))
	at = s.log.await(t, at, "rules loaded", "domains=2")
	testkit.Must(t, os.Remove(filepath.Join(dir, "other.yaml")))
	at = s.log.await(t, at, "rules loaded", "domains=1")

	testkit.Must(t, os.Rename(dir, dir+".old"))
	at = s.log.await(t, at, "rules refused: keeping the old ones")
	write(t, filepath.Join(dir+".new", "api.yaml"), rulesOf(4))
	testkit.Must(t, os.Rename(dir+".new", dir))
	at = s.log.await(t, at, "rules loaded")
	write(t, filepath.Join(dir, "api.yaml"), rulesOf(5)) // the new folder is watched
	s.log.await(t, at, "rules loaded")
	if got := s.limit("x"); got != 5 {
		t.Errorf("limit %d, want 5", got)
	}
}

// A demo domain that loses its http rules is a bad reload.
func TestReloadKeepsDemo(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, file, demoRules)
	s := start(t, func(c *settings.Config) { c.Rules, c.Demo = []string{file}, "demo" })
	before, _, _ := strings.Cut(demoRules, "http:")
	write(t, file, before)
	s.log.await(t, 0, "level=ERROR", "rules refused: keeping the old ones", "demo")
	if status, header, _ := s.get("http", "/demo"); status != http.StatusOK || header.Get("X-RateLimit-Limit") != "2" {
		t.Errorf("/demo: status %d, headers %v", status, header)
	}
}

func grep(text, word string) string {
	var found []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) {
			found = append(found, line)
		}
	}
	return strings.Join(found, "")
}

// Lists in files are part of the rules: a change of them is a reload, after a bad line the old list
// stays, and a list that only refused rules name is watched too.
func TestReloadLists(t *testing.T) {
	dir := t.TempDir()
	file, list, other := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "lists", "blocked.txt"), filepath.Join(dir, "lists", "other.txt")
	rules := func(name string) string {
		return rulesOf(3) + "deny:\n  - {key: k, values: {file: lists/" + name + "}}\n  - {cidrs: {file: lists/" + name + "}}\n"
	}
	write(t, list, "192.0.2.1\n")
	write(t, file, rules("blocked.txt"))
	s := start(t, func(c *settings.Config) { c.Rules = []string{file} })
	at := s.log.size()

	write(t, list, "192.0.2.1\n192.0.2.2\n")
	at = s.log.await(t, at, "rules loaded", "files changed")
	// A load that began before the change may have read the file once before it and once after it.
	second := []rule.Entry{{Key: "k", Value: "192.0.2.2"}}
	holds := func() bool { return s.limiter.Table().Domain("api").Lists()[0].HoldsEntries(second) }
	testkit.Until(t, "the changed list is in force", holds)
	write(t, list, "192.0.2.1\n192.0.2.300\n")
	at = s.log.await(t, at, "level=ERROR", "rules refused: keeping the old ones", "blocked.txt", "line=2", "hint=")
	if lists := s.limiter.Table().Domain("api").Lists(); len(lists) != 2 || !holds() {
		t.Errorf("lists %v, want those before", lists)
	}
	write(t, list, "# nobody\n")
	at = s.log.await(t, at, "rules loaded", "files changed")

	write(t, file, rules("other.txt"))
	at = s.log.await(t, at, "level=ERROR", "rules refused: keeping the old ones", "other.txt")
	write(t, other, "192.0.2.7\n")
	at = s.log.await(t, at, "rules loaded", "files changed")
	write(t, other, "192.0.2.8\n")
	at = s.log.await(t, at, "rules loaded", "files changed")

	// A key file that exists and has no key is watched too.
	keys := filepath.Join(dir, "lists", "keys.pem")
	write(t, keys, "none")
	write(t, file, rulesOf(3)+"http: {rate_limits: [{actions: [{bearer_claim: {keys: lists/keys.pem, descriptor_key: user}}]}]}\n")
	at = s.log.await(t, at, "level=ERROR", "rules refused: keeping the old ones", "no public key")
	write(t, keys, "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n")
	s.log.await(t, at, "rules loaded", "files changed")
}
