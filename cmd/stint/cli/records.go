package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"stint/cmd/stint/view"
	"stint/server/access"
)

// untilText explains ends in help texts.
const untilText = `
--until is a time such as 2030-01-31T12:00:00Z, or how long from now, such as 1h, 7d or 2w.
--why is kept in the audit trail, where stint audit show finds it.
`

func recordCommands() []Command {
	return []Command{
		{
			Name: "ban", Args: "[flags] WHO", Summary: "deny all requests of a client", Run: runBan, Flags: flagsOf(new(banOptions).flags),
			Text: "Denies all requests of a subject such as user=42, of an address or of a network. Without --until it\nstays until stint unban.\n\n" +
				"  stint ban --until 1h --why 'ticket 7' 192.0.2.0/24\n" + untilText + adminTextOf("support or higher; write with --force"),
		},
		{
			Name: "unban", Args: "[flags] WHO", Summary: "end a ban now", Run: runUnban, Flags: flagsOf(new(whyOptions).flags),
			Text: "Ends the ban of a subject, an address or a network. WHO is written as stint bans shows it.\n\n  stint unban user=42\n" + adminTextFor(access.Support),
		},
		{
			Name: "bans", Args: "[flags]", Summary: "list the bans", Run: lists("bans", "/v1/bans", view.Bans, (*listOptions).flags), Flags: flagsOf(new(listOptions).flags),
			Text: "Lists the bans, in the order of their names.\n\n  stint bans\n" + adminTextFor(access.Read),
		},
		{
			Name: "override", Args: "[flags] WHO", Summary: "give a client other numbers for a rule", Run: runOverride, Flags: flagsOf(new(overrideOptions).flags),
			Text: "Gives a subject such as user=42, or all subjects that match a pattern such as 'user=test-*', other\n" +
				"numbers for one rule. Numbers that are not given stay those of the rule. --delete ends an override.\n\n" +
				"  stint override --rule api/user --requests 1000 --until 7d user=42\n" + untilText + adminTextOf("support or higher, for an override with --until; otherwise write"),
		},
		{
			Name: "overrides", Args: "[flags]", Summary: "list the overrides", Run: lists("overrides", "/v1/overrides", view.Overrides, (*listOptions).overrideFlags), Flags: flagsOf(new(listOptions).overrideFlags),
			Text: "Lists the overrides, in the order of their subjects and patterns.\n\n  stint overrides --rule api/user\n" + adminTextFor(access.Read),
		},
		keysCommand(), plansCommand(), grantsCommand(), auditCommand(), recordsCommand(), webhooksCommand(),
	}
}

// options are the flags of a command beside those of adminCall.
type flagger func(c *adminCall, name string) *pflag.FlagSet

// flagsOf returns flags as the one group of a command.
func flagsOf(of flagger) func() []FlagGroup {
	return func() []FlagGroup { return OneGroup(of(new(adminCall), "")) }
}

// prepare parses the flags of a command that takes exactly n arguments, which are called what.
func prepare(flags *pflag.FlagSet, args []string, n int, what, example string) error {
	if err := Parse(flags, args); err != nil {
		return err
	}
	if n == 0 {
		return noArguments(flags)
	}
	if flags.NArg() != n {
		return Usage(flags.Name()+" takes "+what, "write for example "+example)
	}
	return nil
}

// whyOptions have the reason of a change.
type whyOptions struct{ why string }

func (o *whyOptions) reason() textFlag {
	return textFlag{&o.why, "why", "`REASON` for the audit trail"}
}

func (o *whyOptions) flags(c *adminCall, name string) *pflag.FlagSet {
	return c.textFlags(name, o.reason())
}

