package programs

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

func TestMain(m *testing.M) { Main(m) }

// A test's service answers, stops, restarts on its address, and does not answer while it is frozen.
func TestStint(t *testing.T) {
	s := Stint(t)
	ask := Answers("http://" + s.HTTP + "/")
	if !ask() {
		t.Fatalf("no answer:\n%s", s.Log())
	}
	s.Stop()
	if Listens(s.HTTP)() {
		t.Error("a stopped service listens")
	}
	s.Start()
	s.Freeze()
	if !Listens(s.HTTP)() {
		t.Error("the kernel takes no connection for a frozen service")
	}
	if ask() {
		t.Error("a frozen service answers")
	}
	s.Thaw()
	Until(t, "an answer after the thaw", ask)
}

// A backend records its requests, and a client has the given source address.
func TestBackend(t *testing.T) {
	b := NewBackend(t)
	resp, err := Client(t, "127.0.0.7").Post("http://"+b.Addr+"/a%2fb?c", "text/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "POST /a%2fb" {
		t.Errorf("%q, %v", body, err)
	}
	seen := b.Seen()
	if len(seen) != 1 || seen[0].Method != http.MethodPost || seen[0].RemoteAddr[:10] != "127.0.0.7:" {
		t.Errorf("%v", seen)
	}
	if len(b.Seen()) != 0 {
		t.Error("what was seen is not forgotten")
	}
}

// Adapt copies the other files of the folder too, with the replacements.
func TestAdapt(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.conf": "listen 1, ask 2, include b.conf", "b.conf": "1"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := Adapt(t, filepath.Join(dir, "a.conf"), map[string]string{"1": "2", "2": "3"})
	for name, want := range map[string]string{file: "listen 2, ask 3, include b.conf", filepath.Join(filepath.Dir(file), "b.conf"): "2"} {
		if data, err := os.ReadFile(name); err != nil || string(data) != want {
			t.Errorf("%s: %q, %v, want %q", name, data, err, want)
		}
	}
}
