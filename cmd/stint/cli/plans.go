package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/spf13/pflag"

	"stint/cmd/stint/view"
	"stint/internal/strictyaml/parser"
)

func plansCommand() Command {
	return group("plans", "make, list and delete plans, and give them to clients",
		`Makes plans that are records, beside those in rule files, which are read-only. FILE has the
limits of the plan by their names, as below plans: NAME: in a rule file; - is standard input. A
change is in force at once, or with --from at the end of the client's period, and clients keep
what they used.

  stint plans list
  stint plans put gold gold.yaml
  stint plans give --until 30d gold user=42
  stint plans give --from next_period free user=42
  stint plans delete gold

Clients of a plan that was deleted are denied where a rule asks for its limits. give to the plan ""
returns a client to the default plan.
`+untilText+adminTextOf("write; read for list and show"),
		verb{"list", "lists plans", runPlanList, new(listOptions).flags},
		verb{"show", "prints the limits of a plan", runPlanShow, (*adminCall).flagSet},
		verb{"put", "makes or changes a plan", runPlanPut, new(whyOptions).flags},
		verb{"delete", "deletes a plan", runPlanDelete, new(whyOptions).flags},
		verb{"give", "gives a client a plan", runPlanGive, new(giveOptions).flags},
	)
}

func runPlanList(ctx context.Context, s Streams, args []string) error {
	var c adminCall
	var o listOptions
	if err := prepare(o.flags(&c, "plans list"), args, 0, "", ""); err != nil {
		return err
	}
	text, err := c.get(ctx, "/v1/plans?"+query("limit", fmt.Sprint(o.limit), "after", o.after))
	if err != nil {
		return err
	}
	var page view.Plans
	return c.show(s.Out, text, &page, page.Write)
}

func runPlanShow(ctx context.Context, s Streams, args []string) error {
	var c adminCall
	flags := c.flagSet("plans show")
	if err := prepare(flags, args, 1, "one plan", "stint plans show gold"); err != nil {
		return err
	}
	text, err := c.get(ctx, "/v1/plans/"+url.PathEscape(flags.Arg(0)))
	if err != nil {
		return err
	}
	var p view.Plan
	return c.show(s.Out, text, &p, p.Write)
}

func runPlanPut(ctx context.Context, s Streams, args []string) error {
	var c adminCall
	var o whyOptions
	flags := o.flags(&c, "plans put")
	const example = "stint plans put gold gold.yaml"
	if err := prepare(flags, args, 2, "a plan and a file", example); err != nil {
		return err
	}
	limits, err := readLimits(s, flags.Arg(1))
	if err != nil {
		return err
	}
	text, err := c.change(ctx, http.MethodPut, "/v1/plans/"+url.PathEscape(flags.Arg(0)), map[string]any{"limits": limits}, o.why)
	if err != nil {
		return err
	}
	var p view.Plan
	return c.show(s.Out, text, &p, func(w io.Writer) { fmt.Fprintf(w, "plan %s: %s\n", p.Plan, p.Names()) })
}

// maxPlan is the most bytes of a file with a plan.
const maxPlan = 256 << 10

// readLimits reads a file with the limits of a plan, which is YAML or JSON.
func readLimits(s Streams, name string) (any, error) {
	text, err := s.read(name, maxPlan)
	if err != nil {
		return nil, Refuse("cannot read the plan: "+err.Error(), "name a file with its limits, such as api: {requests: 100, per: 1d}")
	}
	doc := parser.Parse(text)
	limits := doc.Root().Any()
	if faults := doc.Faults(); len(faults) > 0 {
		return nil, Refuse(fmt.Sprintf("%s:%d: %s", name, faults[0].Line, faults[0].Problem), faults[0].Hint)
	}
	return limits, nil
}

func runPlanDelete(ctx context.Context, s Streams, args []string) error {
	var c adminCall
	var o whyOptions
	flags := o.flags(&c, "plans delete")
	if err := prepare(flags, args, 1, "one plan", "stint plans delete gold"); err != nil {
		return err
	}
	if _, err := c.change(ctx, http.MethodDelete, "/v1/plans/"+url.PathEscape(flags.Arg(0)), nil, o.why); err != nil {
		return err
	}
	return c.done(s.Out, "deleted: plan "+flags.Arg(0))
}

// giveOptions are the flags of stint plans give.
type giveOptions struct {
	whyOptions
	until, kind, from string
}

func (o *giveOptions) flags(c *adminCall, name string) *pflag.FlagSet {
	return c.textFlags(name, o.reason(),
		textFlag{&o.until, "until", "`TIME` when the client returns to the default plan (default: never)"},
		textFlag{&o.from, "from", "`WHEN` the change is in force: next_period, at the end of the current plan's longest period (default: now)"},
		textFlag{&o.kind, "kind", "`KIND` of a client that has no record yet: user (the default), organisation or key"})
}

func runPlanGive(ctx context.Context, s Streams, args []string) error {
	var c adminCall
	var o giveOptions
	flags := o.flags(&c, "plans give")
	if err := prepare(flags, args, 2, "a plan and a client", "stint plans give gold user=42"); err != nil {
		return err
	}
	name, who := flags.Arg(0), flags.Arg(1)
	path := "/v1/subjects/" + url.PathEscape(who)
	status, text, err := c.ask(ctx, path)
	if err != nil {
		return err
	}
	body := map[string]any{"subject": who, "kind": "user"}
	switch {
	case status == http.StatusOK:
		if err := json.Unmarshal(text, &body); err != nil {
			return err
		}
		for _, field := range []string{"revision", "changed", "ended", "plan_until", "next_plan", "next_from"} {
			delete(body, field)
		}
	case status != http.StatusNotFound:
		return refused(status, text)
	}
	if o.kind != "" {
		body["kind"] = o.kind
	}
	if body["plan"] = name; o.until != "" {
		body["plan_until"] = o.until
	}
	if o.from != "" {
		body["from"] = o.from
	}
	if text, err = c.change(ctx, http.MethodPut, path, body, o.why); err != nil {
		return err
	}
	return c.showPut(s, text, func(w io.Writer, r *view.Record) { fmt.Fprintf(w, "%s: %s\n", r.Subject, r.PlanWords()) })
}
