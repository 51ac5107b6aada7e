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
	return aboutKey(ctx, s, "inspect", args, &answer, answer.Print)
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
	var answer view.Limits
	return c.show(s.Out, text, &answer, answer.Print)
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
	var answer view.Health
	err = c.show(s.Out, text, &answer, answer.Print)
	if err == nil && status != http.StatusOK {
		return ErrFaults // the problem is already printed
	}
	return err
}
