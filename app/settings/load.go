package settings

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"stint"
	"stint/internal/config"
	"stint/internal/strictyaml"
	"stint/internal/system"
	"stint/internal/urlpath"
	"stint/rule"
	"stint/rule/catalog"
	"stint/rule/catalog/book"
	"stint/rule/rulefile"
	"stint/store/memcached"
)

// LoadCatalog loads the configured rules per API. The caller must close a book with a database.
func (c *Config) LoadCatalog() (*book.Book, error) {
	options := c.CatalogOptions()
	if c.CatalogDB != "" {
		b, err := book.Open(c.CatalogDB, options)
		if wrong, ok := errors.AsType[*book.DiskError](err); ok {
			fault := c.Fault("catalog-db", wrong.Error(), wrong.Hint)
			fault.Err = err
			return nil, fault
		}
		return b, err
	}
	b := book.New(options)
	if len(c.Catalog) == 0 {
		return b, nil
	}
	return b, b.Load(c.Catalog...)
}

// CatalogOptions returns the options of a catalog. The configuration must have been checked.
func (c *Config) CatalogOptions() catalog.Options {
	return catalog.Options{Domain: c.CatalogDomain, Paths: c.folds()}
}

// checkFold returns an error if word names no spelling of a path.
func checkFold(word string) error {
	var known []string
	for _, w := range urlpath.Words {
		if w.Name == word {
			return nil
		}
		known = append(known, w.Name)
	}
	hint := "use " + strings.Join(known, ", ")
	if near := strictyaml.Nearest(word, known); near != "" {
		hint = "is " + near + " meant?"
	}
	return config.Fault(fmt.Sprintf("unknown word %q", word), hint)
}

// folds returns CatalogFold as catalog.Paths. It must have been checked.
func (c *Config) folds() catalog.Paths {
	var o catalog.Paths
	for _, w := range urlpath.Words {
		if slices.Contains(c.CatalogFold, w.Name) {
			w.Set(&o)
		}
	}
	return o
}

// LoadRules reads the configured rules, with plans of records, and checks everything about them that could
// fail later.
func (c *Config) LoadRules(stored ...rulefile.Source) (*rule.Table, error) {
	files, err := c.ruleFiles()
	if err != nil {
		return nil, err
	}
	table, err := rulefile.LoadAs(rulefile.Reading{Merge: c.RulesMerge, Envoy: c.EnvoyEnv, Stored: stored}, files...)
	if err != nil {
		return nil, err
	}
	if err := c.checkStoreOf(table); err != nil {
		return nil, err
	}
	if c.Demo != "" {
		switch domain := table.Domain(c.Demo); {
		case domain == nil:
			return nil, c.Fault("demo", fmt.Sprintf("no rules for domain %q", c.Demo), "name a domain of the rules, or leave demo empty")
		case !domain.HasHTTP():
			return nil, c.Fault("demo", fmt.Sprintf("domain %q does not say how an HTTP request becomes descriptors", c.Demo),
				"give its file an http section, such as http: {rate_limits: [{actions: [{remote_address: {}}]}]}")
		}
	}
	return table, nil
}

// memcachedLacks is why memcached cannot be the store of rules with a coordination.
var memcachedLacks = map[rule.Coordination]string{
	rule.Leased:   "lends no units to nodes",
	rule.Eventual: "changes one key at a time, so a report of a node that was sent twice could count twice or not at all",
}

// mostLogged is the largest sliding_log that certainly fits into an item of memcached, of 1 MiB: an entry
// has up to seven bytes.
const mostLogged = 140_000

// checkStoreOf returns an error about rules that the store cannot decide.
func (c *Config) checkStoreOf(table *rule.Table) error {
	refused := &rule.Errors{Files: table.Files()}
	refuse := func(r *rule.Rule, problem, hint string) {
		again := func(e *rule.Error) bool { return e.File == r.File && e.Line == r.Line && e.Problem == problem }
		if !slices.ContainsFunc(refused.List, again) {
			refused.List = append(refused.List, &rule.Error{File: r.File, Line: r.Line, Problem: problem, Hint: hint + ", or use --store redis://HOST:PORT"})
		}
	}
	switch {
	case memcached.IsURL(c.Store):
		checkMemcached(table, refuse)
	case c.Store == "memory" && c.State == "":
		for _, r := range table.Durable() {
			refuse(r, "durable, and the store in memory has no state file", "add --state FILE, beside which a journal is kept")
		}
	}
	if len(refused.List) == 0 {
		return nil
	}
	return refused
}

// checkMemcached refuses the rules that memcached cannot decide.
func checkMemcached(table *rule.Table, refuse func(r *rule.Rule, problem, hint string)) {
	for _, r := range table.All() {
		if spec := r.Stored.Spec(); spec.Algorithm == stint.SlidingLog && spec.Requests > mostLogged {
			refuse(r, fmt.Sprintf("a sliding_log of %d requests, and the store is memcached, whose items have room for %d", spec.Requests, mostLogged), "write algorithm: sliding_window")
		}
		if why := memcachedLacks[r.Coordination]; why != "" {
			refuse(r, fmt.Sprintf("coordination: %v, and the store is memcached, which %s", r.Coordination, why), "write coordination: strict or gossip")
		}
		if r.Usage != nil {
			refuse(r, "usage or notify, and the store is memcached, which cannot write a history in the same step as a count", "leave them out")
		}
	}
	for _, r := range table.Durable() {
		refuse(r, "durable, and the store is memcached, which keeps nothing on disk", "leave it out, or use --store memory --state FILE")
	}
}

// Values of RulesFiles.
const (
	FilesYAML    = "yaml"
	FilesVisible = "visible"
	FilesAll     = "all"
)

// ruleFiles returns the files and folders to load rules from: the configured ones, or, unless
// RulesFiles is yaml, all files below those.
func (c *Config) ruleFiles() ([]string, error) {
	if c.RulesFiles == FilesYAML {
		return c.Rules, nil
	}
	files, err := system.ListFiles(c.Rules, c.RulesFiles == FilesAll)
	if err != nil {
		return nil, c.Fault("rules", err.Error(), "check the path, its permissions, and what links point to")
	}
	if len(files) == 0 && len(c.Rules) > 0 {
		return nil, c.Fault("rules", "no file in "+strings.Join(c.Rules, ", "), "put rule files there")
	}
	return files, nil
}
