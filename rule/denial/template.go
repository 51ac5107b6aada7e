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

// view is what a template sees of Numbers.
type view struct {
	Rule       string
	Limit      int64
	Remaining  int64
	RetryAfter seconds
	ResetAfter seconds
	Renewal    string // RFC 3339 in UTC, "" for never
	Never      bool   // waiting does not help
}

// known are the names of a view.
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

// seconds is a length of time in whole seconds, and never the most there is.
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

// samples are the numbers that a template is tried with: unlikely ones.
var samples = []Numbers{
	{Rule: "a \"rule\" <of> \\ & 'more'\n\u2028{{}}", Limit: 100, RetryAfter: 1500 * time.Millisecond, ResetAfter: time.Hour, Renewal: time.Unix(1767225600, 0)},
	{Rule: "r", Limit: 1, Remaining: 1, RetryAfter: Never, ResetAfter: Never},
	{},
}

// newJSON makes a body of JSON. Whatever a template puts in is escaped as in the
// middle of a text of JSON, which leaves numbers as they are.
func newJSON(text string) (executor, error) {
	t, err := template.New("json").Funcs(template.FuncMap{escaper: escapeJSON}).Parse(text)
	if err != nil {
		return nil, err
	}
	c := checker{escape: true}
	return t, c.check(t.Tree, len(t.Templates()))
}

// newHTML makes a body of HTML, escaped by where in the page a value stands.
func newHTML(text string) (executor, error) {
	t, err := htmltemplate.New("html").Parse(text)
	if err != nil {
		return nil, err
	}
	return t, new(checker).check(t.Tree, len(t.Templates()))
}

// try makes the body with samples.
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

// explain says where a body is no JSON.
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

// escaper is the function that ends whatever a template of JSON puts in.
const escaper = "_json"

// escapeJSON returns a value as it stands inside a text of JSON, without the quotes.
func escapeJSON(value any) (string, error) {
	b, err := json.Marshal(value)
	if err == nil && b[0] == '"' {
		b = b[1 : len(b)-1]
	}
	return string(b), err
}

// functions are those that templates may call: the ones that compare.
var functions = []string{"and", "or", "not", "eq", "ne", "lt", "le", "gt", "ge"}

// checker walks a template. It knows values and if: all else that templates can do
// is of no use in a denial, and without it none takes long or grows large.
type checker struct {
	escape bool // add the escaper
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
		c.err = fmt.Errorf("it holds %s, which a denial does not know", what)
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
