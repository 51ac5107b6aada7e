package cli

import (
	"context"
	"io"
	"net/http"
	"net/url"

	"github.com/spf13/pflag"

	"stint/cmd/stint/view"
	"stint/server/access"
)

func whyCommand() Command {
	return Command{
		Name: "why", Args: "[flags] KEY=VALUE...", Summary: "explain what a client would get, and what would change it", Run: runWhy, Flags: flagsOf(new(whyFlags).flags),
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
	var answer view.Why
	return c.show(s.Out, text, &answer, func(w io.Writer) { answer.Print(w, c.domain, flags.Args()) })
}

// find prints what the log of denials has about a request.
func (o *whyFlags) find(ctx context.Context, s Streams, c *adminCall) error {
	text, err := c.get(ctx, "/v1/why?request_id="+url.QueryEscape(o.request))
	if err != nil {
		return err
	}
	var answer view.Denials
	return c.show(s.Out, text, &answer, answer.Print)
}
