package repository

import (
	"fmt"
	"go/ast"
	"strings"
)

// budget is the size limit of a kind of code. A verbose run logs what exceeds soft; the test fails
// for what exceeds hard.
type budget struct {
	what       string
	soft, hard int
	reason     string
}

var (
	functionBudget  = budget{"lines in a function", 60, 100, "a function fits on a screen"}
	fileBudget      = budget{"lines in a file", 400, 700, "one file for one noun"}
	packageBudget   = budget{"lines in a package", 1500, 2000, "a package is read in one sitting"}
	parameterBudget = budget{"parameters of a constructor", 3, 4, "more of them become a struct with names"}
	methodBudget    = budget{"methods in an interface", 3, 5, "a small interface can be implemented by a stranger"}
	readmeBudget    = budget{"lines in the README", 150, 250, "the rest lives in docs"}
	treeBudget      = budget{"packages", 80, 100, "a stranger finds a thing by the layout alone"}
	internalBudget  = budget{"folders in internal", 12, 12, "helpers stand together by noun"}
)

// rootLines is the hard budget of the root package. It has all algorithms and penalties, how units
// are lent, and how a state is migrated to other numbers, because they share one state.
const rootLines = 3000

// size is a measured size with its budget.
type size struct {
	budget
	where fault // place and name
	n     int
}

// budgets reports what exceeds its hard budget.
func budgets(t *tree) []fault {
	var faults []fault
	for _, s := range sizes(t) {
		if s.n > s.hard {
			faults = append(faults, fault(fmt.Sprintf("%s: %d %s, at most %d: %s", s.where, s.n, s.what, s.hard, s.reason)))
		}
	}
	return faults
}

// nearBudgets lists what exceeds its soft budget only.
func nearBudgets(t *tree) []string {
	var near []string
	for _, s := range sizes(t) {
		if s.n > s.soft && s.n <= s.hard {
			near = append(near, fmt.Sprintf("%s: %d %s, better at most %d", s.where, s.n, s.what, s.soft))
		}
	}
	return near
}

// sizes measures everything with a budget, except generated files.
func sizes(t *tree) []size {
	all := []size{{readmeBudget, "README.md", strings.Count(t.text("README.md"), "\n")}}
	all = append(all, size{treeBudget, ".", t.packages()}, size{internalBudget, "internal", t.foldersOf("internal")})
	for _, p := range t.pkgs {
		total := 0
		for _, f := range p.files {
			if f.generated {
				continue
			}
			if !f.test {
				total += f.lines
			}
			all = append(all, size{fileBudget, fault(f.path), f.lines})
			all = append(all, fileSizes(t, f)...)
		}
		b := packageBudget
		if p.dir == "." {
			b.hard = rootLines
		}
		all = append(all, size{b, fault(p.dir), total})
	}
	return all
}

// packages returns the number of packages of the module, without those of the other modules.
func (t *tree) packages() (n int) {
	for _, p := range t.pkgs {
		if p.module == "." {
			n++
		}
	}
	return n
}

// foldersOf returns how many direct subfolders of a folder have packages.
func (t *tree) foldersOf(folder string) int {
	found := map[string]bool{}
	for _, p := range t.pkgs {
		if below, is := strings.CutPrefix(p.dir, folder+"/"); is {
			name, _, _ := strings.Cut(below, "/")
			found[name] = true
		}
	}
	return len(found)
}

// fileSizes measures the functions, constructors and interfaces of a file.
func fileSizes(t *tree, f *file) []size {
	var all []size
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			lines := t.span(n)
			if f.test {
				lines -= t.tableLines(n)
			}
			all = append(all, size{functionBudget, t.at(n.Pos(), "%s", n.Name.Name), lines})
			if n.Recv == nil && strings.HasPrefix(n.Name.Name, "New") {
				all = append(all, size{parameterBudget, t.at(n.Pos(), "%s", n.Name.Name), n.Type.Params.NumFields()})
			}
		case *ast.TypeSpec:
			if i, ok := n.Type.(*ast.InterfaceType); ok {
				all = append(all, size{methodBudget, t.at(n.Pos(), "%s", n.Name.Name), methods(i, f)})
			}
		}
		return true
	})
	return all
}

// span returns the number of lines of a piece of code.
func (t *tree) span(n ast.Node) int { return t.line(n.End()) - t.line(n.Pos()) + 1 }

// tableLines counts the lines inside list and map literals of a test, because test tables are data.
func (t *tree) tableLines(fn *ast.FuncDecl) int {
	lines := 0
	ast.Inspect(fn, func(n ast.Node) bool {
		table, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		switch table.Type.(type) {
		case *ast.ArrayType, *ast.MapType:
			lines += t.span(table) - 1
			return false
		}
		return true
	})
	return lines
}

// methods counts the methods of an interface. Embedded interfaces of the same file count with their
// methods, others as one.
func methods(i *ast.InterfaceType, f *file) int {
	n := 0
	for _, field := range i.Methods.List {
		switch embedded := field.Type.(type) {
		case *ast.FuncType:
			n += len(field.Names)
		case *ast.Ident:
			if inner := interfaceNamed(embedded.Name, f); inner != nil {
				n += methods(inner, f)
			} else {
				n++
			}
		case *ast.SelectorExpr:
			n++
		default: // a union of types is no method
		}
	}
	return n
}

func interfaceNamed(name string, f *file) *ast.InterfaceType {
	for _, decl := range f.ast.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range group.Specs {
			if ts, ok := spec.(*ast.TypeSpec); ok && ts.Name.Name == name {
				i, _ := ts.Type.(*ast.InterfaceType)
				return i
			}
		}
	}
	return nil
}
