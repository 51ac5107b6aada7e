package app

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stint/app/settings"
	"stint/internal/testkit"
)

const listed = "46530d2e35a87ec0170c78c7c6d4ee56c97f6bc218486bca64c92a7cf27aed56" // SHA-256 of "pin 9876"

const secretRules = `
domain: api
descriptors:
  - key: key
    value: ` + listed + `
    rate_limit: {unit: hour, requests_per_unit: 30}
  - key: key
    rate_limit: {unit: hour, requests_per_unit: 3}
http:
  rate_limits:
    - actions: [{api_key: {header_name: X-Api-Key, descriptor_key: key}}]
`

// withSecret returns the settings of a service whose rules count by api_key. With secret "" there
// is no secret file.
func withSecret(t *testing.T, store, secret string) func(*settings.Config) {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "rules.yaml"), secretRules)
	return func(c *settings.Config) {
		c.Rules, c.Store, c.StoreTimeout = []string{filepath.Join(dir, "rules.yaml")}, store, patient
		if secret != "" {
			c.NamespaceSecretFile = filepath.Join(dir, "secret")
			write(t, c.NamespaceSecretFile, secret+"\n")
		}
	}
}

// remains takes a unit of a client, and returns what is left.
func (s *service) remains(t *testing.T, hash string) string {
	t.Helper()
	_, rest, ok := strings.Cut(s.ask(t, "key="+hash), `"remaining":`)
	if !ok {
		t.Fatal("no answer of how many remain")
	}
	rest, _, _ = strings.Cut(rest, ",")
	return rest
}

// TestNamespaceSecret: nodes with the same secret share the counts of API keys, and the store has
// no hash that can be looked up; nodes with another secret do not start.
func TestNamespaceSecret(t *testing.T) {
	server := testkit.StartRedis(t)
	hash := fmt.Sprintf("%x", sha256.Sum256([]byte("pin 1234")))
	plain := start(t, withSecret(t, server.URL(), ""))
	plain.log.await(t, 0, "level=WARN", "who reads the store can try out", "namespace-secret-file")
	if left := plain.remains(t, hash); left != "2" {
		t.Errorf("%s remain, want 2", left)
	}
	if !strings.Contains(server.Do("KEYS", "*"), hash) {
		t.Error("the test does not see the keys of the store")
	}
	server.Do("FLUSHALL")

	const secret = "a secret of thirty-two characters"
	a := start(t, withSecret(t, server.URL(), secret))
	a.log.await(t, 0, "level=INFO", "namespace secret is new to the store", "begin anew")
	b := start(t, withSecret(t, server.URL(), secret))
	if left := a.remains(t, hash) + b.remains(t, hash); left != "21" {
		t.Errorf("%s remain after one unit on each of two nodes, want 2 and 1", left)
	}
	if left := a.remains(t, listed); left != "29" {
		t.Errorf("%s remain of the limit of a key that the rules name, want 29", left)
	}
	all := server.Do("KEYS", "*")
	for _, never := range []string{hash, listed, secret} {
		if strings.Contains(all, never) {
			t.Errorf("the store holds %q: %q", never, all)
		}
	}
	if kept := strings.TrimSpace(server.Do("GET", "stint:secret")); len(kept) != 32 || strings.Contains(secret, kept) {
		t.Errorf("the store keeps %q of the secret, want a fingerprint", kept)
	}
	if strings.Contains(b.log.String(), "new to the store") {
		t.Error("the second node says that counts begin anew")
	}
	for name, other := range map[string]string{"another": "another secret of many characters", "none": ""} {
		err := refused(t, withSecret(t, server.URL(), other))
		problem, ok := errors.AsType[*settings.Error](err)
		if !ok || !strings.Contains(problem.Error(), "namespace-secret-file") || !strings.Contains(problem.Hint, "stint:secret") {
			t.Errorf("a node with %s secret: %v", name, err)
		}
	}
}

// refused returns why a service does not start.
func refused(t *testing.T, change func(*settings.Config)) error {
	t.Helper()
	config := settings.Default()
	config.HTTP, config.Admin, config.GRPC, config.RESP = "127.0.0.1:0", "127.0.0.1:0", "", ""
	config.Output = new(sink)
	change(&config)
	node, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	return node.Start(t.Context())
}

// TestNamespaceSecretOfServers: a node that must not start because of one server's secret stores
// its own in no other server, where it would prevent the start of correct nodes.
func TestNamespaceSecretOfServers(t *testing.T) {
	old, added := testkit.StartRedis(t), testkit.StartRedis(t)
	const secret = "a secret of thirty-two characters"
	start(t, withSecret(t, old.URL(), secret)).Stop(t.Context())
	both := old.URL() + "," + added.Addr
	for range 5 { // servers are checked at the same time
		if err := refused(t, withSecret(t, both, "another secret of many characters")); err == nil || !strings.Contains(err.Error(), old.Addr) {
			t.Fatalf("a node with another secret: %v", err)
		}
		if kept := strings.TrimSpace(added.Do("GET", "stint:secret")); len(kept) == 32 {
			t.Fatalf("it left its fingerprint %s in the server that was added", kept)
		}
	}
	s := start(t, withSecret(t, both, secret))
	s.log.await(t, 0, "level=INFO", "namespace secret is new to the store", added.Addr)
	if was, is := old.Do("GET", "stint:secret"), added.Do("GET", "stint:secret"); was != is {
		t.Errorf("the servers keep %q and %q", was, is)
	}
}

// TestOwnSecret: a service that counts alone keeps a secret beside its counts, so that these are
// valid after a restart, and logs once that they start at zero.
func TestOwnSecret(t *testing.T) {
	hash := fmt.Sprintf("%x", sha256.Sum256([]byte("pin 1234")))
	name, change := filepath.Join(t.TempDir(), "counts"), withSecret(t, "memory", "")
	for i, want := range []string{"2", "1", "0"} {
		s := start(t, func(c *settings.Config) { change(c); c.State = name })
		if left := s.remains(t, hash); left != want {
			t.Errorf("start %d: %s remain, want %s", i, left, want)
		}
		s.Stop(t.Context())
		if said := strings.Contains(s.log.String(), "counts of api_key and cookie values begin anew"); said != (i == 0) {
			t.Errorf("start %d: said that counts begin anew: %v", i, said)
		}
	}
	info, err := os.Stat(name + ".secret")
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v: want a file for its owner alone", info, err)
	}
	testkit.Must(t, os.WriteFile(name+".secret", []byte("short"), 0o600))
	config := settings.Default()
	change(&config)
	config.State, config.Output = name, new(sink)
	if _, err := New(config); err == nil || !strings.Contains(err.Error(), "has 5 bytes") {
		t.Errorf("a secret that is cut: %v", err)
	}
}
