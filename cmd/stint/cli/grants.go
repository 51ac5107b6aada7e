package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/spf13/pflag"

	"stint/cmd/stint/view"
)

func grantsCommand() Command {
	return group("grants", "give clients units beside their plan, and list and end them",
		`A grant lets a client use units of a limit of its plan beside what the plan has, such as a package
of 1,000 calls. Lower priorities are used first: the plan itself has 100, a grant 200 if it does not
say otherwise.

  stint grants add --limit api --units 1000 --until 2027-01-01T00:00:00Z --id order-7 user=42
  stint grants list --subject user=42
  stint grants remove user=42 order-7

With --id the same command again changes the grant, and gives nothing twice. What was used of a
grant stays used when it is changed.
`+untilText+adminTextOf("write; read for list"),
		verb{"add", "gives a client units, or changes a grant", runGrantAdd, new(grantOptions).flags},
		verb{"list", "lists grants", lists("grants list", "/v1/grants", view.Grants, (*listOptions).subjectFlags), new(listOptions).subjectFlags},
		verb{"remove", "ends a grant now", runGrantRemove, new(whyOptions).flags},
	)
}

// grantOptions are the flags of stint grants add.
type grantOptions struct {
	id, limit, from, until, why string
	units                       uint32
	priority                    uint8
}

func (o *grantOptions) flags(c *adminCall, name string) *pflag.FlagSet {
	flags := c.textFlags(name, textFlag{&o.limit, "limit", "`NAME` of the limit in plans, such as api"})
	flags.Uint32Var(&o.units, "units", 0, "`N` units")
	texts(flags,
		textFlag{&o.until, "until", "`TIME` when it ends"},
		textFlag{&o.from, "from", "`TIME` when it begins (default: now)"},
		textFlag{&o.id, "id", "`ID` of the grant, such as the number of an order (default: a new one)"},
		textFlag{&o.why, "why", "`REASON`, which is kept with the grant"})
	flags.Uint8Var(&o.priority, "priority", 0, "`N` from 0 to 255, but not 100; lower ones are used first (default 200)")
	return flags
}

func runGrantAdd(ctx context.Context, s Streams, args []string) error {
	var c adminCall
	var o grantOptions
	flags := o.flags(&c, "grants add")
	const example = "stint grants add --limit api --units 1000 --until 30d user=42"
	if err := prepare(flags, args, 1, "one client", example); err != nil {
		return err
	}
	for _, needed := range []string{"limit", "units", "until"} {
		if !flags.Changed(needed) {
			return Usage("--"+needed+" is missing", "write for example "+example)
		}
	}
	if flags.Changed("id") && o.id == "" { // such as an unset variable: each repetition would be a grant of its own
		return Usage("--id is empty", "write the ID of the grant, such as the number of the order, or leave --id out for a new one")
	}
	body := map[string]any{"subject": flags.Arg(0), "limit": o.limit, "units": o.units, "from": o.from, "until": o.until, "id": o.id, "why": o.why}
	if flags.Changed("priority") {
		body["priority"] = o.priority
	}
	text, err := c.change(ctx, http.MethodPut, "/v1/grants", body, "")
	if err != nil {
		return err
	}
	return c.showPut(s, text, func(w io.Writer, r *view.Record) {
		fmt.Fprintf(w, "grant %s: %s has %d units of %s, %s\n", r.ID, r.Who(), r.Units, r.Limit, r.Lasts())
	})
}

func runGrantRemove(ctx context.Context, s Streams, args []string) error {
	var c adminCall
	var o whyOptions
	flags := o.flags(&c, "grants remove")
	if err := prepare(flags, args, 2, "a client and the ID of a grant", "stint grants remove user=42 order-7"); err != nil {
		return err
	}
	who, id := flags.Arg(0), flags.Arg(1)
	if _, err := c.change(ctx, http.MethodDelete, "/v1/grants/"+url.PathEscape(who)+"/"+url.PathEscape(id), nil, o.why); err != nil {
		return err
	}
	return c.done(s.Out, "removed: grant "+id+" of "+who)
}
