package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"stint/server/access"
)

func whyCommand() Command {
	return Command{
		Name: "why", Args: "[flags] KEY=VALUE...", Summary: "explain what a client would get, and what would change it", Run: runWhy, Flags: flagsText(new(whyFlags).flags),
		Text: "Explains what a request of a client would get now: the rules that it meets, how much of each limit\n" +
			"its key has used before and after it, when it would pass, and the smallest change that would let it\n" +
			"pass. It takes nothing.\n" +
			keyText + "  stint why --domain api user=42\n  stint why --request-id 3f9a11c2\n\n" +
			"--request-id finds only requests that the log of denials kept, which is a sample.\n" + adminTextFor(access.Read),
	}
}

// whyFlags are the flags of stint why.
type whyFlags struct {
	request string
	cost    uint32
}

func (o *whyFlags) flags(c *adminCall, name string) *pflag.FlagSet {
	flags := c.keyFlags(name)
	texts(flags, textFlag{&o.request, "request-id", "`ID` of a denied request, in place of a client"})
	flags.Uint32Var(&o.cost, "cost", 1, "units that the request asks for")
	return flags
}

// whyState is the state of a key.
type whyState struct {
	Limit, Used  *int64
	ResetAfterMS int64 `json:"reset_after_ms"`
}

func (s *whyState) String() string {
	if s.Limit == nil {
		return "-"
	}
	return fmt.Sprintf("%d of %d", *s.Used, *s.Limit)
}

// whyAnswer is the answer of POST /v1/why.
type whyAnswer struct {
	Domain  string
	Allowed bool
	Reason  string
	WaitMS  int64 `json:"wait_ms"`
	Barred  *struct {
		List   string
		Exempt bool
		Ban    string
	}
	Limits []struct {
		Rule                                         string
		Config                                       shownLimit
		Override                                     *struct{ Target string }
		Coordination                                 string
		Own, Degraded, Shadow, Allowed, Denies, Over bool
		OnStoreFailure                               string `json:"on_store_failure"`
		Penalized                                    struct{ Until *time.Time }
		Before, After                                whyState
		RetryAfterMS                                 int64 `json:"retry_after_ms"`
	}
	Smallest []struct {
		Kind, Rule, Text string
		Override         *struct{ Requests, Burst uint32 }
	}
}

func runWhy(ctx context.Context, s Streams, args []string) error {
	var c adminCall
	var o whyFlags
	flags := o.flags(&c, "why")
	if err := Parse(flags, args); err != nil {
		return err
	}
	if o.request != "" {
		if flags.NArg() > 0 || c.body != "" || c.domain != "" {
			return Usage("--request-id is given together with a client", "give only one of them")
		}
		return o.find(ctx, s, &c)
	}
	c.cost = o.cost
	body, err := c.question(s, flags.Args())
	if err != nil {
		return err
	}
	text, err := c.change(ctx, http.MethodPost, "/v1/why", body, "")
	if err != nil {
		return err
	}
	var answer whyAnswer
	return c.show(s.Out, text, &answer, func(w io.Writer) { answer.print(w, &c, flags.Args()) })
}

