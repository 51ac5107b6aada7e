package gateway_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/modules/standard" // the other modules of any Caddy

	_ "stint/gateway"
	"stint/internal/testkit"
)

// The command in docs/gateway.md builds a Caddy with all modules of Stint, of the release of Caddy that they are
// tested with.
func TestXcaddy(t *testing.T) {
	page, err := os.ReadFile("../docs/gateway.md")
	testkit.Must(t, err)
	command := string(regexp.MustCompile(`(?m)^go run github\.com/caddyserver/xcaddy/.*$`).Find(page))
	modules, err := os.ReadFile("go.mod")
	testkit.Must(t, err)
	release := regexp.MustCompile(`caddyserver/caddy/v2 (\S+)`).FindStringSubmatch(string(modules))
	if release == nil || !strings.Contains(command, " build "+release[1]+" ") {
		t.Fatalf("docs/gateway.md builds another Caddy than %s: %q", release, command)
	}
	binary := filepath.Join(t.TempDir(), "caddy")
	if command = strings.Replace(command, "./caddy", binary, 1); !strings.Contains(command, binary) {
		t.Fatalf("no --output ./caddy in %q", command)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 9*time.Minute)
	defer cancel()
	cgo, err := exec.CommandContext(ctx, "go", "env", "CGO_ENABLED").Output()
	testkit.Must(t, err)
	build := exec.CommandContext(ctx, "sh", "-c", command)
	// As go test builds, so that its cache has most packages.
	build.Dir, build.Env = "..", append(os.Environ(), "XCADDY_GO_BUILD_FLAGS=-ldflags=", "CGO_ENABLED="+strings.TrimSpace(string(cgo)))
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	out, err := exec.CommandContext(ctx, binary, "list-modules", "--skip-standard").Output()
	testkit.Must(t, err)
	built := slices.DeleteFunc(strings.Fields(string(out)), func(word string) bool { return !strings.Contains(word, "stint") })
	want := slices.DeleteFunc(caddy.Modules(), func(id string) bool { return !strings.Contains(id, "stint") })
	slices.Sort(built)
	slices.Sort(want)
	if !slices.Equal(built, want) || len(want) < 10 {
		t.Errorf("the built Caddy has\n%q, want\n%q", built, want)
	}
}
