package rulefile

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"stint/internal/system"
	"stint/internal/text"
	"stint/rule"
)

// Source is one rule file: its name, for messages, and its bytes.
type Source struct {
	Name string
	Data []byte

	// Folder is where files are looked for that the rules name, lists and keys. "":
	// rules that name files are refused.
	Folder string

	// Merge lets the file add descriptors to a domain that an earlier one has begun.
	// Otherwise a domain stands in one file.
	Merge bool

	// Envoy reads the file as envoyproxy/ratelimit does: what that program accepts is
	// accepted, with a warning where this one would refuse it, and limits count as there;
	// see [rule.Rule.Tally].
	Envoy bool
}

// Parse compiles rule files to a table. On any fault it returns no table and an
// [*rule.Errors] with every fault of every file. Nothing but the bytes is read, unless a
// source has a Folder.
func Parse(sources ...Source) (*rule.Table, error) {
	c := newCompiler()
	for _, src := range sources {
		c.file(src)
	}
	c.errors.Files = c.names()
	if err := c.errors.OrNil(); err != nil {
		return nil, err
	}
	return c.finish(hashOf(slices.Concat(sources, c.files))), nil
}

// Load reads files and folders and parses them as [Parse] does. Of a folder it
// takes every *.yaml and *.yml below it, in the order of their names, but for rule
// tests (*_test.yaml) and names that begin with a dot. Links are followed, and what
// is reached twice is read once, so a mounted Kubernetes volume can be named as it
// stands.
func Load(paths ...string) (*rule.Table, error) { return LoadAs(Reading{}, paths...) }

// Reading says how files are read.
type Reading struct {
	Merge bool // see Source.Merge
	Envoy bool // see Source.Envoy
}

// LoadAs is Load for files that are read otherwise than by default.
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
	return Parse(sources...)
}

func isRuleFile(path string) bool {
	ext := filepath.Ext(path)
	return (ext == ".yaml" || ext == ".yml") && !strings.HasSuffix(strings.TrimSuffix(path, ext), "_test")
}

// hashOf returns the hash of the sources' bytes in their order.
func hashOf(sources []Source) string {
	h := sha256.New()
	for _, s := range sources {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(s.Data))))
		h.Write(s.Data)
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}
