package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/spf13/pflag"

	"stint/cmd/stint/view"
)

func webhooksCommand() Command {
	return group("webhooks", "list, retry and test what receivers of events get",
		`Shows the receivers in the config file of a service, and the events on their way to them; tries
again what was given up; and sends a test.

  stint webhooks list
  stint webhooks list --state failed
  stint webhooks retry shop
  stint webhooks test shop

retry tries all failed events of a receiver again, or the one of --id, also if it was delivered. It
also enables a receiver that answered 410. The exit status of test is 1 if the receiver refuses.
`+adminTextOf("read or higher; for retry and test support or higher"),
		verb{"list", "prints receivers, or events with --state", runWebhooksList, new(webhookOptions).listFlags},
		verb{"retry", "tries failed events of a receiver again", runWebhooksRetry, new(webhookOptions).retryFlags},
		verb{"test", "sends a test event to a receiver once", runWebhooksTest, (*adminCall).flagSet},
	)
}

// webhookOptions are the flags of stint webhooks.
type webhookOptions struct {
	state, receiver, id string
	limit               int
}

func (o *webhookOptions) listFlags(c *adminCall, name string) *pflag.FlagSet {
	flags := c.textFlags(name,
		textFlag{&o.state, "state", "print events that are `STATE`: waiting, failed or delivered"},
		textFlag{&o.receiver, "receiver", "only those of the receiver `NAME`"})
	flags.IntVar(&o.limit, "limit", 100, "print at most `N` of them, up to 1000")
	return flags
}

func (o *webhookOptions) retryFlags(c *adminCall, name string) *pflag.FlagSet {
	return c.textFlags(name, textFlag{&o.id, "id", "only the event `ID`"})
}

func runWebhooksList(ctx context.Context, s Streams, args []string) error {
	var c adminCall
	var o webhookOptions
	if err := prepare(o.listFlags(&c, "webhooks list"), args, 0, "", ""); err != nil {
		return err
	}
	if o.state != "" {
		return o.listEvents(ctx, s, &c)
	}
	if o.receiver != "" {
		return Usage("--receiver selects events, and there is no --state", "add --state failed, waiting or delivered")
	}
	answer, err := c.get(ctx, "/v1/webhooks")
	if err != nil {
		return err
	}
	var list view.Receivers
	return c.show(s.Out, answer, &list, list.Print)
}

// listEvents prints the events in a state.
func (o *webhookOptions) listEvents(ctx context.Context, s Streams, c *adminCall) error {
	answer, err := c.get(ctx, "/v1/webhooks/deliveries?"+query("state", o.state, "receiver", o.receiver, "limit", strconv.Itoa(o.limit)))
	if err != nil {
		return err
	}
	var list view.Deliveries
	return c.show(s.Out, answer, &list, list.Print)
}

func runWebhooksRetry(ctx context.Context, s Streams, args []string) error {
	var c adminCall
	var o webhookOptions
	flags := o.retryFlags(&c, "webhooks retry")
	if err := prepare(flags, args, 1, "one receiver", "stint webhooks retry shop"); err != nil {
		return err
	}
	answer, err := c.change(ctx, http.MethodPost, "/v1/webhooks/retry", map[string]string{"receiver": flags.Arg(0), "id": o.id}, "")
	if err != nil {
		return err
	}
	var result struct{ Retried int }
	return c.show(s.Out, answer, &result, func(w io.Writer) {
		fmt.Fprintf(w, "%s: %d of its events are tried again\n", flags.Arg(0), result.Retried)
	})
}

func runWebhooksTest(ctx context.Context, s Streams, args []string) error {
	var c adminCall
	flags := c.flagSet("webhooks test")
	if err := prepare(flags, args, 1, "one receiver", "stint webhooks test shop"); err != nil {
		return err
	}
	answer, err := c.change(ctx, http.MethodPost, "/v1/webhooks/test", map[string]string{"receiver": flags.Arg(0)}, "")
	if err != nil {
		return err
	}
	var result struct {
		ID, Problem string
		Delivered   bool
		TookMS      int64 `json:"took_ms"`
	}
	if err := json.Unmarshal(answer, &result); err != nil {
		return Refuse("cannot decode the answer of the service: "+err.Error(), "use --json to print it unchanged")
	}
	if !result.Delivered && !c.json {
		return Refuse(flags.Arg(0)+" did not accept the test: "+result.Problem, "see that its URL, its certificate and its secret are right, and the log of the receiver")
	}
	err = c.show(s.Out, answer, &result, func(w io.Writer) {
		fmt.Fprintf(w, "%s accepted the event %s in %d ms\n", flags.Arg(0), result.ID, result.TookMS)
	})
	if err == nil && !result.Delivered {
		return ErrFaults // the answer is already printed
	}
	return err
}
