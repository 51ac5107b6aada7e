package main

import (
	"fmt"
	"os"
	"strings"

	"stint/internal/strictyaml/parser"
	"stint/internal/text"
	"stint/rule/audit"
	"stint/rule/catalog/book"
)

// splitCatalogs takes the files of rules per API out of the arguments of check: by the
// end of their names, and those of ratelimiter4j by what they hold.
func splitCatalogs(names []string) (others, catalogs []string) {
	for _, name := range names {
		if isCatalog(name) {
			catalogs = append(catalogs, name)
		} else {
			others = append(others, name)
		}
	}
	return others, catalogs
}

func isCatalog(name string) bool {
	format, ok := book.FormatOf(name)
	if !ok || format != book.RateLimiter4j {
		return ok
	}
	data, err := os.ReadFile(name)
	if err != nil || !strings.Contains(string(data), "configs") {
		return false
	}
	doc := parser.Parse(data)
	if doc.Empty() || !doc.Root().IsObject() {
		return false
	}
	configs := false
	for _, f := range doc.Root().Fields() {
		switch f.Name {
		case "configs":
			configs = true
		case "domain", "descriptors":
			return false
		}
	}
	return configs
}

// checkedCatalog is what check says of good rules per API.
type checkedCatalog struct {
	Rules int    `json:"rules"`
	Files int    `json:"files"`
	Hash  string `json:"hash"` // that a service with them shows
}

// String is the line of the report for people.
func (c *checkedCatalog) String() string {
	return fmt.Sprintf("ok: %s per API in %s, hash %s", text.Count(c.Rules, "rule"), text.Count(c.Files, "file"), c.Hash)
}

// checkCatalogs checks files of rules per API, all together as the service would load
// them; nil for no files.
func (o *checkOptions) checkCatalogs(names []string) (*checkedCatalog, error) {
	if len(names) == 0 {
		return nil, nil
	}
	config := o.config
	config.Catalog, config.CatalogDB = names, ""
	b, err := config.LoadCatalog()
	if err != nil {
		return nil, err
	}
	c := b.Catalog()
	return &checkedCatalog{c.Len(), len(names), c.Hash()}, nil
}

// compare finds what changes when the rules that were read take the place of those of
// --against. Rules per API are compared as a whole, by their hashes; catalogs are the
// files of those that were read.
func (r *checkReport) compare(catalogs []string) error {
	names, oldCatalogs := splitCatalogs(r.options.old)
	before, err := r.options.checkCatalogs(oldCatalogs)
	if err != nil {
		return err
	}
	old, err := r.options.load(names)
	if err != nil {
		return err
	}
	r.changes, r.compared = audit.Compare(old, r.table), true
	if was, is := before.brief(), r.catalog.brief(); was != is {
		r.changes = append(r.changes, audit.Change{
			Effects: []audit.Effect{audit.Other}, File: append(catalogs, oldCatalogs...)[0],
			Text: fmt.Sprintf("rules per API, which are not compared one by one: %s -> %s", was, is),
		})
	}
	return nil
}

// brief says which rules these are, for a comparison; c may be nil.
func (c *checkedCatalog) brief() string {
	if c == nil {
		return "none"
	}
	return fmt.Sprintf("%s, hash %s", text.Count(c.Rules, "rule"), c.Hash)
}
