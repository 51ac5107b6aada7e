package repository

import (
	"go/ast"
	"strings"
)

// reasonedSleeps reports a time.Sleep in a test without a comment on its line or the line above. In
// a bubble of synctest time is simulated, and sleeping is free.
func reasonedSleeps(t *tree) []fault {
	var faults []fault
	eachTest(t, func(f *file) {
		commented := map[int]bool{}
		for _, group := range f.ast.Comments {
			for line := t.line(group.Pos()); line <= t.line(group.End()); line++ {
				commented[line] = true
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			pkg, name := selector(call.Fun)
			if pkg == "synctest" {
				return false
			}
			line := t.line(call.Pos())
			if pkg == "time" && name == "Sleep" && !commented[line] && !commented[line-1] {
				faults = append(faults, t.at(call.Pos(), "a sleep in a test, and no comment says why: "+
					"wait for what is awaited, or use synctest"))
			}
			return true
		})
	})
	return faults
}

// loudSkips reports tests that call t.Skip directly, which CI would not notice.
func loudSkips(t *tree) []fault {
	var faults []fault
	eachTest(t, func(f *file) {
		if strings.HasPrefix(f.path, "internal/testkit/") {
			return
		}
		tests := testingParams(f.ast)
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			switch x, name := selector(call.Fun); {
			case !tests[x]:
			case name == "Skip" || name == "Skipf" || name == "SkipNow":
				faults = append(faults, t.at(call.Pos(), "%s.%s loses a test in silence: use testkit.SkipOrFail, "+
					"or return where a fuzz input says nothing", x, name))
			}
			return true
		})
	})
	return faults
}

// eachTest calls do for every test file, and for every file of test helper packages.
func eachTest(t *tree, do func(*file)) {
	for _, p := range t.pkgs {
		for _, f := range p.files {
			if f.test || forTesting(p) || below(p.dir, "internal/testkit") {
				do(f)
			}
		}
	}
}

// forTesting reports whether the name of a package says that it is for tests. A load test is for services, and part of the program.
func forTesting(p *pkg) bool { return strings.HasSuffix(p.name, "test") && p.dir != "loadtest" }

// testingParams returns the parameter names of type *testing.T, or similar, in a file's functions.
func testingParams(f *ast.File) map[string]bool {
	names := map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		fn, ok := n.(*ast.FuncType)
		if !ok {
			return true
		}
		for _, param := range fn.Params.List {
			typ := param.Type
			if star, ok := typ.(*ast.StarExpr); ok {
				typ = star.X
			}
			if pkg, _ := selector(typ); pkg == "testing" {
				for _, name := range param.Names {
					names[name.Name] = true
				}
			}
		}
		return true
	})
	return names
}

// selector splits x.Name, if x is an identifier.
func selector(e ast.Expr) (x, name string) {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	id, ok := sel.X.(*ast.Ident)
	if !ok {
		return "", ""
	}
	return id.Name, sel.Sel.Name
}
