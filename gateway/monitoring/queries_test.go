package monitoring

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"

	"stint/internal/testkit"
)

// The files under test.
const (
	dashboardFile = "../../deploy/grafana/stint.json"
	alertsFile    = "../../deploy/prometheus/alerts.yaml"
	casesFile     = "../../deploy/prometheus/alerts_test.yaml"
)

// query is one PromQL expression and where it is.
type query struct {
	where, text string
	legend      string // the labels that its legend names
}

// dashboard is the part of a Grafana dashboard that has queries.
type dashboard struct {
	SchemaVersion int
	Annotations   struct {
		List []struct{ Name, Expr, TitleFormat string }
	}
	Templating struct {
		List []struct {
			Name, Type string
			Definition string
		}
	}
	Panels []panel
}

type panel struct {
	ID      int
	Type    string
	Title   string
	GridPos struct{ X, Y, W, H int }
	Targets []struct{ Expr, LegendFormat, RefID string }
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	data, err := os.ReadFile(dashboardFile)
	testkit.Must(t, err)
	testkit.Must(t, json.Unmarshal(data, &d))
	return d
}

// labelValues is the query of a variable: the values of a label of some series.
var labelValues = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)

// queries returns all queries of the dashboard.
func (d *dashboard) queries(t *testing.T) (all []query) {
	t.Helper()
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			all = append(all, query{"panel " + p.Title, target.Expr, target.LegendFormat})
		}
	}
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		parts := labelValues.FindStringSubmatch(v.Definition)
		if parts == nil {
			t.Fatalf("variable %s: %q is not label_values(SERIES, LABEL)", v.Name, v.Definition)
		}
		all = append(all, query{"variable " + v.Name, parts[1], "{{" + parts[2] + "}}"})
	}
	for _, a := range d.Annotations.List {
		if a.Expr != "" {
			all = append(all, query{"annotation " + a.Name, a.Expr, a.TitleFormat})
		}
	}
	return all
}

// alertRule is an alert of alertsFile.
type alertRule struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

func readAlerts(t *testing.T) (all []alertRule) {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string
			Rules []alertRule
		}
	}
	readYAML(t, alertsFile, &file)
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	data, err := os.ReadFile(path)
	testkit.Must(t, err)
	testkit.Must(t, yaml.Unmarshal(data, into))
}

// variables replaces the variables of Grafana, which PromQL does not know.
var variables = strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h",
	"$job", ".*", "$instance", ".*", "$domain", ".*", "$rule", ".*")

// legendLabel is a label in a legend or an annotation.
var legendLabel = regexp.MustCompile(`\{\{ *(?:\$labels\.)?(\w+) *\}\}`)

// check returns what is wrong with a query, if only these series exist.
func (q query) check(known series) (faults []string) {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(variables.Replace(q.text))
	if err != nil {
		return []string{fmt.Sprintf("%s: %v: %s", q.where, err, q.text)}
	}
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Sprintf("%s: ", q.where)+fmt.Sprintf(format, args...)+": "+q.text)
	}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			for _, text := range known.lacks(n) {
				fault("%s", text)
			}
		case *parser.AggregateExpr:
			if has := known.labelsOf(n.Expr); !n.Without {
				for _, label := range n.Grouping {
					if !has[label] {
						fault("no series below has the label %q", label)
					}
				}
			}
		}
		return nil
	})
	has := known.labelsOf(expr)
	for _, label := range legendLabel.FindAllStringSubmatch(q.legend, -1) {
		if !has[label[1]] {
			fault("its result has no label %q, which the legend names", label[1])
		}
	}
	return faults
}

// lacks returns why no series has this name, these labels and these values.
func (s series) lacks(v *parser.VectorSelector) (faults []string) {
	found, ok := s[v.Name]
	if !ok {
		return []string{fmt.Sprintf("no process has the metric %q", v.Name)}
	}
	for _, m := range v.LabelMatchers {
		values, ok := found[m.Name]
		switch {
		case m.Name == nameLabel || slices.Contains(scraped, m.Name):
		case !ok:
			faults = append(faults, fmt.Sprintf("the metric %q has no label %q", v.Name, m.Name))
		case !slices.ContainsFunc(values, m.Matches):
			faults = append(faults, fmt.Sprintf("no series of %q has %s, only %q", v.Name, m, values))
		}
	}
	return faults
}

// labelsOf returns the labels that the result of an expression may have.
func (s series) labelsOf(expr parser.Expr) map[string]bool {
	has := map[string]bool{}
	add := func(more map[string]bool) {
		for label := range more {
			has[label] = true
		}
	}
	switch e := expr.(type) {
	case *parser.VectorSelector:
		for label := range s[e.Name] {
			has[label] = true
		}
		for _, label := range scraped {
			has[label] = true
		}
	case *parser.AggregateExpr:
		below := s.labelsOf(e.Expr)
		if e.Op == parser.TOPK || e.Op == parser.BOTTOMK {
			return below
		}
		for _, label := range e.Grouping {
			has[label] = below[label]
		}
	case *parser.BinaryExpr:
		add(s.labelsOf(e.LHS)) // that of the right side are the same, or are left out
		if e.LHS.Type() == parser.ValueTypeScalar {
			add(s.labelsOf(e.RHS))
		}
	case *parser.Call:
		for _, arg := range e.Args {
			add(s.labelsOf(arg))
		}
	case *parser.MatrixSelector:
		return s.labelsOf(e.VectorSelector)
	case *parser.ParenExpr:
		return s.labelsOf(e.Expr)
	case *parser.StepInvariantExpr:
		return s.labelsOf(e.Expr)
	case *parser.SubqueryExpr:
		return s.labelsOf(e.Expr)
	case *parser.UnaryExpr:
		return s.labelsOf(e.Expr)
	}
	return has
}
