package proof_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/summerwind/h2spec/config"
	"github.com/summerwind/h2spec/generic"
	"github.com/summerwind/h2spec/hpack"
	"github.com/summerwind/h2spec/http2"
	"github.com/summerwind/h2spec/spec"

	"stint/internal/testkit"
)

// h2spec has the same result in each case with limits and without. Some of its cases depend on which of
// two frames comes first, so a case that only one of the servers fails is tried four more times.
func TestH2Spec(t *testing.T) {
	// The cases of h2spec want an answer with a body on every path.
	site := "%s\n\trespond /* \"" + strings.Repeat("hello ", 20) + "\""
	servers := [2]*gateway{start(t, site, true), start(t, site, false)}
	var results [2]map[string]string
	for i, g := range servers {
		results[i] = map[string]string{}
		try(t, g, nil, results[i])
	}
	for range 4 {
		for i, g := range servers {
			var again []string
			for name, result := range results[i] {
				if result == "failed" && results[1-i][name] != result {
					id, _, _ := strings.Cut(name, " ")
					again = append(again, id)
				}
			}
			if again != nil {
				try(t, g, again, results[i])
			}
		}
	}
	limited, bare := results[0], results[1]
	if len(bare) < 140 {
		t.Fatalf("%d cases", len(bare))
	}
	failed := 0
	for _, name := range slices.Sorted(maps.Keys(bare)) {
		if limited[name] != bare[name] {
			t.Errorf("%s: with limits %s, bare Caddy %s", name, limited[name], bare[name])
		}
		if bare[name] == "failed" {
			failed++
			t.Logf("bare Caddy fails %s", name)
		}
	}
	t.Logf("%d cases, %d of which bare Caddy fails", len(bare), failed)
}

// try runs the cases of some sections, nil for all, and puts their results into the map by name.
func try(t *testing.T, g *gateway, sections []string, results map[string]string) {
	t.Helper()
	quiet, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	testkit.Must(t, err)
	defer quiet.Close()
	stdout := os.Stdout
	os.Stdout = quiet // h2spec prints what it does
	defer func() { os.Stdout = stdout }()

	number, err := strconv.Atoi(port(g.https))
	testkit.Must(t, err)
	c := &config.Config{
		Host: "localhost", Port: number, Path: "/", Timeout: 2 * time.Second, MaxHeaderLen: 4000,
		TLS: true, Insecure: true, Strict: true, Sections: sections,
	}
	for _, group := range []*spec.TestGroup{generic.Spec(), http2.Spec(), hpack.Spec()} {
		group.Test(c)
		collect(group, results)
	}
}

func collect(group *spec.TestGroup, into map[string]string) {
	for i, c := range slices.Concat(group.Tests, group.StrictTests) {
		var result string
		switch {
		case c.Result == nil:
			continue
		case c.Result.Failed:
			result = "failed"
		case c.Result.Skipped:
			result = "skipped"
		default:
			result = "passed"
		}
		into[fmt.Sprintf("%s/%d %s", group.ID(), i+1, c.Desc)] = result
	}
	for _, g := range group.Groups {
		collect(g, into)
	}
}
