package rulefile

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"stint/internal/system"
	"stint/internal/text"
	"stint/rule"
)

// Source is one rule file: its name, for messages, and its content.
type Source struct {
	Name string
	Data []byte

	// Folder is the folder of the list and key files that the rules refer to. "": such rules are
	// refused.
	Folder string

	// Merge lets the file extend a domain that an earlier file began. Otherwise each domain must
	// be in one file.
	Merge bool

	// Envoy reads the file as envoyproxy/ratelimit does: it accepts what that program accepts,
	// with a warning where Stint would refuse it, and its limits count as they do there; see
	// [rule.Rule.Tally].
	Envoy bool

	// Stored is set for a plan that is a record: the source is an object `plans` with this plan alone.
	Stored bool
}

// StoredPlan returns the source of a plan that is a record, with its limits as JSON.
func StoredPlan(source, plan string, limits []byte) Source {
	return Source{Name: source, Data: fmt.Appendf(nil, `{"plans": {%q: %s}}`, plan, limits), Stored: true}
}

// Parse makes a table of rule files. If there is any fault it returns no table and a
// [*rule.Errors] with every fault of every file. It reads no other files unless a source has a
// Folder.
func Parse(sources ...Source) (*rule.Table, error) {
	c := newCompiler()
	files := make([]*fileCompiler, len(sources))
	for i, src := range sources {
		files[i] = c.open(src)
	}
	c.checkPlans()
	for _, f := range files {
		c.file(f)
	}
	for _, f := range files {
		c.faults(f)
	}
	c.errors.Files = c.names()
	if err := c.errors.OrNil(); err != nil {
		return nil, err
	}
	table := c.finish(hashOf(slices.Concat(sources, c.files)))
	if c.errors.List = table.CheckShown(); len(c.errors.List) > 0 {
		return nil, &c.errors
	}
	return table, nil
}

// Load reads files and folders as [Parse] does. Of a folder it takes every *.yaml and *.yml file
// below it, ordered by name, but no rule tests (*_test.yaml) and no names that begin with a dot.
// It follows links and reads each file once, so a mounted Kubernetes volume works.
func Load(paths ...string) (*rule.Table, error) { return LoadAs(Reading{}, paths...) }

// Reading has options for LoadAs.
type Reading struct {
	Merge bool // see Source.Merge
	Envoy bool // see Source.Envoy

	// Stored are plans of records, see Source.Stored.
	Stored []Source
}

// LoadAs is Load with options.
func LoadAs(how Reading, paths ...string) (*rule.Table, error) {
	var sources []Source
	var faults rule.Errors
	fail := func(path, problem, hint string, err error) {
		faults.List = append(faults.List, &rule.Error{File: path, Problem: problem, Hint: hint, Err: err})
	}
	finder := system.FileFinder{Keep: isRuleFile}
	for _, path := range paths {
		files, found, errs := finder.Find(path)
		for _, wrong := range errs {
			fail(wrong.Path, wrong.Problem, wrong.Hint, wrong.Err)
		}
		if !found && len(errs) == 0 {
			fail(path, "no rule file here", "name a file, or a folder that holds *.yaml or *.yml files", nil)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				fail(file, "cannot read it: "+text.Cause(err), "check that the service may read it and has descriptors to spare", err)
				continue
			}
			sources = append(sources, Source{Name: file, Data: data, Folder: filepath.Dir(file), Merge: how.Merge, Envoy: how.Envoy})
		}
	}
	if err := faults.OrNil(); err != nil {
		return nil, err
	}
	return Parse(append(sources, how.Stored...)...)
}

func isRuleFile(path string) bool {
	ext := filepath.Ext(path)
	return (ext == ".yaml" || ext == ".yml") && !strings.HasSuffix(strings.TrimSuffix(path, ext), "_test")
}

// hashOf returns the hash of the contents of the sources, in order.
func hashOf(sources []Source) string {
	h := sha256.New()
	for _, s := range sources {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(s.Data))))
		h.Write(s.Data)
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}
