package app

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"stint/app/settings"
	"stint/internal/testkit"
)

// docs/service.md has a row for each setting, with its names and its default, and no
// other rows.
func TestSettingsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/service.md")
	testkit.Must(t, err)
	var rows []string
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "| `--") {
			rows = append(rows, line)
		}
	}
	config := settings.Default()
	settings := config.Settings()
	if len(rows) != len(settings) {
		t.Fatalf("%d rows for %d settings", len(rows), len(settings))
	}
	for _, s := range settings {
		value := s.String()
		if value != "" {
			value = "`" + value + "` "
		}
		want := fmt.Sprintf("| `--%s` | `%s` | %s| ", s.Name, s.Env(), value)
		if !slices.ContainsFunc(rows, func(row string) bool { return strings.HasPrefix(row, want) }) {
			t.Errorf("no row begins %q", want)
		}
	}
}