// change sends a change with a body in JSON, or with bytes as they are, and returns the answer.
func (c *adminCall) change(ctx context.Context, method, path string, body any, why string) ([]byte, error) {
	q := call{method: method, path: path, timeout: adminTimeout, header: map[string]string{"X-Stint-Why": why}}
	if body != nil {
		text, asIs := body.([]byte)
		if !asIs {
			var err error
			if text, err = json.Marshal(body); err != nil {
				return nil, err
			}
		}
		q.body, q.header["Content-Type"] = strings.NewReader(string(text)), "application/json"
	}
	status, text, err := c.read(ctx, q)
	if err == nil && status/100 != 2 {
		err = refused(status, text)
	}
	return text, err
}

// showPut prints a record that was written, with the warning of the service.
func (c *adminCall) showPut(s Streams, text []byte, as func(w io.Writer, r *view.Record)) error {
	var r struct {
		view.Record
		Warning string
	}
	err := c.show(s.Out, text, &r, func(w io.Writer) { as(w, &r.Record) })
	if r.Warning != "" {
		fmt.Fprintln(s.Err, "warning: "+r.Warning)
	}
	return err
}

// done prints the result of a change without an answer.
func (c *adminCall) done(out io.Writer, text string) error {
	if !c.json {
		_, err := fmt.Fprintln(out, text)
		return err
	}
	return nil
}

// whom splits what a ban is about into the fields of its body.
func whom(who string) (field string) {
	switch {
	case strings.Contains(who, "="):
		return "subject"
	case strings.Contains(who, "/"):
		return "network"
	}
	return "address"
}

// banOptions are the flags of stint ban.
type banOptions struct {
	until, why string
	force      bool
}

// texts returns the flags of a record that can end, which is called what.
func (o *banOptions) texts(what string) []textFlag {
	return []textFlag{
		{&o.until, "until", "`TIME` when it ends (default: it has no end)"},
		{&o.why, "why", "`REASON`, which is kept with the " + what},
	}
}

func (o *banOptions) flags(c *adminCall, name string) *pflag.FlagSet {
	flags := c.textFlags(name, o.texts("ban")...)
	flags.BoolVar(&o.force, "force", false, "ban even this machine, a trusted proxy or a very large network")
	return flags
}

const whoExample = "stint ban --until 1h user=42, or an address or a network such as 192.0.2.0/24"

func runBan(ctx context.Context, s Streams, args []string) error {
	var c adminCall
	var o banOptions
	flags := o.flags(&c, "ban")
	if err := prepare(flags, args, 1, "whom to ban", whoExample); err != nil {
		return err
	}
	body := map[string]any{whom(flags.Arg(0)): flags.Arg(0), "until": o.until, "why": o.why, "force": o.force}
	text, err := c.change(ctx, http.MethodPut, "/v1/bans", body, "")
	if err != nil {
		return err
	}
	var r view.Record
	return c.show(s.Out, text, &r, func(w io.Writer) { fmt.Fprintf(w, "banned: %s, %s\n", r.Who(), r.Lasts()) })
}

func runUnban(ctx context.Context, s Streams, args []string) error {
	var c adminCall
	var o whyOptions
	flags := o.flags(&c, "unban")
	if err := prepare(flags, args, 1, "whose ban to end", "stint unban user=42"); err != nil {
		return err
	}
	if _, err := c.change(ctx, http.MethodDelete, "/v1/bans/"+url.PathEscape(flags.Arg(0)), nil, o.why); err != nil {
		return err
	}
	return c.done(s.Out, "unbanned: "+flags.Arg(0))
}

// listOptions are the flags of a list.
type listOptions struct {
	limit         int
	after         string
	subject, rule string
}

func (o *listOptions) flags(c *adminCall, name string) *pflag.FlagSet {
	flags := c.flagSet(name)
	flags.IntVar(&o.limit, "limit", 100, "print at most `N` of them, up to 1000")
	return texts(flags, textFlag{&o.after, "after", "begin behind `NAME`, the \"next\" of --json"})
}

func (o *listOptions) subjectFlags(c *adminCall, name string) *pflag.FlagSet {
	return texts(o.flags(c, name), textFlag{&o.subject, "subject", "only those of `KEY=VALUE`"})
}

