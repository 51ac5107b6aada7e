package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"stint/cmd/stint/cli"
	"stint/cmd/stint/view"
	"stint/internal/strictyaml"
	"stint/internal/text"
	"stint/rule"
	"stint/rule/audit"
	"stint/rule/modes"
	"stint/rule/ruletest"
)

// check returns an error for values of flags that check does not support.
func (o *checkOptions) check() error {
	if o.format != "text" && o.format != "json" {
		return cli.Usage(fmt.Sprintf("--format: unknown format %q", o.format), "write text or json")
	}
	if interval := o.config.SyncInterval; interval < time.Millisecond {
		return cli.Usage(fmt.Sprintf("sync-interval: %v is too short", interval), "write 1ms or more, as for stint serve")
	}
	ids := make([]string, 0, len(audit.Kinds))
	for _, k := range audit.Kinds {
		ids = append(ids, k.ID)
	}
	for _, id := range o.ignore {
		if !slices.Contains(ids, id) {
			return unknownFinding("--ignore", id, ids)
		}
	}
	words := append(ids, "error", "warning", "note", "change")
	for _, e := range audit.Effects {
		words = append(words, string(e))
	}
	for _, what := range o.failOn {
		if !slices.Contains(words, what) {
			return unknownFinding("--fail-on", what, words)
		}
		if i := slices.Index(words, "change"); len(o.old) == 0 && slices.Contains(words[i:], what) {
			return cli.Usage(fmt.Sprintf("--fail-on %s without --against", what), "name the rules that the new ones replace")
		}
	}
	return nil
}

func unknownFinding(flag, id string, known []string) error {
	hint := "docs/check.md lists all findings"
	if near := strictyaml.Nearest(id, known); near != "" {
		hint = "is " + near + " meant? " + hint
	}
	return cli.Usage(fmt.Sprintf("%s: unknown name %q", flag, id), hint)
}

// checkReport has the results of check.
type checkReport struct {
	options  *checkOptions
	table    *rule.Table
	catalog  *checkedCatalog // nil: no rules per API were given
	tests    int             // passed tests
	findings []audit.Finding
	away     []audit.Finding // what passes while the store is away, or while its servers change
	changes  []audit.Change
	compared bool // rules were compared with --against

	catalogOnly bool // no other rules were given

	step view.Step // of read
}

// read reads the rules, finds faults and warnings, and runs the tests.
func (r *checkReport) read(ctx context.Context, names []string) error {
	r.step.Set("reading rules per API")
	names, catalogs := splitCatalogs(names)
	var err error
	if r.catalog, err = r.options.checkCatalogs(catalogs); err != nil {
		return err
	}
	r.catalogOnly = len(names) == 0
	r.step.Set(readingRules)
	found, err := findRules(names)
	if err != nil {
		return err
	}
	if r.options.export, err = readExport(r.options.records); err != nil {
		return err
	}
	if r.table, err = r.options.load(found.rules); err != nil {
		return err
	}
	if len(r.options.old) > 0 {
		r.step.Set("comparing rules")
		if err := r.compare(catalogs); err != nil {
			return err
		}
	}
	r.step.Set("looking for warnings")
	r.findings = slices.DeleteFunc(append(audit.Table(r.table), r.options.export.findings(r.table)...), r.ignored)
	r.step.Set("running tests")
	tests, err := ruletest.Parse(found.tests...)
	if err != nil {
		return err
	}
	if err := ruletest.Run(ctx, r.table, tests); err != nil {
		return &failedTests{err}
	}
	r.tests = len(tests)
	r.step.Set("computing bounds")
	r.away = slices.Concat(modes.StoreAway(r.table), modes.Leased(r.table), modes.Eventual(r.table, r.options.config.SyncInterval), modes.Gossip(r.table, r.options.config.SyncInterval), modes.Durable(r.table))
	if r.options.modes {
		r.away = append(append(r.away, modes.Strict(r.table)...), modes.AfterLoss(r.table)...)
	}
	moved, err := moved(r.table, r.options.config.Store)
	if err != nil {
		return err
	}
	r.away = append(r.away, moved...)
	r.away = slices.DeleteFunc(r.away, r.ignored)
	return nil
}

// ignored reports whether --ignore names a finding.
func (r *checkReport) ignored(f audit.Finding) bool { return slices.Contains(r.options.ignore, f.ID) }

