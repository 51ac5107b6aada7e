package repository

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// rules apply to every commit.
var rules = []struct {
	name  string
	check func(*tree) []fault
}{
	{"package comments", packageComments},
	{"import direction", importDirection},
	{"root is pure", rootIsPure},
	{"open examples", openExamples},
	{"one home", oneHome},
	{"light links", lightLinks},
	{"front room", frontRoom},
	{"budgets", budgets},
	{"documented", documented},
	{"owned todos", ownedTodos},
	{"reasoned sleeps", reasonedSleeps},
	{"loud skips", loudSkips},
}

// The repository follows its rules.
func TestRepository(t *testing.T) {
	repo, err := load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	if len(repo.pkgs) < 3 {
		t.Fatalf("found %d packages; is this the root of the repository?", len(repo.pkgs))
	}
	for _, rule := range rules {
		t.Run(rule.name, func(t *testing.T) {
			for _, f := range rule.check(repo) {
				t.Error(f)
			}
		})
	}
	for _, near := range nearBudgets(repo) {
		t.Log(near)
	}
}

// src is a small repository: contents by path.
type src map[string]string

// TestRules breaks each rule once in a small tree. It checks that only this rule reports it, and
// that code close to a fault is not reported.
func TestRules(t *testing.T) {
	for _, test := range brokenRules {
		t.Run(test.name, func(t *testing.T) {
			small, err := load(test.files.fs())
			if err != nil {
				t.Fatal(err)
			}
			for _, rule := range rules {
				faults := rule.check(small)
				switch {
				case rule.name != test.rule:
					for _, f := range faults {
						t.Errorf("%s: unexpected: %s", rule.name, f)
					}
				case len(faults) != 1 || !strings.Contains(string(faults[0]), test.want):
					t.Errorf("%s: reported %q, want one fault with %q", rule.name, faults, test.want)
				}
			}
		})
	}
}

// fs returns the tree as a file system, and adds missing package comments.
func (s src) fs() fstest.MapFS {
	files := fstest.MapFS{}
	for name, content := range s {
		if body, ok := strings.CutPrefix(content, "package "); ok && !strings.HasSuffix(name, "_test.go") {
			pkg, _, _ := strings.Cut(body, "\n")
			content = fmt.Sprintf("// Package %s is an example.\n%s", pkg, content)
		}
		files[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return files
}

// lines returns n lines of Go without an effect.
func lines(n int) string { return strings.Repeat("_ = 0\n", n) }

// exported returns n copies of a declaration, each with its own name.
func exported(declaration string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, declaration, fmt.Sprintf("Name%d", i))
	}
	return b.String()
}

