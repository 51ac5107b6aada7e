package repository

import (
	"fmt"
	"go/ast"
	"regexp"
	"strings"
)

// packageComments reports packages without a comment that begins as Go's convention says.
func packageComments(t *tree) []fault {
	var faults []fault
	for _, p := range t.pkgs {
		want := "Package " + p.name + " "
		if p.name == "main" {
			want = "Command "
		}
		said := false
		for _, f := range p.files {
			said = said || f.ast.Doc != nil && strings.HasPrefix(f.ast.Doc.Text(), want)
		}
		if !said {
			faults = append(faults, fault(fmt.Sprintf("%s: no package comment that begins with %q: "+
				"a stranger can say what a package does from its first line", p.dir, want)))
		}
	}
	return faults
}

// documented reports exported names without a comment in packages that others may import.
func documented(t *tree) []fault {
	var faults []fault
	for _, p := range t.pkgs {
		if p.name == "main" || strings.Contains("/"+p.dir+"/", "/internal/") {
			continue
		}
		for _, f := range p.sources() {
			for _, name := range undocumented(f.ast) {
				faults = append(faults, t.at(name.Pos(), "%s is exported and has no comment: "+
					"its comment is the manual", name.Name))
			}
		}
	}
	return faults
}

// undocumented lists the exported names of a file without a comment of their own or of their group
// of constants or variables.
func undocumented(f *ast.File) []*ast.Ident {
	var names []*ast.Ident
	for _, decl := range f.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Doc == nil && ast.IsExported(decl.Name.Name) && exportedReceiver(decl.Recv) {
				names = append(names, decl.Name)
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				names = append(names, undocumentedSpec(decl, spec)...)
			}
		}
	}
	return names
}

func undocumentedSpec(group *ast.GenDecl, spec ast.Spec) []*ast.Ident {
	var names []*ast.Ident
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		// The comment of a group of types explains none of them.
		if spec.Doc == nil && (group.Doc == nil || group.Lparen.IsValid()) {
			names = append(names, spec.Name)
		}
		if i, ok := spec.Type.(*ast.InterfaceType); ok && ast.IsExported(spec.Name.Name) {
			names = append(names, undocumentedMethods(i, group.Doc.Text()+spec.Doc.Text())...)
		}
	case *ast.ValueSpec:
		if group.Doc == nil && spec.Doc == nil && spec.Comment == nil {
			names = append(names, spec.Names...)
		}
	}
	exported := names[:0]
	for _, name := range names {
		if ast.IsExported(name.Name) {
			exported = append(exported, name)
		}
	}
	return exported
}

// undocumentedMethods lists the methods of an interface that have no comment and do not occur in
// the interface's comment.
func undocumentedMethods(i *ast.InterfaceType, doc string) []*ast.Ident {
	var names []*ast.Ident
	for _, m := range i.Methods.List {
		for _, name := range m.Names {
			if m.Doc == nil && m.Comment == nil && !strings.Contains(doc, name.Name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// exportedReceiver reports whether a function is no method, or a method of an exported type.
func exportedReceiver(recv *ast.FieldList) bool {
	if recv == nil {
		return true
	}
	exported := true
	ast.Inspect(recv.List[0].Type, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IndexExpr: // only the name in T[P] counts
			exported = ast.IsExported(fmt.Sprint(n.X))
			return false
		case *ast.IndexListExpr:
			exported = ast.IsExported(fmt.Sprint(n.X))
			return false
		case *ast.Ident:
			exported = ast.IsExported(n.Name)
		}
		return true
	})
	return exported
}

var (
	unfinished = regexp.MustCompile(`\b(TODO|FIXME|XXX)\b`)
	owned      = regexp.MustCompile(`\b(TODO|FIXME)\([a-z][a-z0-9-]*\): \S`)
)

// ownedTodos reports to-do comments without an owner or a reason.
func ownedTodos(t *tree) []fault {
	var faults []fault
	for _, p := range t.pkgs {
		for _, f := range p.files {
			for _, group := range f.ast.Comments {
				for _, c := range group.List {
					if unfinished.MatchString(c.Text) && !owned.MatchString(c.Text) {
						faults = append(faults, t.at(c.Pos(), "write TODO(name): reason; what nobody owns is never done"))
					}
				}
			}
		}
	}
	return faults
}
