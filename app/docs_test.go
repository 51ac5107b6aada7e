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

// docs/service.md has a row for each setting, with its names and its default, in the order of help,
// and no other rows.
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
	settings := slices.DeleteFunc(config.Settings(), func(s settings.Setting) bool { return s.Hidden() })
	if len(rows) != len(settings) {
		t.Fatalf("%d rows for %d settings", len(rows), len(settings))
	}
	for i, s := range settings {
		value := s.String()
		if value != "" {
			value = "`" + value + "` "
		}
		if want := fmt.Sprintf("| `--%s` | `%s` | %s| ", s.Name, s.Env(), value); !strings.HasPrefix(rows[i], want) {
			t.Errorf("row %q, want it to begin %q", strings.TrimSpace(rows[i]), want)
		}
	}
}
