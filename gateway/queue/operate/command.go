package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"stint/gateway/queue"
	"stint/gateway/queue/file"
	"stint/gateway/queue/seal"
	"stint/gateway/queue/stream"
	"stint/records/dbfile"
	"stint/store/redis/connect"
)

// Usage is the short text about the command.
const Usage = "Lists, shows, retries and drops requests in the queue"

// target says which queue a command works on.
type target struct {
	queue, namespace, keys, address, token string
	json                                   bool
}

// Configure adds flags and subcommands to the command queue.
func Configure(c *cobra.Command) {
	t := new(target)
	c.Long = `Works on the queue of a running gateway over its admin endpoint (--address), or with --queue on its
file or Redis. If a running gateway has the file open, the command asks the gateway instead.`
	flags := c.PersistentFlags()
	flags.StringVar(&t.queue, "queue", "", "file or redis:// URL of the queue, as in the stint block")
	flags.StringVar(&t.namespace, "namespace", "stint", "namespace of the keys in Redis")
	flags.StringVar(&t.keys, "queue-key-file", "", "file with the keys that decrypt records")
	flags.StringVar(&t.address, "address", "localhost:2019", "admin endpoint of the running gateway")
	flags.StringVar(&t.token, "token-file", "", "file with the token for the admin endpoint")
	flags.BoolVar(&t.json, "json", false, "print JSON")
	c.AddCommand(t.list(), t.show(), t.each("retry", "Send dead requests again, or waiting ones now", "sent again", Operations.Retry),
		t.each("drop", "Remove requests for good", "dropped", Operations.Drop))
}

func (t *target) list() *cobra.Command {
	var state string
	var limit int
	c := &cobra.Command{Use: "list", Short: "List requests, the oldest first", Args: cobra.NoArgs}
	c.Flags().StringVar(&state, "state", "", "only this state: "+words()+" (default waiting, claimed and dead)")
	c.Flags().IntVar(&limit, "limit", defaultList, "how many at most")
	c.RunE = t.run(func(ctx context.Context, o Operations, c *cobra.Command, _ []string) error {
		items, err := o.List(ctx, queue.State(state), limit)
		if err != nil {
			return err
		}
		if t.json {
			return json.NewEncoder(c.OutOrStdout()).Encode(items)
		}
		w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "ID\tSTATE\tRULE\tAGE\tTRIES\tBYTES\tREASON")
		for _, i := range items {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%s\n", i.ID, i.State, i.Rule, time.Since(i.Made).Round(time.Second), i.Tries, i.Bytes, i.Reason)
		}
		return w.Flush()
	})
	return c
}

func (t *target) show() *cobra.Command {
	c := &cobra.Command{Use: "show ID", Short: "Show a request with its body and its answer", Args: cobra.ExactArgs(1)}
	c.RunE = t.run(func(ctx context.Context, o Operations, c *cobra.Command, args []string) error {
		d, err := o.Show(ctx, args[0])
		if err != nil {
			return err
		}
		if t.json {
			return json.NewEncoder(c.OutOrStdout()).Encode(d)
		}
		printDetail(c.OutOrStdout(), d)
		return nil
	})
	return c
}

func printDetail(w io.Writer, d *Detail) {
	fmt.Fprintf(w, "id      %s\nstate   %s\nrule    %s\nmade    %s\nat      %s\ntries   %d\n", d.ID, d.State, d.Rule, d.Made.Format(time.RFC3339), d.At.Format(time.RFC3339), d.Tries)
	if d.Reason != "" {
		fmt.Fprintln(w, "reason ", d.Reason)
	}
	if d.Problem != "" {
		fmt.Fprintln(w, "problem", d.Problem)
	}
	if r := d.Request; r != nil {
		fmt.Fprintf(w, "client  %s\n", r.Client)
		if r.Identity != "" {
			fmt.Fprintf(w, "as      %s\n", r.Identity)
		}
		fmt.Fprintf(w, "\n%s %s\nHost: %s\n", r.Method, r.URI, r.Host)
		printMessage(w, r.Header, d.Body)
	}
	if a := d.Answer; a != nil {
		fmt.Fprintf(w, "\n%d %s\n", a.Status, http.StatusText(a.Status))
		printMessage(w, a.Header, d.AnswerBody)
	}
}