// print prints the answer about a client.
func (a *whyAnswer) print(w io.Writer, c *adminCall, client []string) {
	switch {
	case a.Barred != nil && a.Barred.Exempt:
		fmt.Fprintf(w, "passes: the list %s exempts it\n", a.Barred.List)
	case a.Barred != nil:
		fmt.Fprintf(w, "denied (%s) by %s; %s\n", a.Reason, a.Barred.List, waitWords(a.WaitMS))
	case a.Allowed && len(a.Limits) == 0:
		fmt.Fprintln(w, "passes: no limit applies to this client")
	case a.Allowed:
		fmt.Fprintln(w, "passes")
	default:
		fmt.Fprintf(w, "denied (%s); %s\n", a.Reason, waitWords(a.WaitMS))
	}
	for _, change := range a.Smallest {
		fmt.Fprintf(w, "smallest change\t%s\t%s\n", orDash(change.Rule), change.Text)
		if command := a.command(change.Kind, change.Rule, change.Override, c.domain, client); command != "" {
			fmt.Fprintf(w, "by\t\t%s\n", command)
		}
	}
	if len(a.Limits) == 0 {
		return
	}
	fmt.Fprintln(w, "\nRULE\tBEFORE\tAFTER\tRETRY\tMODE\tLIMIT")
	for i := range a.Limits {
		l := &a.Limits[i]
		after, retry := l.After.String(), "-"
		if !l.Allowed {
			after, retry = "denied", retryWords(l.RetryAfterMS)
		}
		mode := l.Coordination
		switch {
		case l.Degraded:
			mode += ", store away: " + l.OnStoreFailure
		case l.Own:
			mode += ", decided here"
		}
		notes := []string{l.Config.String()}
		for _, n := range []struct {
			holds bool
			text  string
		}{
			{l.Denies, "denies"}, {l.Shadow, "shadow"}, {l.Over, "over"}, {l.Override != nil, "override"}, {l.Penalized.Until != nil, "penalty"},
		} {
			if n.holds {
				notes = append(notes, "("+n.text+")")
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", orDash(l.Rule), &l.Before, after, retry, mode, strings.Join(notes, " "))
	}
}

// command returns the command that makes a change for a client of one entry, "" if none does.
func (a *whyAnswer) command(kind, rule string, numbers *struct{ Requests, Burst uint32 }, domain string, client []string) string {
	if len(client) == 0 {
		return "" // the client is in a file
	}
	last := quoted(client[len(client)-1])
	switch {
	case numbers != nil:
		words := ""
		if numbers.Requests > 0 {
			words += fmt.Sprintf(" --requests %d", numbers.Requests)
		}
		if numbers.Burst > 0 {
			words += fmt.Sprintf(" --burst %d", numbers.Burst)
		}
		return "stint override --rule " + quoted(rule) + words + " " + last
	case kind == "unban" && a.Barred.Ban == "subject":
		return "stint unban " + last
	case kind == "reset":
		var entries []string
		for _, e := range client {
			entries = append(entries, quoted(e))
		}
		return "stint reset --domain " + quoted(domain) + " " + strings.Join(entries, " ")
	}
	return ""
}

// quoted returns a word for a shell.
func quoted(word string) string {
	if strings.ContainsAny(word, " \t\n'\"\\$`*?[](){}<>|&;!#~") {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return word
}

func waitWords(ms int64) string {
	if ms < 0 {
		return "it never passes as things are"
	}
	return "it passes after " + retryWords(ms)
}

func retryWords(ms int64) string {
	if ms < 0 {
		return "never"
	}
	d := time.Duration(ms) * time.Millisecond
	if d > time.Minute {
		d = (d + time.Second - 1).Truncate(time.Second) // rounded up, as waits are
	}
	return d.String()
}

// find prints what the log of denials has about a request.
func (o *whyFlags) find(ctx context.Context, s Streams, c *adminCall) error {
	text, err := c.get(ctx, "/v1/why?request_id="+url.QueryEscape(o.request))
	if err != nil {
		return err
	}
	var answer struct {
		Denials []struct {
			At                        time.Time
			Domain, Rule, Key, Reason string
			Limit                     int64
			RetryAfter                time.Duration `json:"retry_after_ns"`
			Degraded                  bool
			Config                    *shownLimit
		}
	}
	return c.show(s.Out, text, &answer, func(w io.Writer) {
		fmt.Fprintln(w, "AT\tDOMAIN\tRULE\tREASON\tRETRY\tKEY\tLIMIT NOW")
		for _, d := range answer.Denials {
			retry, limit := d.RetryAfter.String(), "-"
			if d.RetryAfter == 1<<63-1 {
				retry = "never"
			}
			if d.Config != nil {
				limit = d.Config.String()
			}
			if d.Degraded {
				d.Reason += " (the store did not answer)"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", d.At.UTC().Format(time.RFC3339), d.Domain, orDash(d.Rule), d.Reason, retry, d.Key, limit)
		}
	})
}