func (o *listOptions) overrideFlags(c *adminCall, name string) *pflag.FlagSet {
	return texts(o.subjectFlags(c, name), textFlag{&o.rule, "rule", "only those of the rule `NAME`"})
}

// query returns the query of parameters; empty values are left out.
func query(pairs ...string) string {
	values := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			values.Set(pairs[i], pairs[i+1])
		}
	}
	return values.Encode()
}

// list prints one page of records in columns.
func (o *listOptions) list(ctx context.Context, s Streams, c *adminCall, path string, as view.Columns) error {
	path += "?" + query("limit", strconv.Itoa(o.limit), "after", o.after, "subject", o.subject, "rule", o.rule)
	text, err := c.get(ctx, path)
	if err != nil {
		return err
	}
	var page view.Page
	return c.show(s.Out, text, &page, func(w io.Writer) { page.Print(w, as) })
}

// lists returns the function of a command that prints one page of records.
func lists(name, path string, as view.Columns, flags func(*listOptions, *adminCall, string) *pflag.FlagSet) func(context.Context, Streams, []string) error {
	return func(ctx context.Context, s Streams, args []string) error {
		var c adminCall
		var o listOptions
		if err := prepare(flags(&o, &c, name), args, 0, "", ""); err != nil {
			return err
		}
		return o.list(ctx, s, &c, path, as)
	}
}

// overrideOptions are the flags of stint override.
type overrideOptions struct {
	banOptions
	rule, per       string
	requests, burst uint32
	unlimited, end  bool
}

func (o *overrideOptions) flags(c *adminCall, name string) *pflag.FlagSet {
	flags := c.textFlags(name, textFlag{&o.rule, "rule", "`NAME` of the rule, as stint limits shows it"})
	flags.Uint32Var(&o.requests, "requests", 0, "`N` requests")
	texts(flags, textFlag{&o.per, "per", "`DURATION` of the limit, such as 1m"})
	flags.Uint32Var(&o.burst, "burst", 0, "`N` requests at once")
	flags.BoolVar(&o.unlimited, "unlimited", false, "no limit at all")
	texts(flags, o.texts("override")...)
	flags.BoolVar(&o.end, "delete", false, "end the override now")
	return flags
}

func runOverride(ctx context.Context, s Streams, args []string) error {
	var c adminCall
	var o overrideOptions
	flags := o.flags(&c, "override")
	const example = "stint override --rule api/user --requests 1000 --until 7d user=42"
	if err := prepare(flags, args, 1, "one subject or pattern", example); err != nil {
		return err
	}
	who := flags.Arg(0)
	if o.rule == "" {
		return Usage("--rule is missing", "write for example "+example)
	}
	if o.end {
		for _, number := range []string{"requests", "per", "burst", "unlimited", "until"} {
			if flags.Changed(number) {
				return Usage("--delete is given together with --"+number, "leave out --delete to change the override, or --"+number+" to end it")
			}
		}
		if _, err := c.change(ctx, http.MethodDelete, "/v1/overrides/"+url.PathEscape(who)+"/"+url.PathEscape(o.rule), nil, o.why); err != nil {
			return err
		}
		return c.done(s.Out, "deleted: "+who+" has the numbers of "+o.rule)
	}
	field := "subject"
	if strings.Contains(who, "*") {
		field = "pattern"
	}
	text, err := c.change(ctx, http.MethodPut, "/v1/overrides", map[string]any{
		field: who, "rule": o.rule, "requests": o.requests, "per": o.per, "burst": o.burst, "unlimited": o.unlimited, "until": o.until, "why": o.why,
	}, "")
	if err != nil {
		return err
	}
	return c.showPut(s, text, func(w io.Writer, r *view.Record) {
		fmt.Fprintf(w, "override: %s of %s: %s, %s\n", r.Who(), r.Rule, r.Numbers(), r.Lasts())
	})
}

// columns returns a writer that aligns columns.
func columns(out io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(view.Fit(out), 0, 0, 2, ' ', 0)
}
