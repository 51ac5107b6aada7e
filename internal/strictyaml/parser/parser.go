// Package parser reads YAML into the documents of package strictyaml. It is apart from them so
// that a program which only holds what was read, such as rules, does not link a YAML library.
package parser

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"stint/internal/strictyaml"
)

// Parse reads data as one YAML document. What is wrong with it stands in its faults.
func Parse(data []byte) *strictyaml.Document {
	return parse(data, strictyaml.NewDocument)
}

// ParseLoose reads data as readers of YAML 1.1 do that look at little, for files that were
// written for one; see [strictyaml.NewLooseDocument]. Of several documents only the first is
// read.
func ParseLoose(data []byte, words ...string) *strictyaml.Document {
	return parse(data, func(root *strictyaml.Node) *strictyaml.Document {
		return strictyaml.NewLooseDocument(root, words...)
	})
}

func parse(data []byte, newDocument func(root *strictyaml.Node) *strictyaml.Document) *strictyaml.Document {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var first, second yaml.Node
	err := dec.Decode(&first)
	switch {
	case errors.Is(err, io.EOF):
		return newDocument(nil)
	case err != nil:
		doc := newDocument(nil)
		fail(doc, err, data)
		return doc
	}
	var root *strictyaml.Node
	if len(first.Content) > 0 {
		root = converter{}.node(first.Content[0])
	}
	doc := newDocument(root)
	switch err := dec.Decode(&second); {
	case errors.Is(err, io.EOF):
	case doc.Loose():
		doc.Note(max(second.Line, doc.Root().Line()+1), "a second document in one file is not read", "remove it, or put it in a file of its own")
	case err == nil:
		doc.Fail(second.Line, "a second document in one file", "remove the line `---`, or put the second document in a file of its own")
	default:
		fail(doc, err, data)
	}
	return doc
}

// fail reports an error of the YAML library.
func fail(doc *strictyaml.Document, err error, data []byte) {
	f := syntaxFault(err, data)
	doc.Fail(f.Line, f.Problem, f.Hint)
}

// converter has the nodes that are converted already, by those of the library: an alias may
// point to any of them, also to one that it stands in.
type converter map[*yaml.Node]*strictyaml.Node

var kinds = map[yaml.Kind]strictyaml.Kind{
	yaml.ScalarNode: strictyaml.Scalar, yaml.SequenceNode: strictyaml.Sequence,
	yaml.MappingNode: strictyaml.Mapping, yaml.AliasNode: strictyaml.Alias,
}

func (c converter) node(n *yaml.Node) *strictyaml.Node {
	if n == nil || c[n] != nil {
		return c[n]
	}
	made := &strictyaml.Node{Kind: kinds[n.Kind], Text: n.Value, Line: n.Line, Native: n}
	c[n] = made
	if n.Kind == yaml.ScalarNode {
		made.Tag = n.ShortTag()
		made.Plain = n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.TaggedStyle) == 0
	}
	made.Target = c.node(n.Alias)
	if len(n.Content) > 0 {
		made.Content = make([]*strictyaml.Node, len(n.Content))
	}
	for i, child := range n.Content {
		made.Content[i] = c.node(child)
	}
	return made
}

var (
	yamlLine  = regexp.MustCompile(`^yaml: (?:line (\d+): )?(?s:(.*))$`)
	joinedRow = regexp.MustCompile(`^\s*(?:- )?[A-Za-z_]+:\s+(?:[^\s#"'{\[]+\s+)?(?:- )?[A-Za-z_]+:(?:\s|$)`)
	bareStar  = regexp.MustCompile(`(?:^|[:\-,\[{]\s*)\*(?:[^A-Za-z0-9_\-]|$)`)
	noAnchor  = regexp.MustCompile(`unknown anchor '(.*)' referenced`)
)

// syntaxFault puts the words of the YAML library into ours.
func syntaxFault(err error, data []byte) strictyaml.Fault {
	rows := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	f := strictyaml.Fault{Line: 1, Problem: err.Error(), Hint: "check the indentation, the quotes and the brackets from this line on"}
	if m := yamlLine.FindStringSubmatch(f.Problem); m != nil {
		f.Problem = strings.TrimSpace(m[2])
		if m[1] != "" {
			f.Line, _ = strconv.Atoi(m[1])
		}
	}
	f.Line = min(f.Line, len(rows))
	if m := noAnchor.FindStringSubmatch(f.Problem); m != nil {
		at := slices.IndexFunc(rows, func(row string) bool { return strings.Contains(row, "*"+m[1]) })
		return strictyaml.Fault{Line: max(at, 0) + 1, Problem: fmt.Sprintf("*%s refers to nothing", m[1]), Hint: fmt.Sprintf("mark what it stands for with &%s, above this line; a value that begins with a star needs quotes", m[1])}
	}
	// The library counts the line of some faults from zero.
	for i := max(f.Line-1, 0); i <= min(f.Line, len(rows)-1); i++ {
		if joinedRow.MatchString(rows[i]) {
			return strictyaml.Fault{Line: i + 1, Problem: "several words stand on one line", Hint: "the line breaks got lost: give each `word: value` a line of its own, indented as it belongs; a text that holds a colon and a blank needs quotes"}
		}
		if bareStar.MatchString(rows[i]) {
			return strictyaml.Fault{Line: i + 1, Problem: "a star outside quotes", Hint: "put the text in quotes, such as \"*\" or \"*.png\""}
		}
		if strings.HasPrefix(strings.TrimLeft(rows[i], " "), "\t") {
			return strictyaml.Fault{Line: i + 1, Problem: "a tab in the indentation", Hint: "indent with spaces; YAML allows no tabs there"}
		}
	}
	f.Problem = "not YAML: " + f.Problem
	return f
}
