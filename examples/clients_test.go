package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"stint/internal/testkit/programs"
)

// The clients in other languages pass their own tests against a running Stint.
func TestClients(t *testing.T) {
	stint := programs.Stint(t, "--rules", "rules/api.yaml")
	run := func(t *testing.T, dir, program string, args ...string) {
		t.Helper()
		command := exec.CommandContext(t.Context(), programs.Binary(t, program), args...) //nolint:gosec // programs of this test
		command.Dir = filepath.Join("..", "clients", dir)
		command.Env = append(os.Environ(), "STINT_URL=http://"+stint.HTTP, "PYTHONDONTWRITEBYTECODE=1")
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", program, err, out)
		}
	}
	t.Run("python", func(t *testing.T) { run(t, "python", "python3", "-m", "unittest") })
	t.Run("node", func(t *testing.T) { run(t, "node", "node", "--test") })
	t.Run("java", func(t *testing.T) {
		classes := t.TempDir()
		run(t, "java", "javac", "-Xlint:all,-serial", "-Werror", "-d", classes, "Stint.java", "StintTest.java")
		run(t, "java", "java", "-cp", classes, "StintTest")
	})
}
