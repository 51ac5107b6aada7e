// Command systems checks that the packages of a module, tests included, are valid Go on other systems: a
// function that one of them does not have, or a number that does not fit an int of 32 bits, is an error. It
// compiles nothing: libraries are read without the bodies of their functions. So it takes a tenth of the time
// of go vet, which compiles each library for each system.
//
//	cd gateway && systems windows/amd64 linux/386
package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "systems: give at least one system, for example windows/amd64")
		os.Exit(2)
	}
	failed := false
	for _, system := range os.Args[1:] {
		if err := check(".", system); err != nil {
			fmt.Fprintf(os.Stderr, "systems: on %s:\n%v\n", system, err)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

// check returns every error in the packages of the module in a folder as a system compiles them, and in what
// they import.
func check(dir, system string) error {
	goos, goarch, ok := strings.Cut(system, "/")
	if !ok {
		return fmt.Errorf("%q is not a system: write for example windows/amd64", system)
	}
	loaded, err := packages.Load(&packages.Config{
		Mode:  packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedDeps | packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesSizes,
		Tests: true,
		Dir:   dir,
		Env:   append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0"),
	}, "./...")
	if err != nil {
		return err
	}
	if len(loaded) == 0 {
		return errors.New("no package found")
	}
	// A package and the same with its tests have the same errors.
	var found []string
	packages.Visit(loaded, nil, func(p *packages.Package) {
		for _, e := range p.Errors {
			if text := e.Error(); !slices.Contains(found, text) {
				found = append(found, text)
			}
		}
	})
	if len(found) > 0 {
		return errors.New(strings.Join(found, "\n"))
	}
	return nil
}