// brokenRules are small trees; rule is the one that each breaks, "" for none.
var brokenRules = []struct {
	name  string
	rule  string
	want  string
	files src
}{
	{
		"a package without a comment", "package comments", `pace: no package comment that begins with "Package pace "`,
		src{"pace/a.go": "\npackage pace"},
	},
	{
		"a comment that is not about the package", "package comments", "no package comment",
		src{"pace/a.go": "// Paces things.\npackage pace"},
	},
	{
		"a command says Command", "package comments", `"Command "`,
		src{"cmd/stint/main.go": "// Package main is a program.\npackage main"},
	},
	{
		"a good command", "", "",
		src{"cmd/stint/main.go": "// Command stint limits.\npackage main"},
	},
	{
		"package comments in other modules too", "package comments", "bench: no package comment",
		src{"bench/go.mod": "module stint/bench", "bench/a.go": "\npackage bench"},
	},
	{
		"a store imports a rule", "import direction", "store/memory/a.go:3: imports stint/rule, but may import",
		src{"store/memory/a.go": "package memory\nimport _ \"stint/rule\""},
	},
	{
		"siblings", "import direction", "imports stint/store/redis",
		src{"store/memory/a.go": "package memory\nimport _ \"stint/store/redis\""},
	},
	{
		"the limiter names a store", "import direction", "which one it is, app decides",
		src{"limiter/a.go": "package limiter\nimport _ \"stint/store/memory\""},
	},
	{
		"a test may use a store", "", "",
		src{
			"limiter/a.go":      "package limiter\nimport (\n_ \"stint\"\n_ \"stint/rule\"\n)",
			"limiter/a_test.go": "package limiter_test\nimport (\n_ \"stint/limiter\"\n_ \"stint/store/memory\"\n)",
		},
	},
	{
		"a test of a store uses a server", "import direction", "store/memory/a_test.go:2",
		src{"store/memory/a_test.go": "// Package memory is an example.\npackage memory; import _ \"stint/server/resp\""},
	},
	{
		"the root imports its own", "import direction", "a.go:3: imports stint/internal/testkit",
		src{"a.go": "package stint\nimport _ \"stint/internal/testkit\""},
	},
	{
		"a package without a place", "import direction", "util: this package is in no layer",
		src{"util/a.go": "package util"},
	},
	{
		"another module is free", "", "",
		src{"bench/go.mod": "module stint/bench", "bench/a.go": "package bench\nimport (\n_ \"stint/app\"\n_ \"github.com/x/y\"\n)"},
	},
	{
		"an example needs what others cannot import", "open examples", "examples/login/a.go:3: imports stint/internal/text",
		src{"examples/go.mod": "module stint/examples", "examples/login/a.go": "package login\nimport _ \"stint/internal/text\""},
	},
	{
		"what examples may import", "", "",
		src{
			"examples/go.mod":          "module stint/examples",
			"examples/login/a.go":      "package login\nimport (\n_ \"stint/limiter\"\n_ \"stint/rule/rulefile\"\n)",
			"examples/login/a_test.go": "package login\nimport _ \"stint/internal/testkit\"",
			"examples/demo/a.go":       "package demo\nimport _ \"stint/internal/text\"",
		},
	},
	{
		"the root locks", "root is pure", "imports sync/atomic: locks belong to stores",
		src{"a.go": "package stint\nimport _ \"sync/atomic\""},
	},
	{
		"the root listens", "root is pure", "imports net/http",
		src{"a.go": "package stint\nimport _ \"net/http\""},
	},
	{
		"the root reads the clock", "root is pure", "time.Now: time is an argument",
		src{"a.go": "package stint\nimport \"time\"\nvar now = time.Now()"},
	},
	{
		"the root starts a goroutine", "root is pure", "starts a goroutine",
		src{"a.go": "package stint\nfunc f() { go f() }"},
	},
	{
		"what the root may do", "", "",
		src{
			"a.go":      "package stint\nimport (\n\"context\"\n\"time\"\n)\nvar _ context.Context\nvar _ = time.Second",
			"a_test.go": "package stint\nimport (\n\"sync\"\n\"time\"\n)\nvar _ sync.Mutex\nvar _ = time.Now()",
		},
	},
	{
		"a dependency without a row", "one home", "go.mod: example.com/x has no row",
		src{"go.mod": "module stint\n\nrequire example.com/x v1.0.0\nrequire (\n\texample.com/y v1.0.0 // indirect\n)\n"},
	},
	{
		"a row without a dependency", "one home", "example.com/x is not a direct dependency",
		src{"docs/dependencies.md": "| `example.com/x` | `rule` | reads | write it |\n"},
	},
	{
		"a row without a reason", "one home", "docs/dependencies.md:2: a row has four cells",
		src{"docs/dependencies.md": "\n| `example.com/x` | `rule` | | write it |\n"},
	},
	{
		"a dependency of the gateway without an item", "one home", "gateway/go.mod: example.com/x has no item",
		src{"gateway/go.mod": "module stint/gateway\n\nrequire example.com/x v1.0.0\nrequire stint v0.0.0\n"},
	},
	{
		"an item without a dependency of the gateway", "one home", "example.com/x is not a direct dependency in gateway/go.mod",
		src{"docs/dependencies.md": "- `example.com/x`: reads\n"},
	},
	{
		"a library outside its home", "one home", "limiter/a.go:3: imports example.com/x/sub, whose home is rule",
		src{
			"go.mod":               "require example.com/x v1.0.0\n",
			"docs/dependencies.md": "| `example.com/x` | `rule` | reads | write it |\n",
			"rule/a.go":            "package rule\nimport _ \"example.com/x\"",
			"limiter/a.go":         "package limiter\nimport _ \"example.com/x/sub\"",
		},
	},
	{
		"a library of a family outside its home", "one home", "limiter/a.go:3: imports example.com/x/sub, whose home is rule",
		src{
			"go.mod":               "require example.com/x v1.0.0\n",
			"docs/dependencies.md": "| `example.com/*` | `rule` | reads | write it |\n",
			"rule/a.go":            "package rule\nimport _ \"example.com/x\"",
			"limiter/a.go":         "package limiter\nimport _ \"example.com/x/sub\"",
		},
	},
	{"twenty dependencies, one of them a family", "", "", familyAnd(19)},
	{"too many dependencies beside a family", "one home", "go.mod: 21 direct dependencies, at most 20", familyAnd(20)},
	{
		"a library for tests in the product", "one home", "for tests only",
		src{
			"go.mod":               "require (\n\texample.com/x v1.0.0\n)\n",
			"docs/dependencies.md": "| `example.com/x` | tests | finds leaks | count by hand |\n",
			"rule/a_test.go":       "package rule\nimport _ \"example.com/x\"",
			"rule/a.go":            "package rule\nimport _ \"example.com/x\"",
		},
	},
	{
		"a library without a row", "one home", "imports example.com/xy, which has no row",
		src{
			"go.mod":               "require example.com/x v1.0.0\n",
			"docs/dependencies.md": "| `example.com/x` | `rule`, `app` | reads | write it |\n",
			"rule/a.go":            "package rule\nimport _ \"example.com/xy\"",
		},
	},
	{
		"a light program links a library", "light links", "rule/a.go:3: imports example.com/x, and programs of the library link it: httplimit -> limiter -> rule",
		src{
			"go.mod":               "require example.com/x v1.0.0\n",
			"docs/dependencies.md": "| `example.com/x` | `rule`, `app` | reads | write it |\n",
			"rule/a.go":            "package rule\nimport _ \"example.com/x\"",
			"limiter/a.go":         "package limiter\nimport _ \"stint/rule\"",
			"httplimit/a.go":       "package httplimit\nimport _ \"stint/limiter\"",
			"app/a.go":             "package app\nimport _ \"example.com/x\"",
		},
	},
	{
		"a full front room", "front room", "29 exported types and functions",
		src{"a.go": "package stint\n" + exported("// %[1]s is a type.\ntype %[1]s int\n", 29)},
	},
	{
		"a limit that does too much", "front room", "15 exported methods of Limit",
		src{"a.go": "package stint\n// Limit is a type.\ntype Limit int\n" + exported("// %[1]s does nothing.\nfunc (l *Limit) %[1]s() {}\n", 15)},
	},
	{
		"a take that carries too much", "front room", "9 fields of Take",
		src{"a.go": "package stint\n// Take is a type.\ntype Take struct {\n" + exported("%[1]s int // is a field\n", 9) + "}\n"},
	},
	{
		"too many dependencies", "one home", "go.mod: 21 direct dependencies",
		manyDependencies(21),
	},
	{
		"as many dependencies as may be", "", "",
		manyDependencies(20),
	},
	{
		"a long function", "budgets", "pace/a.go:3: f: 101 lines in a function",
		src{"pace/a.go": "package pace\nfunc f() {\n" + lines(99) + "}"},
	},
	{
		"a function of 100 lines", "", "",
		src{"pace/a.go": "package pace\nfunc f() {\n" + lines(98) + "}"},
	},
	{
		"a long table in a short test", "", "",
		src{"pace/a_test.go": "// Package pace is an example.\npackage pace\nfunc f() {\nfor range []int{\n" +
			strings.Repeat("1,\n", 200) + "} {\n}\n}"},
	},
	{
		"a long table in the product", "budgets", "lines in a function",
		src{"pace/a.go": "package pace\nfunc f() {\nfor range []int{\n" + strings.Repeat("1,\n", 200) + "} {\n}\n}"},
	},
	{
		"a long file", "budgets", "pace/a.go: 701 lines in a file",
		src{"pace/a.go": "package pace\n" + strings.Repeat("var _ = 0\n", 700)},
	},
	{
		"a generated file", "", "",
		src{"pace/a.go": "// Code generated by x. DO NOT EDIT.\n\n// Package pace is an example.\npackage pace\n" +
			strings.Repeat("var _ = 0\n", 700)},
	},
	{
		"a large package", "budgets", "pace: 3005 lines in a package",
		src{
			"pace/a.go":      "package pace\n" + strings.Repeat("var _ = 1\n", 600),
			"pace/b.go":      "package pace\n" + strings.Repeat("var _ = 1\n", 600),
			"pace/c.go":      "package pace\n" + strings.Repeat("var _ = 1\n", 600),
			"pace/d.go":      "package pace\n" + strings.Repeat("var _ = 1\n", 600),
			"pace/e.go":      "package pace\n" + strings.Repeat("var _ = 1\n", 600),
			"pace/a_test.go": "package pace\n" + strings.Repeat("var _ = 1\n", 600),
		},
	},
	{
		"a constructor with five parameters", "budgets", "NewGuard: 5 parameters",
		src{"pace/a.go": "package pace\n// NewGuard is new.\nfunc NewGuard(a, b int, c, d string, e bool) {}"},
	},
	{
		"a large interface", "budgets", "wide: 6 methods in an interface",
		src{"pace/a.go": "package pace\nimport \"io\"\n" +
			"type small interface{ a(); b(); c() }\ntype wide interface{ small; io.Closer; d(); e() }"},
	},
	{
		"a constraint is no large interface", "", "",
		src{"pace/a.go": "package pace\ntype number interface{ ~int | ~int64; a(); b(); c(); d(); e() }"},
	},
	{
		"a long README", "budgets", "README.md: 251 lines",
		src{"README.md": strings.Repeat("\n", 251)},
	},
	{
		"an undocumented function", "documented", "pace/a.go:3: F is exported",
		src{"pace/a.go": "package pace\nfunc F() {}"},
	},
	{
		"an undocumented method", "documented", "M is exported",
		src{"pace/a.go": "package pace\n// T is.\ntype T[P any] struct{}\nfunc (*T[P]) M() {}"},
	},
	{
		"an undocumented method of an interface", "documented", "M is exported",
		src{"pace/a.go": "package pace\n// I is. O is too.\ntype I interface {\n// N is.\nN()\nM()\nO()\n}"},
	},
	{
		"an undocumented type in a group", "documented", "T is exported",
		src{"pace/a.go": "package pace\n// Some types.\ntype (\nT int\n)"},
	},
	{
		"an undocumented variable", "documented", "V is exported",
		src{"pace/a.go": "package pace\nvar V, w int"},
	},
	{
		"what needs no comment", "", "",
		src{
			"pace/a.go":       "package pace\n// Some numbers.\nconst (\nA = 1\nB = 2\n)\ntype t struct{}\nfunc (t) M() {}",
			"pace/a_test.go":  "package pace\nfunc F() {}",
			"internal/x/a.go": "package x\nfunc F() {}",
		},
	},
	{
		"a todo of nobody", "owned todos", "pace/a.go:3: write TODO(name): reason",
		src{"pace/a.go": "package pace\n// TODO: later.\n"},
	},
	{
		"a todo of somebody", "", "",
		src{"pace/a.go": "package pace\n// TODO(ann): the peers of one rack are asked twice.\n"},
	},
	{
		"a sleep without a reason", "reasoned sleeps", "pace/a_test.go:6",
		src{"pace/a_test.go": "// Package pace is an example.\npackage pace\nimport \"time\"\nfunc f() {\n" +
			"_ = 0\ntime.Sleep(1)\n}"},
	},
	{
		"sleeps with a reason", "", "",
		src{"pace/a_test.go": "// Package pace is an example.\npackage pace\nimport (\n\"time\"\n\"testing/synctest\"\n)\nfunc f() {\n" +
			"time.Sleep(1) // the server closes idle connections by its own clock\n" +
			"// The same again.\ntime.Sleep(1)\n" +
			"_ = 0\nsynctest.Test(nil, func() {\ntime.Sleep(1)\n})\n}"},
	},
	{
		"a silent skip", "loud skips", "t.Skipf loses a test in silence",
		src{"pace/a_test.go": "// Package pace is an example.\npackage pace\nimport \"testing\"\n" +
			"func TestX(t *testing.T) {\nt.Skipf(\"no server\")\n}"},
	},
	{
		"another kind of skip", "", "",
		src{"pace/a_test.go": "// Package pace is an example.\npackage pace\nimport \"testing\"\n" +
			"func TestX(t *testing.T) {\nvar s scanner\ns.Skip()\n}"},
	},
}

// manyDependencies returns a repository with n dependencies, without faults.
func manyDependencies(n int) src {
	var mod, doc strings.Builder
	for i := range n {
		fmt.Fprintf(&mod, "require example.com/x%d v1.0.0\n", i)
		fmt.Fprintf(&doc, "| `example.com/x%d` | `rule` | reads | write it |\n", i)
	}
	return src{"go.mod": mod.String(), "docs/dependencies.md": doc.String()}
}

// familyAnd returns a repository with n dependencies and a family of two modules, without faults.
func familyAnd(n int) src {
	tree := manyDependencies(n)
	tree["go.mod"] += "require example.org/a v1.0.0\nrequire example.org/b v1.0.0\n"
	tree["docs/dependencies.md"] += "| `example.org/*` | `rule` | reads | write it |\n"
	return tree
}
