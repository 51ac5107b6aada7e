package monitoring

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"stint/internal/testkit"
)

// promtool runs promtool in the folder of the alerts.
func promtool(t *testing.T, dir string, args ...string) (output string, err error) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		testkit.SkipOrFail(t, "promtool is not installed; it is in the package prometheus of Debian")
	}
	c := exec.Command(path, args...)
	c.Dir = dir
	out, err := c.CombinedOutput()
	return string(out), err
}

// Prometheus accepts the configuration and the rules, and each alert fires and stays silent as its cases say.
func TestAlertCases(t *testing.T) {
	dir := filepath.Dir(alertsFile)
	for _, args := range [][]string{
		{"check", "config", "--syntax-only", "prometheus.yaml"}, {"check", "rules", filepath.Base(alertsFile)}, {"test", "rules", filepath.Base(casesFile)},
	} {
		if out, err := promtool(t, dir, args...); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// The cases notice an alert that lacks its duration.
func TestAlertCasesNotice(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{alertsFile, casesFile} {
		data, err := os.ReadFile(path)
		testkit.Must(t, err)
		data = bytes.ReplaceAll(data, []byte("        for: 2m\n"), nil)
		if path == casesFile { // the first alert is enough
			data = bytes.Join(bytes.SplitAfterN(data, []byte("\n  - name: "), 4)[:3], nil)
			data = bytes.TrimSuffix(data, []byte("  - name: "))
		}
		testkit.Must(t, os.WriteFile(filepath.Join(dir, filepath.Base(path)), data, 0o600))
	}
	out, err := promtool(t, dir, "test", "rules", filepath.Base(casesFile))
	if err == nil || !strings.Contains(out, "StintNodeDown") {
		t.Errorf("%v\n%s", err, out)
	}
}

// alertCase is a case of casesFile.
type alertCase struct {
	Name   string
	Series []struct{ Series string } `yaml:"input_series"`
	Tests  []struct {
		Name   string `yaml:"alertname"`
		Alerts []any  `yaml:"exp_alerts"`
	} `yaml:"alert_rule_test"`
}

// metricName is the name of a metric in a query.
var metricName = regexp.MustCompile(`\b(?:up|stint_\w+)\b`)

// Each alert has a case that fires and one that stays silent, though all its series exist; and it
// says how bad it is and what to do.
func TestEachAlertHasCases(t *testing.T) {
	var file struct{ Tests []alertCase }
	readYAML(t, casesFile, &file)
	for _, a := range readAlerts(t) {
		fires, silent := false, false
		for _, c := range file.Tests {
			for _, test := range c.Tests {
				if test.Name != a.Alert {
					continue
				}
				if len(test.Alerts) > 0 {
					fires = true
				} else {
					silent = silent || c.has(metricName.FindAllString(a.Expr, -1))
				}
			}
		}
		if !fires || !silent {
			t.Errorf("%s: a case that fires: %v; one with its series that stays silent: %v", a.Alert, fires, silent)
		}
		if a.Annotations["summary"] == "" || a.Annotations["description"] == "" || !strings.Contains("critical warning info", a.Labels["severity"]) {
			t.Errorf("%s: summary, description or severity is missing: %v %v", a.Alert, a.Annotations, a.Labels)
		}
	}
}

// has reports whether a case has series of all metrics.
func (c *alertCase) has(metrics []string) bool {
	for _, m := range metrics {
		found := false
		for _, s := range c.Series {
			found = found || strings.HasPrefix(s.Series, m+"{")
		}
		if !found {
			return false
		}
	}
	return true
}

// Grafana shows each panel at its own place: no two overlap, and none has the number of another.
func TestPanels(t *testing.T) {
	d := readDashboard(t)
	ids, cells := map[int]string{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if other, twice := ids[p.ID]; twice {
			t.Errorf("panels %q and %q have the number %d", p.Title, other, p.ID)
		}
		ids[p.ID] = p.Title
		if p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %q is wider than the page", p.Title)
		}
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if other, taken := cells[at]; taken {
					t.Fatalf("panels %q and %q overlap at %v", p.Title, other, at)
				}
				cells[at] = p.Title
			}
		}
	}
	if d.SchemaVersion != 42 {
		t.Errorf("schema version %d; Grafana 12 writes 42", d.SchemaVersion)
	}
}
