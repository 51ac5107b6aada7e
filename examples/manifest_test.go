package examples

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stint/internal/testkit"
	"stint/internal/testkit/programs"
)

// The service starts with the settings and the rules that the Helm chart installs when nobody changes
// them, and decides by them.
func TestManifest(t *testing.T) {
	t.Parallel()
	for _, shape := range []string{"service", "sidecar"} {
		text, err := os.ReadFile("../deploy/kubernetes/" + shape + ".yaml")
		testkit.Must(t, err)
		dir := t.TempDir()
		write := func(name, path string) {
			_, rest, found := strings.Cut(string(text), "\n  "+name+": |\n")
			if !found {
				t.Fatalf("%s.yaml has no file %s", shape, name)
			}
			content, _, _ := strings.Cut(rest, "\n---\n")
			content = strings.ReplaceAll("\n"+content, "\n    ", "\n")
			testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(strings.ReplaceAll(content, "/etc/stint/rules", path)+"\n"), 0o600))
		}
		write("api.yaml", "")
		write("stint.yaml", filepath.Join(dir, "api.yaml"))
		service := programs.Stint(t, "--config", filepath.Join(dir, "stint.yaml"), "--drain-delay", "0s")
		resp, err := http.Post("http://"+service.HTTP+"/v1/check", "application/json",
			strings.NewReader(`{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"42"}]}]}`))
		testkit.Must(t, err)
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		testkit.Must(t, err)
		if !strings.Contains(string(body), `"rule":"api/user","limit":100`) {
			t.Errorf("%s: %s", shape, body)
		}
	}
}
