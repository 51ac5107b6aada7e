package proof_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"stint/gateway/gatewaytest/program"
	"stint/internal/testkit"
)

// stint-gateway convert writes a Caddyfile that stint-gateway validate accepts, and nothing if a line
// cannot be converted.
func TestConvertCommand(t *testing.T) {
	dir := t.TempDir()
	text, err := os.ReadFile("../convert/testdata/traces/disjoint_zones.caddyfile")
	testkit.Must(t, err)
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "Caddyfile"), text, 0o600))
	command := func(args ...string) (string, error) {
		cmd := exec.Command(program.Path(), args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := command("convert", "Caddyfile")
	if want := "Caddyfile.stint\nrules/others.yaml\nrules/reads.yaml\nrules/writes.yaml\n"; err != nil || out != want {
		t.Fatalf("%v\n%s, want %s", err, out, want)
	}
	if out, err := command("validate", "--adapter", "caddyfile", "--config", "Caddyfile.stint"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := command("convert", "Caddyfile"); err == nil || !strings.Contains(out, "Caddyfile.stint exists; remove it") {
		t.Errorf("%v\n%s", err, out)
	}
	bad := strings.Replace(string(text), "\t\tzone others", "\t\tjitter 0.1\n\t\tzone others", 1)
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "other"), []byte(bad), 0o600))
	out, err = command("convert", "--output", "made", "--rules", "others", "other")
	left, _ := filepath.Glob(filepath.Join(dir, "[mo]*"))
	if err == nil || !strings.Contains(out, "other:27: jitter has no counterpart") || len(left) != 1 {
		t.Errorf("%v, files %v\n%s", err, left, out)
	}
}
