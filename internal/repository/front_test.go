package repository

import (
	"fmt"
	"go/ast"
	"strings"
)

// light are the packages of a program that limits requests in its own memory, without rule files.
// None of their imports leads to a third-party library, so the program links none for YAML, signed
// tokens or prefix tables.
var light = []string{".", "store/memory", "httplimit"}

// lightLinks reports imports of third-party libraries by light and all that light imports.
func lightLinks(t *tree) []fault {
	var faults []fault
	by := map[string]*pkg{}
	for _, p := range t.pkgs {
		by[p.dir] = p
	}
	seen := map[string]bool{}
	var visit func(dir, way string)
	visit = func(dir, way string) {
		if seen[dir] || by[dir] == nil {
			return
		}
		seen[dir] = true
		for _, f := range by[dir].sources() {
			for _, spec := range f.ast.Imports {
				name := importPath(spec)
				if next, ours := own(name); ours {
					visit(next, way+" -> "+next)
				} else if top, _, _ := strings.Cut(name, "/"); strings.Contains(top, ".") && dir != "." { // another rule reports it for the root
					faults = append(faults, t.at(spec.Pos(), "imports %s, and programs of the library link it: %s", name, way))
				}
			}
		}
	}
	for _, dir := range light {
		visit(dir, dir)
	}
	return faults
}

// The largest size of the root package's API: a user of the library reads all of it.
const (
	frontNames   = 28 // exported types and functions of the root package
	limitMethods = 14 // exported methods of Limit
	takeFields   = 8  // fields of Take
)

// frontRoom reports a root package with a larger API.
func frontRoom(t *tree) []fault {
	names, methods, fields := 0, 0, 0
	for _, p := range t.pkgs {
		if p.dir != "." {
			continue
		}
		for _, f := range p.sources() {
			for _, d := range f.ast.Decls {
				switch d := d.(type) {
				case *ast.FuncDecl:
					switch {
					case !d.Name.IsExported():
					case d.Recv == nil:
						names++
					case receiver(d) == "Limit":
						methods++
					}
				case *ast.GenDecl:
					for _, spec := range d.Specs {
						s, ok := spec.(*ast.TypeSpec)
						if !ok || !s.Name.IsExported() {
							continue
						}
						names++
						if body, ok := s.Type.(*ast.StructType); ok && s.Name.Name == "Take" {
							fields = body.Fields.NumFields()
						}
					}
				}
			}
		}
	}
	var faults []fault
	for _, bound := range []struct {
		what        string
		there, most int
	}{
		{"exported types and functions", names, frontNames},
		{"exported methods of Limit", methods, limitMethods},
		{"fields of Take", fields, takeFields},
	} {
		if bound.there > bound.most {
			faults = append(faults, fault(fmt.Sprintf("the root package has %d %s, at most %d: "+
				"what only stores need belongs to StoreLimit and Handling", bound.there, bound.what, bound.most)))
		}
	}
	return faults
}

// receiver returns the type name of a method's receiver.
func receiver(d *ast.FuncDecl) string {
	t := d.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	name, _ := t.(*ast.Ident)
	if name == nil {
		return ""
	}
	return name.Name
}
