package denial

import (
	"encoding/json"
	"errors"
	"fmt"
	htmltemplate "html/template"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"
	"time"
)

const (
	jsonType = "application/json"
	htmlType = "text/html; charset=utf-8"
)

// view is the data of a template, made of Numbers.
type view struct {
	Rule       string
	Limit      int64
	Remaining  int64
	RetryAfter seconds
	ResetAfter seconds
	Renewal    string // RFC 3339 in UTC, "" for never
	Never      bool   // true if waiting does not help
}

// known are the field names of view.
var known = []string{"Rule", "Limit", "Remaining", "RetryAfter", "ResetAfter", "Renewal", "Never"}

func (n *Numbers) view() *view {
	v := &view{
		Rule: n.Rule, Limit: n.Limit, Remaining: n.Remaining,
		RetryAfter: roundUp(n.RetryAfter), ResetAfter: roundUp(n.ResetAfter), Never: n.RetryAfter == Never,
	}
	if !n.Renewal.IsZero() {
		v.Renewal = n.Renewal.UTC().Format(time.RFC3339)
	}
	return v
}

// seconds is a duration in whole seconds; math.MaxInt64 means never.
type seconds int64

const never seconds = math.MaxInt64

func roundUp(d time.Duration) seconds {
	if d == Never {
		return never
	}
	s := d / time.Second
	if d%time.Second > 0 {
		s++
	}
	return seconds(s)
}

// String returns the number, or the word never.
func (s seconds) String() string {
	if s == never {
		return "never"
	}
	return strconv.FormatInt(int64(s), 10)
}

// MarshalJSON returns the number, or null for never.
func (s seconds) MarshalJSON() ([]byte, error) {
	if s == never {
		return []byte("null"), nil
	}
	return strconv.AppendInt(nil, int64(s), 10), nil
}

// samples are unusual numbers with which each template is executed once.
var samples = []Numbers{
	{Rule: "a \"rule\" <of> \\ & 'more'\n\u2028{{}}", Limit: 100, RetryAfter: 1500 * time.Millisecond, ResetAfter: time.Hour, Renewal: time.Unix(1767225600, 0)},
	{Rule: "r", Limit: 1, Remaining: 1, RetryAfter: Never, ResetAfter: Never},
	{},
}

// newJSON parses a JSON template. Each value in it is escaped as inside a JSON string, which does
// not change numbers.
func newJSON(text string) (executor, error) {
	t, err := template.New("json").Funcs(template.FuncMap{escaper: escapeJSON}).Parse(text)
	if err != nil {
		return nil, err
	}
	c := checker{escape: true}
	return t, c.check(t.Tree, len(t.Templates()))
}

// newHTML parses an HTML template. Each value is escaped as its place in the page requires.
func newHTML(text string) (executor, error) {
	t, err := htmltemplate.New("html").Parse(text)
	if err != nil {
		return nil, err
	}
	return t, new(checker).check(t.Tree, len(t.Templates()))
}

// try executes the body with the samples.
func (d *Denial) try() error {
	for _, n := range samples {
		if _, err := d.AppendBody(nil, n); errors.Is(err, errNotJSON) {
			return d.explain(n)
		} else if err != nil {
			return errors.Unwrap(err)
		}
	}
	return nil
}

// explain returns where a body is not valid JSON.
func (d *Denial) explain(n Numbers) error {
	var b strings.Builder
	if err := d.body.Execute(&b, n.view()); err != nil {
		return err
	}
	dec := json.NewDecoder(strings.NewReader(b.String()))
	var body any
	err := dec.Decode(&body)
	why := "more follows after its end"
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		why = "it ends too early"
	case err != nil:
		why = err.Error()
	}
	return fmt.Errorf("%w: %s", errNotJSON, why)
}

// escaper is the name of the function that escapes each value of a JSON template.
const escaper = "_json"

// escapeJSON returns a value as it appears inside a JSON string, without the quotes.
func escapeJSON(value any) (string, error) {
	b, err := json.Marshal(value)
	if err == nil && b[0] == '"' {
		b = b[1 : len(b)-1]
	}
	return string(b), err
}

// functions are the functions that templates may call: comparisons.
var functions = []string{"and", "or", "not", "eq", "ne", "lt", "le", "gt", "ge"}

// checker walks a template and allows only values and if. Without the other features no template
// runs long or produces a large body.
type checker struct {
	escape bool // append the escaper to each value
	err    error
}

func (c *checker) check(tree *parse.Tree, templates int) error {
	switch {
	case templates > 1:
		c.fail("{{define}} and {{block}}")
	case tree != nil:
		c.list(tree.Root)
	}
	return c.err
}

func (c *checker) fail(what string) {
	if c.err == nil {
		c.err = fmt.Errorf("it contains %s, which a denial does not allow", what)
	}
}

func (c *checker) list(l *parse.ListNode) {
	if l == nil {
		return
	}
	for _, n := range l.Nodes {
		switch n := n.(type) {
		case *parse.TextNode, *parse.CommentNode:
		case *parse.ActionNode:
			c.pipe(n.Pipe)
			if c.escape {
				name := parse.NewIdentifier(escaper).SetPos(n.Pos)
				n.Pipe.Cmds = append(n.Pipe.Cmds, &parse.CommandNode{NodeType: parse.NodeCommand, Pos: n.Pos, Args: []parse.Node{name}})
			}
		case *parse.IfNode:
			c.pipe(n.Pipe)
			c.list(n.List)
			c.list(n.ElseList)
		default:
			first, _, _ := strings.Cut(n.String(), "}}")
			c.fail(first + "}}")
		}
	}
}

func (c *checker) pipe(p *parse.PipeNode) {
	if len(p.Decl) > 0 {
		c.fail(p.String())
	}
	for _, command := range p.Cmds {
		for _, arg := range command.Args {
			switch arg := arg.(type) {
			case *parse.FieldNode:
				if len(arg.Ident) > 1 || !slices.Contains(known, arg.Ident[0]) {
					c.fail(arg.String())
				}
			case *parse.IdentifierNode:
				if !slices.Contains(functions, arg.Ident) {
					c.fail("the function " + arg.Ident)
				}
			case *parse.PipeNode:
				c.pipe(arg)
			case *parse.NumberNode, *parse.StringNode, *parse.BoolNode:
			default:
				c.fail(arg.String())
			}
		}
	}
}
