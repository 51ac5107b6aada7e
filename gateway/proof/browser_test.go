package proof_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"stint/internal/testkit"
	"stint/internal/testkit/programs"
)

// Chromium shows the page and, after the login, what is behind it, over a certificate of the internal
// authority that it trusts; it does not show the page if it does not trust the authority.
func TestBrowser(t *testing.T) {
	folder := t.TempDir()
	testkit.Must(t, os.WriteFile(filepath.Join(folder, "index.html"), []byte(`<!doctype html><title>x</title><p id=p>no script</p>
<script>fetch("data.json").then(r => r.json()).then(j => document.getElementById("p").textContent = j.text)</script>`), 0o600))
	testkit.Must(t, os.WriteFile(filepath.Join(folder, "data.json"), []byte(`{"text": "the page ran"}`), 0o600))
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	testkit.Must(t, err)
	g := start(t, fmt.Sprintf("root * %s\n\tbasic_auth /admin* {\n\t\tann %s\n\t}\n\t%%s\n\trespond /admin \"hello {http.auth.user.id}\"\n\tencode\n\tfile_server", folder, hash), true)
	home := t.TempDir()
	t.Setenv("HOME", home)

	page := "https://localhost:" + port(g.https)
	if dom, _ := programs.Browse(t, page+"/"); strings.Contains(dom, "the page ran") {
		t.Errorf("shown without trust: %s", dom)
	}
	database := filepath.Join(home, ".pki/nssdb")
	testkit.Must(t, os.MkdirAll(database, 0o700))
	for _, args := range [][]string{
		{"-N", "--empty-password"},
		{"-A", "-t", "C,,", "-n", "stint", "-i", g.rootFile()},
	} {
		out, err := exec.Command("certutil", append([]string{"-d", "sql:" + database}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("certutil, of libnss3-tools: %v\n%s", err, out)
		}
	}
	for path, want := range map[string]string{page + "/": "the page ran", strings.Replace(page, "//", "//ann:secret@", 1) + "/admin": "hello ann"} {
		if dom, console := programs.Browse(t, path); !strings.Contains(dom, want) {
			t.Errorf("%s: %s\n%s", path, dom, console)
		}
	}
	for _, path := range []string{page + "/admin", strings.Replace(page, "//", "//ann:wrong@", 1) + "/admin"} {
		if dom, _ := programs.Browse(t, path); strings.Contains(dom, "hello") {
			t.Errorf("%s: %s", path, dom)
		}
	}
}
