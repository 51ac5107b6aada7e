package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"stint/cmd/stint/view"
)

func runInspect(ctx context.Context, s Streams, args []string) error {
	var answer view.Inspected
	return aboutKey(ctx, s, "inspect", args, &answer, answer.Write)
}

func runReset(ctx context.Context, s Streams, args []string) error {
	var answer struct{ Limits []struct{ Rule string } }
	return aboutKey(ctx, s, "reset", args, &answer, func(w io.Writer) {
		if len(answer.Limits) == 0 {
			fmt.Fprintln(w, "no limit applies to this key: nothing was reset")
		}
		for _, l := range answer.Limits {
			fmt.Fprintln(w, "reset: "+view.OrDash(l.Rule))
		}
	})
}

// aboutKey runs a command about a key. It prints the response body as it is, or decodes it into
// answer and calls show.
func aboutKey(ctx context.Context, s Streams, name string, args []string, answer any, show func(io.Writer)) error {
	var c adminCall
	flags := c.keyFlags(name)
	if err := Parse(flags, args); err != nil {
		return err
	}
	body, err := c.question(s, flags.Args())
	if err != nil {
		return err
	}
	text, err := c.change(ctx, http.MethodPost, "/v1/"+name, body, c.why)
	if err != nil {
		return err
	}
	return c.show(s.Out, text, answer, show)
}

// show prints a response body as it is, or decodes it into answer and prints that in columns.
func (c *adminCall) show(out io.Writer, text []byte, answer any, show func(io.Writer)) error {
	if c.json {
		fmt.Fprintln(out, strings.TrimSpace(string(text)))
		return nil
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return Refuse("cannot decode the answer of the service: "+err.Error(), "use --json to print it unchanged")
	}
	w := columns(out)
	show(w)
	return w.Flush()
}

func runLimits(ctx context.Context, s Streams, args []string) error {
	var c adminCall
	flags := c.flagSet("limits")
	if err := Parse(flags, args); err != nil {
		return err
	}
	if err := noArguments(flags); err != nil {
		return err
	}
	text, err := c.get(ctx, "/v1/limits")
	if err != nil {
		return err
	}
	var answer struct {
		Rules   int
		Domains []struct {
			Domain string
			Rules  []struct {
				Name, File string
				Line       int
				Shadow     bool
				Candidate  *view.Limit
				view.Limit
			}
		}
	}
	return c.show(s.Out, text, &answer, func(w io.Writer) {
		if answer.Rules == 0 {
			fmt.Fprintln(w, "the service has no rules")
			return
		}
		fmt.Fprintln(w, "DOMAIN\tRULE\tLIMIT\tPLACE")
		for _, d := range answer.Domains {
			for _, r := range d.Rules {
				more := ""
				if r.Shadow {
					more = " (shadow)"
				}
				if r.Candidate != nil {
					more += " (trying " + r.Candidate.String() + ")"
				}
				fmt.Fprintf(w, "%s\t%s\t%s%s\t%s:%d\n", d.Domain, r.Name, &r.Limit, more, r.File, r.Line)
			}
		}
	})
}

func runHealth(ctx context.Context, s Streams, args []string) error {
	var c adminCall
	flags := c.flagSet("health")
	if err := Parse(flags, args); err != nil {
		return err
	}
	if err := noArguments(flags); err != nil {
		return err
	}
	status, text, err := c.ask(ctx, "/readyz")
	if err != nil {
		return err
	}
	if status != http.StatusOK && status != http.StatusServiceUnavailable {
		return refused(status, text)
	}
	var answer struct {
		Ready  bool
		Reason string
		Rules  struct {
			Hash        string
			ReloadError string `json:"reload_error"`
			Count       int
		}
		Store struct{ Kind, Error string }
	}
	err = c.show(s.Out, text, &answer, func(w io.Writer) {
		if answer.Ready {
			fmt.Fprintln(w, "ready")
		} else {
			fmt.Fprintln(w, "not ready: "+answer.Reason)
		}
		fmt.Fprintf(w, "rules\t%d\t%s\n", answer.Rules.Count, answer.Rules.Hash)
		if answer.Rules.ReloadError != "" {
			fmt.Fprintf(w, "reload refused\t%s\n", answer.Rules.ReloadError)
		}
		fmt.Fprintf(w, "store\t%s\t%s\n", answer.Store.Kind, answer.Store.Error)
	})
	if err == nil && status != http.StatusOK {
		return ErrFaults // the problem is already printed
	}
	return err
}