// failedTests has the failed tests, as a [*rule.Errors].
type failedTests struct{ error }

// Unwrap returns the failed tests.
func (f *failedTests) Unwrap() error { return f.error }

// fails reports whether there is a finding or change that --fail-on names.
func (r *checkReport) fails() bool {
	if r.failsByChange() {
		return true
	}
	return slices.ContainsFunc(r.findings, func(f audit.Finding) bool {
		return slices.ContainsFunc(r.options.failOn, func(what string) bool {
			switch what {
			case "note":
				return true
			case "warning":
				return f.Severity >= audit.Warning
			}
			return f.ID == what
		})
	})
}

// print prints the text report. The changes are first, because they are the purpose of --against.
func (r *checkReport) print(s cli.Streams, err error) error {
	out, faults := view.Fit(s.Out), view.Fit(s.Err)
	r.printChanges(out)
	for _, f := range r.findings {
		printFault(faults, fmt.Sprintf("%s: %s: %s (%s)", placeOf(f.File, f.Line), f.Severity, f.Text, f.ID), f.Hint)
	}
	if r.options.dump && r.table != nil {
		if _, unwritten := fmt.Fprint(s.Out, r.table); unwritten != nil {
			return errors.Join(err, unwritten)
		}
	}
	if err != nil {
		return err
	}
	for _, f := range r.away {
		if f.Hint == "" {
			fmt.Fprintln(out, f.Text)
			continue
		}
		fmt.Fprintf(out, "%s: %s: %s\n", placeOf(f.File, f.Line), f.Rule, f.Text)
	}
	if r.catalog != nil {
		fmt.Fprintln(out, r.catalog)
	}
	if !r.catalogOnly {
		fmt.Fprintln(out, r.summary())
	}
	if r.fails() {
		return errThreshold
	}
	return nil
}

// summary returns how much was read, and how much was found.
func (r *checkReport) summary() string {
	line := fmt.Sprintf("ok: %s in %s", text.Count(len(r.table.Rules()), "rule"), text.Count(len(r.table.Domains()), "domain"))
	if r.fails() {
		line = "failed" + line[len("ok"):]
	}
	if r.tests > 0 {
		line += fmt.Sprintf(", %s passed", text.Count(r.tests, "test"))
	}
	if n := len(r.changes); n > 0 {
		line += ", " + text.Count(n, "change")
	}
	for _, severity := range []audit.Severity{audit.Warning, audit.Note} {
		n := 0
		for _, f := range r.findings {
			if f.Severity == severity {
				n++
			}
		}
		if n > 0 {
			line += ", " + text.Count(n, severity.String())
		}
	}
	return line
}

// printJSON prints the report as JSON, with the faults.
func (r *checkReport) printJSON(out io.Writer, err error) error {
	report := struct {
		OK       bool            `json:"ok"`
		Rules    int             `json:"rules"`
		Domains  int             `json:"domains"`
		Tests    int             `json:"tests"`
		Findings []audit.Finding `json:"findings"`
		Changes  []audit.Change  `json:"changes,omitzero"`
		Catalog  *checkedCatalog `json:"catalog,omitempty"`
	}{OK: err == nil && !r.fails(), Tests: r.tests, Findings: []audit.Finding{}, Changes: r.changes, Catalog: r.catalog}
	if r.table != nil {
		report.Rules, report.Domains = len(r.table.Rules()), len(r.table.Domains())
	}
	if err != nil {
		faults, ok := asFindings(err)
		if !ok {
			return err
		}
		report.Findings = faults
	}
	report.Findings = append(append(report.Findings, r.findings...), r.away...)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(report); err != nil {
		return err
	}
	switch {
	case err != nil:
		return cli.ErrFaults
	case r.fails():
		return errThreshold
	}
	return nil
}

// asFindings returns the faults of rules in err, and whether err has any.
func asFindings(err error) ([]audit.Finding, bool) {
	faults, ok := errors.AsType[*rule.Errors](err)
	if !ok {
		return nil, false
	}
	id := "fault"
	if _, ok := errors.AsType[*failedTests](err); ok {
		id = "failed-test"
	}
	var all []audit.Finding
	for _, e := range faults.List {
		all = append(all, audit.Finding{ID: id, Severity: audit.Error, File: e.File, Line: e.Line, Text: e.Problem, Hint: e.Hint})
	}
	return all, true
}
