package cli

import (
	"context"
	"io"
	"time"

	"stint/cmd/stint/view"
	"stint/facts/advice"
	"stint/server/access"
)

const adviseText = `Shows what is wrong with the rules of a service, by the facts that it keeps: for each rule at
most one sentence with the cause and a number, the lines of YAML that would mend it, and how to see
their effect. Causes are a wrong key, bursts at the edges of a window, too small a burst, a limit
that is too tight or too loose, a rule that nothing matches, and a shadow limit that is ready.

It shows nothing about rules that work, nor before there are 50 keys, 1,000 requests and an hour
(7 days for too loose). stint replay --advise says the same about an access log.

  stint advise
`

func adviseCommand() Command {
	return Command{
		Name: "advise", Args: "[flags]", Summary: "show what is wrong with the rules, and what mends it", Run: runAdvise, Flags: adminFlags("advise"),
		Text: adviseText + adminTextFor(access.Read),
	}
}

func runAdvise(ctx context.Context, s Streams, args []string) error {
	var c adminCall
	flags := c.flagSet("advise")
	if err := Parse(flags, args); err != nil {
		return err
	}
	if err := noArguments(flags); err != nil {
		return err
	}
	body, err := c.get(ctx, "/v1/advice")
	if err != nil {
		return err
	}
	var answer struct {
		At, Since time.Time
		Advice    []advice.Advice
	}
	return c.show(s.Out, body, &answer, func(w io.Writer) { advice.Write(w, answer.Advice, view.Width(s.Out)) })
}
