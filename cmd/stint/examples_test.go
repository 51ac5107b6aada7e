package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"stint/app"
	"stint/rule"
)

// The rule files of examples are good, without a warning, and pass their tests, both
// each by itself and as one folder.
func TestExampleRules(t *testing.T) {
	files, err := filepath.Glob("../../examples/rules/*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatalf("found %q, error %v", files, err)
	}
	for _, file := range append(files, "../../examples/rules") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			var out, errs bytes.Buffer
			if status := run(t.Context(), streams{out: &out, err: &errs}, []string{"check", file}); status != exitOK || errs.Len() > 0 {
				t.Errorf("status %d\n%s", status, errs.String())
			}
			if !strings.HasPrefix(out.String(), "ok: ") {
				t.Errorf("said %q", out.String())
			}
		})
	}
}

// The configuration of make run is read, its rules are found, and the domain of its
// demo says how a request becomes descriptors.
func TestExampleConfig(t *testing.T) {
	config, err := app.Configure([]app.Given{{Name: "config", Value: "../../examples/stint.yaml", Where: "--config"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	table, err := rule.Load(config.Rules...)
	if err != nil {
		t.Fatal(err)
	}
	if d := table.Domain(config.Demo); d == nil || !d.HasHTTP() {
		t.Errorf("no http rules in domain %q", config.Demo)
	}
	if _, err := app.New(config); err != nil {
		t.Error(err)
	}
}
