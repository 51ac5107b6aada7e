package repository

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

const (
	dependenciesDoc = "docs/dependencies.md"
	maxDependencies = 20
)

// home is a row of docs/dependencies.md: the packages that may import a module.
type home struct {
	module    string   // or a family of modules, such as go.opentelemetry.io/*
	dirs      []string // empty: all
	testsOnly bool
	reason    string
}

// oneHome reports direct dependencies without a row in docs/dependencies.md, rows without a
// dependency, and imports of a library by other packages.
func oneHome(t *tree) []fault {
	homes, faults := parseHomes(t.text(dependenciesDoc))
	required := directRequirements(t.text("go.mod"))

	for _, module := range required {
		if !slices.ContainsFunc(homes, func(h home) bool { return h.covers(module) }) {
			faults = append(faults, fault(fmt.Sprintf("go.mod: %s has no row in %s: "+
				"each dependency has one home and a reason", module, dependenciesDoc)))
		}
	}
	for _, h := range homes {
		if !slices.ContainsFunc(required, h.covers) {
			faults = append(faults, fault(fmt.Sprintf("%s: %s is not a direct dependency in go.mod: run go mod tidy, or remove its row",
				dependenciesDoc, h.module)))
		}
	}
	if n := len(families(required, homes)); n > maxDependencies {
		faults = append(faults, fault(fmt.Sprintf("go.mod: %d direct dependencies, at most %d: "+
			"each is code that all users must trust", n, maxDependencies)))
	}
	return slices.Concat(faults, gatewayModules(t), strangers(t, homes))
}

// covers reports whether a row is about a module.
func (h home) covers(module string) bool {
	family, ok := strings.CutSuffix(h.module, "*")
	return h.module == module || ok && strings.HasPrefix(module, family)
}

// families returns the modules, those of a family once.
func families(modules []string, homes []home) map[string]bool {
	all := map[string]bool{}
	for _, module := range modules {
		name := module
		for _, h := range homes {
			if h.covers(module) {
				name = h.module
			}
		}
		all[name] = true
	}
	return all
}

var moduleItem = regexp.MustCompile("(?m)^- `([^`]+)`: .")

// gatewayModules reports direct dependencies of the gateway without an item "- `module`: reason" in
// docs/dependencies.md, and items without a dependency.
func gatewayModules(t *tree) []fault {
	var faults []fault
	var explained []string
	for _, item := range moduleItem.FindAllStringSubmatch(t.text(dependenciesDoc), -1) {
		explained = append(explained, item[1])
	}
	required := directRequirements(t.text("gateway/go.mod"))
	for _, module := range required {
		if module != "stint" && !slices.Contains(explained, module) {
			faults = append(faults, fault(fmt.Sprintf("gateway/go.mod: %s has no item in %s", module, dependenciesDoc)))
		}
	}
	for _, module := range explained {
		if !slices.Contains(required, module) {
			faults = append(faults, fault(fmt.Sprintf("%s: %s is not a direct dependency in gateway/go.mod", dependenciesDoc, module)))
		}
	}
	return faults
}

// strangers reports imports of third-party libraries by packages that may not import them.
func strangers(t *tree, homes []home) []fault {
	var faults []fault
	for _, p := range t.pkgs {
		if p.module != "." {
			continue
		}
		for _, f := range p.files {
			for _, spec := range f.ast.Imports {
				name := importPath(spec)
				if top, _, _ := strings.Cut(name, "/"); !strings.Contains(top, ".") {
					continue
				}
				h, ok := homeOf(homes, name)
				switch {
				case !ok:
					faults = append(faults, t.at(spec.Pos(), "imports %s, which has no row in %s", name, dependenciesDoc))
				case h.testsOnly && !f.test:
					faults = append(faults, t.at(spec.Pos(), "imports %s, which is for tests only", name))
				case len(h.dirs) > 0 && !match(p.dir, h.dirs...):
					faults = append(faults, t.at(spec.Pos(), "imports %s, whose home is %s: "+
						"one package knows a library, so that it can be replaced", name, strings.Join(h.dirs, ", ")))
				}
			}
		}
	}
	return faults
}

// homeOf returns the row of the module that provides an import path: the longest match.
func homeOf(homes []home, importPath string) (home, bool) {
	var best home
	for _, h := range homes {
		if (below(importPath, h.module) || h.covers(importPath)) && len(h.module) > len(best.module) {
			best = h
		}
	}
	return best, best.module != ""
}

var codeSpan = regexp.MustCompile("`([^`]+)`")

// parseHomes reads the table | `module` | home | reason | without it |. A home is
// folders as code spans, the word "tests", or both.
func parseHomes(doc string) ([]home, []fault) {
	var homes []home
	var faults []fault
	for i, line := range strings.Split(doc, "\n") {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "| "), "|")
		for j := range cells {
			cells[j] = strings.TrimSpace(cells[j])
		}
		if len(cells) != 4 || slices.Contains(cells, "") {
			faults = append(faults, fault(fmt.Sprintf("%s:%d: a row has four cells: module, home, reason, "+
				"and what we would do without it", dependenciesDoc, i+1)))
			continue
		}
		h := home{module: strings.Trim(cells[0], "`"), testsOnly: strings.Contains(cells[1], "tests"), reason: cells[2]}
		for _, span := range codeSpan.FindAllStringSubmatch(cells[1], -1) {
			h.dirs = append(h.dirs, span[1])
		}
		if len(h.dirs) == 0 && !h.testsOnly {
			faults = append(faults, fault(fmt.Sprintf("%s:%d: a home is a folder in backquotes, or tests", dependenciesDoc, i+1)))
		}
		homes = append(homes, h)
	}
	return homes, faults
}

// directRequirements lists the modules that a go.mod requires without "// indirect".
func directRequirements(mod string) []string {
	var modules []string
	inBlock := false
	for line := range strings.Lines(mod) {
		line = strings.TrimSpace(line)
		if line == "require (" || line == ")" {
			inBlock = line != ")"
			continue
		}
		rest, single := strings.CutPrefix(line, "require ")
		fields := strings.Fields(rest)
		if (inBlock || single) && len(fields) >= 2 && fields[0] != "//" && !strings.Contains(line, "// indirect") {
			modules = append(modules, fields[0])
		}
	}
	return modules
}
