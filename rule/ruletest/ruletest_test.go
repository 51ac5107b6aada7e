package ruletest_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/rule"
	"stint/rule/rulefile"
	"stint/rule/ruletest"
)

// source reads a file as if it were in the working folder.
func source(t testing.TB, name string) rulefile.Source {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return rulefile.Source{Name: filepath.Base(name), Data: data}
}

func show(list []rule.Descriptor) string {
	var all []string
	for _, d := range list {
		var parts []string
		for _, e := range d.Entries {
			parts = append(parts, e.Key+"="+e.Value)
		}
		all = append(all, strings.Join(parts, " "))
	}
	return strings.Join(all, "; ")
}

func TestParse(t *testing.T) {
	tests, err := ruletest.Parse(source(t, "testdata/good/all.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(tests) != 2 || tests[0].Name != "every word" || tests[0].Domain != "api" || tests[0].Line != 2 || tests[1].Domain != "other" {
		t.Fatalf("%+v", tests)
	}
	if got := tests[0].Start.Time(); !got.Equal(time.Date(2026, 3, 28, 23, 30, 0, 0, time.UTC)) {
		t.Errorf("start %v", got)
	}
	if got := tests[1].Start.Time(); !got.Equal(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("start where silent %v", got)
	}
	s := tests[0].Steps
	if s[0].Times != 1 || s[0].Cost != nil || s[0].Descriptors[0].Cost != 1 || !s[0].Allow || show(s[0].Descriptors) != "user=42" || s[0].Rule != nil || s[0].Remaining != nil || s[0].RetryAfter != nil {
		t.Errorf("step 1: %+v", s[0])
	}
	if s[1].At != 90*time.Second || s[1].Times != 5 || *s[1].Cost != 0 || s[1].Allow || *s[1].Rule != "api/user" || *s[1].Remaining != 0 ||
		*s[1].RetryAfter != 59*time.Second || show(s[1].Descriptors) != "user=42 path=/a" {
		t.Errorf("step 2: %+v", s[1])
	}
	if show(s[2].Descriptors) != "a=; b=c" || *s[2].RetryAfter != stint.Never || *s[2].Rule != "" {
		t.Errorf("step 3: %+v", s[2])
	}
	checkRequest(t, s[3].Request)
	if r := s[4].Request; r.Method() != "GET" || r.Path() != "/" || r.RemoteAddress().IsValid() {
		t.Errorf("step 5: %+v", r)
	}
	if s[4].Answer != 0 || s[4].Over != nil || s[5].Answer != 401 || !*s[5].Over {
		t.Errorf("steps 5 and 6: %+v", s[4:])
	}
}

func checkRequest(t *testing.T, r *ruletest.Request) {
	t.Helper()
	var a rule.Attributes = r
	if size, known := r.BodySize(); size != 2048 || !known || !slices.Equal(r.QueryValues("user"), []string{"", "bob", "eve"}) {
		t.Errorf("body of %d, %v; users %q", size, known, r.QueryValues("user"))
	}
	user, _ := a.Query("user")
	_, other := a.Query("other")
	key, _ := a.Header("X-API-KEY")
	host, _ := a.Header("host")
	_, missing := a.Header("missing")
	if a.Method() != "POST" || a.Path() != "/login" || user != "bob" || other || key != "k" || host != "example.com" || missing ||
		a.RemoteAddress().String() != "2001:db8::1" {
		t.Errorf("request %+v", r)
	}
}

// One file for each fault gives exactly its error.
func TestBadFiles(t *testing.T) {
	for _, name := range testkit.GoldenInputs(t, "testdata/bad/*.yaml") {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".yaml"), func(t *testing.T) {
			tests, err := ruletest.Parse(source(t, name))
			if err == nil || tests != nil {
				t.Fatalf("accepted: %+v", tests)
			}
			testkit.CheckGolden(t, strings.TrimSuffix(name, ".yaml")+".want", err.Error()+"\n")
		})
	}
}

// No bytes make the reader of rule tests panic.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/good/*.yaml", "testdata/bad/*.yaml"} {
		for _, name := range testkit.GoldenInputs(f, filepath.FromSlash(pattern)) {
			f.Add(source(f, name).Data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tests, err := ruletest.Parse(rulefile.Source{Name: "fuzz", Data: data})
		if err != nil {
			var faults *rule.Errors
			if !errors.As(err, &faults) || len(faults.List) == 0 {
				t.Fatalf("%T %v", err, err)
			}
			for _, one := range faults.List {
				if one.Line < 1 || one.Problem == "" || one.Hint == "" || one.File != "fuzz" {
					t.Errorf("incomplete: %+v", one)
				}
			}
			return
		}
		for _, one := range tests {
			for _, s := range one.Steps {
				if (s.Request == nil) == (len(s.Descriptors) == 0) || s.Times == 0 {
					t.Errorf("a step that asks nothing: %+v", s)
				}
			}
		}
	})
}
