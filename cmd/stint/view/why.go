package view

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Limit has the numbers of a limit as the admin API writes them.
type Limit struct {
	Algorithm string  `json:"algorithm"`
	Requests  *uint32 `json:"requests"`
	Per       string  `json:"per"`
	Burst     *uint32 `json:"burst"`
}

// String returns the numbers in one line.
func (l *Limit) String() string {
	if l.Requests == nil {
		return l.Algorithm
	}
	text := fmt.Sprintf("%s %d per %s", l.Algorithm, *l.Requests, l.Per)
	if l.Burst != nil {
		text += fmt.Sprintf(" burst %d", *l.Burst)
	}
	return text
}

// OrDash returns a name, or a dash for none.
func OrDash(name string) string {
	if name == "" {
		return "-"
	}
	return name
}

// state is the state of a key.
type state struct {
	Limit, Used  *int64
	ResetAfterMS int64 `json:"reset_after_ms"`
}

// String returns how much is used.
func (s *state) String() string {
	if s.Limit == nil {
		return "-"
	}
	return fmt.Sprintf("%d of %d", *s.Used, *s.Limit)
}

// Why is the answer of POST /v1/why.
type Why struct {
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
		Rule, Plan                                   string
		Config                                       Limit
		Override                                     *struct{ Target string }
		Coordination                                 string
		Own, Degraded, Shadow, Allowed, Denies, Over bool
		OnStoreFailure                               string `json:"on_store_failure"`
		Penalized                                    struct{ Until *time.Time }
		Before, After                                state
		RetryAfterMS                                 int64 `json:"retry_after_ms"`
		Candidate                                    *struct {
			Config       Limit
			Allowed      bool
			After        state
			RetryAfterMS int64 `json:"retry_after_ms"`
		}
	}
	Smallest []struct {
		Kind, Rule, Text string
		Override         *struct{ Requests, Burst uint32 }
	}
}

// Print prints the answer about a client of a domain; client are its entries, none if it is in a file.
func (a *Why) Print(w io.Writer, domain string, client []string) {
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
		fmt.Fprintf(w, "smallest change\t%s\t%s\n", OrDash(change.Rule), change.Text)
		if command := a.command(change.Kind, change.Rule, change.Override, domain, client); command != "" {
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
			{l.Plan != "", "plan " + l.Plan}, {l.Denies, "denies"}, {l.Shadow, "shadow"}, {l.Over, "over"}, {l.Override != nil, "override"}, {l.Penalized.Until != nil, "penalty"},
		} {
			if n.holds {
				notes = append(notes, "("+n.text+")")
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", OrDash(l.Rule), &l.Before, after, retry, mode, strings.Join(notes, " "))
		if c := l.Candidate; c != nil {
			after, retry := c.After.String(), "-"
			if !c.Allowed {
				after, retry = "denied", retryWords(c.RetryAfterMS)
			}
			fmt.Fprintf(w, "\t\t%s\t%s\t\t%s (candidate)\n", after, retry, c.Config.String())
		}
	}
}

// command returns the command that makes a change for a client of one entry, "" if none does.
func (a *Why) command(kind, rule string, numbers *struct{ Requests, Burst uint32 }, domain string, client []string) string {
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