func printMessage(w io.Writer, h http.Header, body []byte) {
	names := make([]string, 0, len(h))
	for name := range h {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, value := range h[name] {
			fmt.Fprintf(w, "%s: %s\n", name, printable(value))
		}
	}
	switch {
	case len(body) == 0:
	case utf8.Valid(body):
		fmt.Fprintf(w, "\n%s\n", printable(string(body)))
	default:
		fmt.Fprintf(w, "\n(%d bytes that are no text; --json has them in base64)\n", len(body))
	}
}

// printable escapes control characters, because clients choose these texts and a terminal obeys them.
func printable(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r == '\n' || r == '\t' || strconv.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

// each returns a command that does the same to several records.
func (t *target) each(name, short, done string, do func(Operations, context.Context, string) error) *cobra.Command {
	var all bool
	c := &cobra.Command{Use: name + " ID... | --all-dead", Short: short}
	c.Flags().BoolVar(&all, "all-dead", false, "all dead requests instead of IDs")
	c.RunE = t.run(func(ctx context.Context, o Operations, c *cobra.Command, ids []string) error {
		if all == (len(ids) > 0) {
			return &Error{0, "which requests?", "write IDs, or --all-dead"}
		}
		if all {
			items, err := o.List(ctx, queue.Dead, MaxList)
			if err != nil {
				return err
			}
			for _, i := range items {
				ids = append(ids, i.ID)
			}
		}
		n, faults := 0, error(nil)
		for _, id := range ids {
			if err := do(o, ctx, id); err != nil {
				faults = errors.Join(faults, err)
				fmt.Fprintf(c.ErrOrStderr(), "%s: %v\n", id, err)
				continue
			}
			n++
		}
		if t.json {
			return errors.Join(faults, json.NewEncoder(c.OutOrStdout()).Encode(map[string]int{done: n}))
		}
		fmt.Fprintf(c.OutOrStdout(), "%d of %d %s\n", n, len(ids), done)
		return faults
	})
	return c
}

// run returns the function of a command that works on the target.
func (t *target) run(do func(context.Context, Operations, *cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		c.SilenceUsage = true
		ctx := c.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		o, closeStorage, err := t.open()
		if err != nil {
			return hinted(err)
		}
		return hinted(errors.Join(do(ctx, o, c, args), closeStorage()))
	}
}

// open returns the operations of the target, and a function that closes what it opened.
func (t *target) open() (Operations, func() error, error) {
	nothing := func() error { return nil }
	if t.queue == "" {
		o, err := t.remote()
		return o, nothing, err
	}
	var keys *seal.Keys
	if t.keys != "" {
		var err error
		if keys, err = seal.Load(t.keys); err != nil {
			return nil, nil, err
		}
	}
	if connect.IsURL(t.queue) {
		s, err := stream.Open(stream.Options{URL: t.queue, Namespace: t.namespace})
		if err != nil {
			return nil, nil, err
		}
		return &Local{Storage: s, Keys: keys}, s.Close, nil
	}
	if _, err := os.Stat(t.queue); err != nil {
		return nil, nil, &Error{0, err.Error(), "name the file as in the stint block: --queue FILE"}
	}
	s, err := file.OpenNow(t.queue)
	if file.InUse(err) {
		o, err := t.remote()
		return o, nothing, err
	}
	if err != nil {
		return nil, nil, err
	}
	return &Local{Storage: s, Keys: keys}, s.Close, nil
}

func (t *target) remote() (*Remote, error) {
	r := &Remote{Client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, Base: t.address}
	if !strings.Contains(r.Base, "://") {
		r.Base = "http://" + r.Base
	}
	if t.token == "" {
		return r, nil
	}
	data, err := os.ReadFile(t.token)
	if err != nil {
		return nil, &Error{0, "--token-file: " + err.Error(), "name a file with the token of a user of the admin endpoint"}
	}
	r.Token = strings.TrimSpace(string(data))
	return r, nil
}

// hinted adds the hint of an error as a line of its own.
func hinted(err error) error {
	if known, ok := errors.AsType[*Error](err); ok {
		return fmt.Errorf("%w\nhint: %s", err, known.Hint)
	}
	if fault, ok := errors.AsType[*dbfile.Fault](err); ok {
		return fmt.Errorf("%w\nhint: %s", err, fault.Hint)
	}
	if fault, ok := errors.AsType[*connect.URLError](err); ok {
		return fmt.Errorf("%w\nhint: %s", err, fault.Hint)
	}
	return err
}
