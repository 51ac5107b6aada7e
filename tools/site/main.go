// Command site builds the documentation as a static site: README.md, CHANGELOG.md, CONTRIBUTING.md,
// SECURITY.md, docs/*.md, and every file and folder of the repository that they link to. Its pages
// request nothing from other hosts, work as files too, and have a search. A link to a file or a
// heading that does not exist is an error.
//
//	site -root . -out dist/site
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	root := flag.String("root", ".", "`FOLDER` of the repository")
	out := flag.String("out", "dist/site", "`FOLDER` for the site; files of the same names are replaced")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "site: takes flags only\nhint: make site")
		os.Exit(2)
	}
	s := newSite(*root)
	if err := s.build(*out); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
	fmt.Printf("%d pages; open %s/index.html\n", len(s.pages), *out)
}
