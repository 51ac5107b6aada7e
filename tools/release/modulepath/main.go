// Command modulepath moves all modules of this repository to another path, so that others can import
// them: go get refuses stint, which has no dot. It rewrites go.mod files, imports, and paths of
// packages in documents, scripts and examples, and puts "go get" into the README where it showed how
// to import a clone.
//
//	modulepath -root . github.com/you/stint
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

func main() {
	root := flag.String("root", ".", "`FOLDER` of the repository")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "modulepath: give one path\nhint: make module-path PATH=github.com/you/stint")
		os.Exit(2)
	}
	n, err := move(*root, flag.Arg(0))
	if err != nil {
		fmt.Fprintln(os.Stderr, "modulepath:", err)
		os.Exit(1)
	}
	fmt.Printf("%d files name %s now\n", n, flag.Arg(0))
}

// move moves the modules below a folder to a path, and returns how many files it has changed.
func move(root, to string) (changed int, err error) {
	if err := module.CheckPath(to); err != nil {
		return 0, fmt.Errorf("%w: write for example github.com/you/stint", err)
	}
	if _, major, _ := module.SplitPathVersion(to); major != "" { // gateway and others would end in it, not the root alone
		return 0, fmt.Errorf("%s ends in a major version, which versions before v2 must not have: leave out %s", to, strings.TrimLeft(major, "/."))
	}
	data, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return 0, err
	}
	from := modfile.ModulePath(data)
	if from == "" {
		return 0, errors.New("go.mod has no module line")
	}
	rules, err := rulesFor(root, from, to)
	if err != nil {
		return 0, err
	}
	err = filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && name != root && (strings.HasPrefix(e.Name(), ".") && e.Name() != ".ci" || e.Name() == "dist") {
			return fs.SkipDir
		}
		if !e.Type().IsRegular() || e.Name() == "go.sum" {
			return nil
		}
		old, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if bytes.IndexByte(old, 0) >= 0 { // a picture, say
			return nil
		}
		text := rules.rewrite(e.Name(), old)
		if bytes.Equal(text, old) {
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		changed++
		return os.WriteFile(name, text, info.Mode().Perm())
	})
	return changed, err
}

// rules are how a text is rewritten.
type rules struct {
	all    []rule            // for every file
	byName map[string][]rule // for files of a name
}

// rule replaces what a pattern matches.
type rule struct {
	pattern *regexp.Regexp
	by      string // with $1 and so on
}

// rulesFor returns the rules that move from to another path. A path of a package is recognized by
// its first folder, which is one of the repository.
func rulesFor(root, from, to string) (rules, error) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return rules{}, err
	}
	var folders []string
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			folders = append(folders, regexp.QuoteMeta(e.Name()))
		}
	}
	old := regexp.QuoteMeta(from)
	by := func(pattern, by string) rule { return rule{regexp.MustCompile(pattern), by} }
	return rules{
		all: []rule{
			by(`(^|[^\w/.~@-])`+old+`/(`+strings.Join(folders, "|")+`)\b`, "${1}"+to+"/${2}"),
			by(`(?m)^(\s*(?:import\s+)?(?:[\w.]+\s+)?)"`+old+`"([ \t]*(?://.*)?)$`, `${1}"`+to+`"${2}`),
			by(`(replace[ =])`+old+`=`, "${1}"+to+"="),
			by(`(go get )`+old+`@`, "${1}"+to+"@"), // which an earlier move wrote
			by(`(const modulePath = )"`+old+`"`, `${1}"`+to+`"`),
		},
		byName: map[string][]rule{
			"go.mod":        {by(`(?m)(^|[ \t])`+old+`($|[ \t])`, "${1}"+to+"${2}")},
			".golangci.yml": {by(`(module-path: )`+old+`\b`, "${1}"+to), by(`prefix\(`+old+`\)`, "prefix("+to+")")},
			"README.md":     {by(`(?s)<!-- before make module-path -->.*?<!-- after it -->\n`, "```sh\ngo get "+to+"@latest\n```\n")},
		},
	}, nil
}

// rewrite returns the new text of a file.
func (r rules) rewrite(name string, text []byte) []byte {
	for _, one := range append(r.byName[name], r.all...) {
		text = one.pattern.ReplaceAll(text, []byte(one.by))
	}
	return text
}
