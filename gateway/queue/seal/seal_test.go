package seal

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stint/internal/testkit"
)

const (
	one = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	two = "202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f"
)

func parse(t *testing.T, text string) *Keys {
	t.Helper()
	k, err := Parse([]byte(text))
	testkit.Must(t, err)
	return k
}

// The first key encrypts; all decrypt, each in its place alone.
func TestRotate(t *testing.T) {
	old := parse(t, one)
	value := old.Seal("id", "data", []byte("secret"))
	if bytes.Contains(value, []byte("secret")) {
		t.Error("the value is in clear")
	}
	if bytes.Equal(value, old.Seal("id", "data", []byte("secret"))) {
		t.Error("the same nonce twice")
	}
	both := parse(t, "# new\n"+two+"\n\n"+one+"\n")
	if plain, err := both.Open("id", "data", value); err != nil || string(plain) != "secret" {
		t.Errorf("%q, %v", plain, err)
	}
	fresh := both.Seal("id", "data", []byte("secret"))
	if _, err := old.Open("id", "data", fresh); !errors.Is(err, ErrKey) {
		t.Errorf("the old key alone: %v", err)
	}
	for name, open := range map[string]func() ([]byte, error){
		"another record": func() ([]byte, error) { return old.Open("ie", "data", value) },
		"another field":  func() ([]byte, error) { return old.Open("id", "answer", value) },
		"a changed byte": func() ([]byte, error) {
			changed := bytes.Clone(value)
			changed[len(changed)-1] ^= 1
			return old.Open("id", "data", changed)
		},
		"cut":  func() ([]byte, error) { return old.Open("id", "data", value[:headBytes+3]) },
		"head": func() ([]byte, error) { return old.Open("id", "data", value[:5]) },
	} {
		if _, err := open(); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := (*Keys)(nil).Open("id", "data", value); !errors.Is(err, ErrKey) {
		t.Errorf("without keys: %v", err)
	}
}

// With keys, what is not encrypted is refused, unless the file allows it.
func TestPlain(t *testing.T) {
	value := (*Keys)(nil).Seal("id", "data", []byte("{}"))
	if _, err := parse(t, one).Open("id", "data", value); !errors.Is(err, ErrPlain) {
		t.Errorf("plain: %v", err)
	}
	if plain, err := parse(t, one+"\nplain\n").Open("id", "data", value); err != nil || string(plain) != "{}" {
		t.Errorf("allowed: %q, %v", plain, err)
	}
}

func TestBadKeys(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"empty":    {"", "no key"},
		"comment":  {"# nothing\n\n", "no key"},
		"plain":    {"plain\n", "no key"},
		"short":    {one + "\n" + one[:20], "line 2: not a key"},
		"password": {"correct horse battery staple", "line 1: not a key"},
		"twice":    {one + "\n# again\n" + one, "line 3: the same key twice"},
		"zeros":    {strings.Repeat("00", 32), "not a random key"},
	} {
		_, err := Parse([]byte(tt.text))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
		if err != nil && len(tt.text) > 10 && strings.Contains(err.Error(), tt.text[:10]) {
			t.Errorf("%s: the error has a part of the key: %v", name, err)
		}
	}
	path := filepath.Join(t.TempDir(), "keys")
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "queue_key_file") {
		t.Errorf("no file: %v", err)
	}
	testkit.Must(t, os.WriteFile(path, make([]byte, maxFile+1), 0o600))
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a large file: %v", err)
	}
	testkit.Must(t, os.WriteFile(path, []byte(one), 0o600))
	if _, err := Load(path); err != nil {
		t.Errorf("a good file: %v", err)
	}
}
