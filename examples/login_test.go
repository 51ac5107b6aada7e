package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stint/internal/testkit"
	"stint/internal/testkit/programs"
)

// loginClients are the logins beside examples/login/main.go, with the commands that run them.
var loginClients = map[string][]string{
	"login.py":   {"python3", "login/login.py"},
	"login.mjs":  {"node", "login/login.mjs"},
	"login.php":  {"php", "login/login.php"},
	"login.rb":   {"ruby", "login/login.rb"},
	"Login.java": {"java", "-Xshare:auto", "login/Login.java"},
}

// Each language: five wrong passwords of a name at an address are answered 401, the sixth try 429; right
// ones count nothing. A known machine gets in even so.
func TestLoginClients(t *testing.T) {
	text, err := os.ReadFile("rules/login.yaml")
	testkit.Must(t, err)
	rules := filepath.Join(t.TempDir(), "login.yaml")
	testkit.Must(t, os.WriteFile(rules, []byte(strings.ReplaceAll(string(text), "per: 1m,", "per: 8760h,")), 0o600)) // however slow the machine is
	service := programs.Stint(t, "--rules", rules)
	for file, command := range loginClients {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			program := programs.Binary(t, command[0])
			name := strings.ToLower(strings.ReplaceAll(file, ".", ""))
			try := func(address, known, password string) string {
				cmd := exec.Command(program, append(command[1:], name, address, known, password)...)
				cmd.Env = append(os.Environ(), "STINT=http://"+service.HTTP)
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Errorf("%v: %v\n%s", cmd.Args, err, out)
				}
				return strings.TrimSpace(string(out))
			}
			address := "192.0.2." + name
			for range 3 {
				if got := try(address, "new", "correct horse"); got != "200" {
					t.Fatalf("the right password: %s, want 200", got)
				}
			}
			for i, want := range []string{"401", "401", "401", "401", "401", "429"} {
				if got := try(address, "new", "guess"); got != want {
					t.Errorf("guess %d: %s, want %s", i+1, got, want)
				}
			}
			if got := try(address, "new", "correct horse"); got != "429" {
				t.Errorf("the right password after the guesses: %s, want 429", got)
			}
			if got := try("198.51.100."+name, "known", "correct horse"); got != "200" {
				t.Errorf("the right password from elsewhere: %s, want 200", got)
			}
		})
	}
}

// Each login has about twenty lines, without comments, imports and closing braces.
func TestLoginClientsAreShort(t *testing.T) {
	for file := range loginClients {
		text, err := os.ReadFile(filepath.Join("login", file))
		testkit.Must(t, err)
		lines := 0
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			begins := func(words ...string) bool {
				return slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(line, w) })
			}
			if line != "" && line != "}" && line != "end" && !begins("#", "//", "import", "require", "<?php") {
				lines++
			}
		}
		if lines > 23 {
			t.Errorf("%s has %d lines, which is no longer about twenty", file, lines)
		}
	}
}
