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

// splitCatalogs takes the files of rules per API out of the arguments of check. It recognizes them
// by the end of their names, and those of ratelimiter4j by their contents.
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

// checkedCatalog is the report on rules per API without faults.
type checkedCatalog struct {
	Rules int    `json:"rules"`
	Files int    `json:"files"`
	Hash  string `json:"hash"` // equal to the hash that a service with these rules shows
}

// String returns the line of the text report.
func (c *checkedCatalog) String() string {
	return fmt.Sprintf("ok: %s per API in %s, hash %s", text.Count(c.Rules, "rule"), text.Count(c.Files, "file"), c.Hash)
}

// checkCatalogs checks files of rules per API, all together as the service would load them. It
// returns nil without files.
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

// compare finds the changes between the rules of --against and the rules that were read. It
// compares rules per API as a whole, by their hashes; catalogs are the files of the new ones.
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
	r.changes, r.compared = append(audit.Compare(old, r.table), planChanges(old, r.table, r.options.export)...), true
	if was, is := before.brief(), r.catalog.brief(); was != is {
		r.changes = append(r.changes, audit.Change{
			Effects: []audit.Effect{audit.Other}, File: append(catalogs, oldCatalogs...)[0],
			Text: fmt.Sprintf("rules per API, which are not compared one by one: %s -> %s", was, is),
		})
	}
	return nil
}

// brief returns the count and hash of the rules, for a comparison; c may be nil.
func (c *checkedCatalog) brief() string {
	if c == nil {
		return "none"
	}
	return fmt.Sprintf("%s, hash %s", text.Count(c.Rules, "rule"), c.Hash)
}
