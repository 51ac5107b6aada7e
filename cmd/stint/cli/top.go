package cli

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"stint/cmd/stint/view"
	"stint/internal/system"
	"stint/server/access"
)

// ErrInterrupted ends a command with status 130. It has printed what it knows.
var ErrInterrupted = errors.New("interrupted")

func topCommand() Command {
	return Command{
		Name: "top", Args: "[flags]", Summary: "show live which rules deny, and whom", Run: runTop, Flags: flagsOf(new(topFlags).flags),
		Text: "Shows nodes, rules and the keys that are denied most, and draws them again each second: the rules\n" +
			"that deny most come first. Ctrl-C prints the last screen and ends it with status 130. An output that\n" +
			"is no terminal gets one screen. NO_COLOR in the environment switches colors off. --json prints one\nsnapshot.\n\n" +
			"  stint top --once\n" + adminTextFor(access.Read),
	}
}

// topFlags are the flags of stint top.
type topFlags struct {
	once  bool
	every time.Duration
	keys  int
}

func (o *topFlags) flags(c *adminCall, name string) *pflag.FlagSet {
	flags := c.flagSet(name)
	flags.BoolVar(&o.once, "once", false, "print one screen and end")
	flags.DurationVar(&o.every, "every", time.Second, "time between two screens")
	flags.IntVar(&o.keys, "keys", 20, "how many keys to show, 1 to 100")
	return flags
}

func runTop(ctx context.Context, s Streams, args []string) error {
	var c adminCall
	var o topFlags
	flags := o.flags(&c, "top")
	if err := Parse(flags, args); err != nil {
		return err
	}
	if err := noArguments(flags); err != nil {
		return err
	}
	if o.every < 100*time.Millisecond {
		return Usage("--every: "+o.every.String()+" is less than 100ms", "give 1s, or leave it out")
	}
	to, err := c.target()
	if err != nil {
		return err
	}
	ctx, stop := system.UntilInterrupted(ctx)
	defer stop()
	err = view.Run(ctx, view.Options{
		Fetch: func(ctx context.Context) (*view.Snapshot, error) { return c.snapshot(ctx, o.keys) },
		Out:   s.Out, Size: view.Terminal(s.Out), Name: to.name, Every: o.every,
		JSON: c.json, Once: o.once, Color: view.Color(os.Getenv),
	})
	if ctx.Err() != nil {
		return ErrInterrupted
	}
	return err
}

// snapshot returns what the service knows.
func (c *adminCall) snapshot(ctx context.Context, keys int) (*view.Snapshot, error) {
	var s view.Snapshot
	for _, part := range []struct {
		path string
		to   any
	}{
		{"/v1/facts", &s.Summary},
		{"/v1/facts/keys?by=denied&n=" + strconv.Itoa(keys), &s},
		{"/v1/alarms", &s},
	} {
		text, err := c.get(ctx, part.path)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, part.to); err != nil {
			return nil, Refuse("cannot decode the answer of the service: "+err.Error(), "is this the --admin address of a Stint of this version?")
		}
	}
	s.Keys, s.Alarms = append([]view.Key{}, s.Keys...), append([]view.Alarm{}, s.Alarms...)
	return &s, nil
}
