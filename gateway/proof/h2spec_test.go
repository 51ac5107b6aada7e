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
// two frames comes first, so a case that fails is tried four more times.
func TestH2Spec(t *testing.T) {
	// The cases of h2spec want an answer with a body on every path.
	site := "%s\n\trespond /* \"" + strings.Repeat("hello ", 20) + "\""
	limited, bare := h2spec(t, start(t, site, true)), h2spec(t, start(t, site, false))
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

// h2spec runs all cases and returns their results by name.
func h2spec(t *testing.T, g *gateway) map[string]string {
	t.Helper()
	quiet, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	testkit.Must(t, err)
	defer quiet.Close()
	stdout := os.Stdout
	os.Stdout = quiet // h2spec prints what it does
	defer func() { os.Stdout = stdout }()

	number, err := strconv.Atoi(port(g.https))
	testkit.Must(t, err)
	c := &config.Config{Host: "localhost", Port: number, Path: "/", Timeout: 2 * time.Second, MaxHeaderLen: 4000, TLS: true, Insecure: true, Strict: true}
	results := map[string]string{}
	try(c, results)
	for range 4 {
		c = &config.Config{Host: c.Host, Port: c.Port, Path: c.Path, Timeout: c.Timeout, MaxHeaderLen: c.MaxHeaderLen, TLS: true, Insecure: true, Strict: true}
		for name, result := range results {
			if result == "failed" {
				id, _, _ := strings.Cut(name, " ")
				c.Sections = append(c.Sections, id)
			}
		}
		if len(c.Sections) > 0 {
			try(c, results)
		}
	}
	return results
}

// try runs the cases of c and adds their results.
func try(c *config.Config, results map[string]string) {
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
