package convert

import (
	"errors"
	"io"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// A node is one statement of a Caddyfile: the words of its line, and the statements in its braces.
type node struct {
	line, end int // first and last line, from 1
	words     []string
	block     []*node
	braces    bool // the statement has a block, which may be empty
	parent    *node
}

// word returns the i-th word, "" if there are fewer.
func (n *node) word(i int) string {
	if i >= len(n.words) {
		return ""
	}
	return n.words[i]
}

// parse reads a Caddyfile as a tree of statements. It expands neither imports nor variables of the
// environment, so that lines and words are those of the file.
func parse(input []byte, file string) (*node, error) {
	tokens, err := caddyfile.Tokenize(input, file)
	if errors.Is(err, io.EOF) {
		return nil, Faults{{file, 1, "the file is empty", "give the Caddyfile that has rate_limit"}}
	}
	if err != nil {
		return nil, err
	}
	root := &node{}
	at := root
	for i := 0; i < len(tokens); {
		first := i
		for i++; i < len(tokens) && tokens[i].Line <= tokens[i-1].Line+tokens[i-1].NumLineBreaks(); i++ {
		}
		line := tokens[first:i]
		for j, t := range line {
			if is(t, "{") && j != len(line)-1 || is(t, "}") && len(line) > 1 {
				return nil, Faults{{file, t.Line, "a brace with other words after or before it", "end the line after {, and write } on a line of its own"}}
			}
		}
		if is(line[0], "}") {
			at.end = line[0].Line
			if at.parent == nil {
				return nil, Faults{{file, line[0].Line, "a closing brace without its opening one", "remove it"}}
			}
			at = at.parent
			continue
		}
		n := statement(line)
		n.parent = at
		at.block = append(at.block, n)
		if n.braces {
			at = n
		}
	}
	if at != root {
		return nil, Faults{{file, at.line, "the block has no closing brace", "add a line `}`"}}
	}
	return root, nil
}

// statement returns the node of the tokens of one line.
func statement(line []caddyfile.Token) *node {
	last := line[len(line)-1]
	n := &node{line: line[0].Line, end: last.Line + last.NumLineBreaks()}
	if n.braces = is(last, "{"); n.braces {
		line = line[:len(line)-1]
	}
	for _, t := range line {
		n.words = append(n.words, t.Text)
	}
	return n
}

func is(t caddyfile.Token, brace string) bool { return t.Text == brace && !t.Quoted() }

// each calls use with the node's descendants in order, until use returns false for one: its own
// descendants are then left out.
func (n *node) each(use func(*node) bool) {
	for _, child := range n.block {
		if use(child) {
			child.each(use)
		}
	}
}

// isOptions reports whether the node is the block of global options.
func (n *node) isOptions() bool { return n.braces && len(n.words) == 0 }
