package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.yaml.in/yaml/v3"

	"stint/gateway/gatewaytest/program"
	"stint/internal/testkit"
)

// TestManifest checks that the gateway takes the Caddyfile and the rules that the Helm chart installs
// when nobody changes them.
func TestManifest(t *testing.T) {
	text, err := os.ReadFile("../../../deploy/kubernetes/gateway.yaml")
	testkit.Must(t, err)
	dir, files := t.TempDir(), 0
	for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var object struct {
			Kind string
			Data map[string]string
		}
		err := decoder.Decode(&object)
		if errors.Is(err, io.EOF) {
			break
		}
		testkit.Must(t, err)
		if object.Kind != "ConfigMap" {
			continue
		}
		for name, content := range object.Data {
			program.Write(t, filepath.Join(dir, name), content)
			files++
		}
	}
	if files != 2 {
		t.Fatalf("the manifests have %d files, want a Caddyfile and rules", files)
	}
	cmd := exec.CommandContext(t.Context(), program.Path(), "validate", "--config", filepath.Join(dir, "Caddyfile"), "--adapter", "caddyfile") //nolint:gosec // the program of this test
	cmd.Env = append(os.Environ(), "STINT_STORE=memory", "STINT_RULES="+filepath.Join(dir, "api.yaml"), "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
