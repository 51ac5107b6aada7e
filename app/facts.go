package app

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"

	"stint/facts"
	"stint/internal/system"
	"stint/internal/text"
	"stint/rule"
	"stint/server/factsapi"
	"stint/store/redis/connect"
	"stint/store/redis/recordlog"
)

// knowledge is what the service keeps about its rules and keys. A nil one keeps nothing.
type knowledge struct {
	*facts.Facts
	shared *recordlog.Summaries // nil: this process is alone
	ended  chan struct{}        // closed when streams have to end
}

// openFacts opens the facts, if they are configured. It does not connect to Redis.
func (a *App) openFacts() error {
	c := &a.config
	if c.Facts.Off {
		return nil
	}
	k := &knowledge{ended: make(chan struct{})}
	secret, err := a.factsSecret()
	if err != nil {
		return err
	}
	options := facts.Options{
		Node: c.NodeName(), Secret: secret, Read: a.readNode, Counts: a.countsOf, Log: a.log,
		Denials: facts.DenialOptions{
			File: c.Facts.Denials, Every: uint64(c.Facts.DenialsEvery), PerSecond: int(c.Facts.DenialsPerSecond),
			Keep: c.Facts.DenialsFor, Bytes: c.Facts.DenialsSize,
		},
	}
	if c.Facts.Denials == "-" {
		options.Denials.File, options.Denials.Out = "", io.Writer(os.Stdout)
	}
	if state := a.stateFile(); state != "" {
		options.State = state + ".facts"
	}
	if connect.IsURL(c.Store) {
		servers, err := connect.Servers(c.Store)
		if err != nil {
			return err
		}
		if k.shared, err = recordlog.OpenSummaries(servers[0].URL, c.Namespace); err != nil {
			return err
		}
		options.Exchange = k.shared
	}
	k.Facts, err = facts.New(options)
	if _, damaged := errors.AsType[*facts.StateError](err); damaged {
		aside, failed := system.SetAside(options.State)
		a.log.Error("facts cannot be used: starting without them", "file", options.State, "error", errors.Join(err, failed), "moved_to", aside,
			"hint", "delete the file that was set aside if nobody needs it")
		k.Facts, err = facts.New(options)
	}
	if err != nil {
		return c.Fault("denials", "cannot keep facts: "+text.Cause(err), "see that this user may write to the folders of --denials and --state")
	}
	a.facts = k
	return nil
}

// stateFile returns the path of the state file, "" if there is none.
func (a *App) stateFile() string { return cmp.Or(a.stores.State(), a.config.State) }

// factsSecret returns the secret of the hashes of keys: that of the namespace, else one that is kept beside
// the state file; nil: a new one each time.
func (a *App) factsSecret() ([]byte, error) {
	state := a.stateFile()
	switch namespace := a.stores.Secret(); {
	case namespace != nil:
		return namespace.Derive("facts"), nil
	case state == "":
		return nil, nil
	}
	file := state + ".facts.secret"
	secret, err := os.ReadFile(file)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return secret, err
	}
	secret = facts.NewSecret()
	return secret, system.ReplaceFile(file, func(w io.Writer) error {
		_, err := w.Write(secret)
		return err
	})
}

// readNode returns what is known of this process.
func (a *App) readNode() facts.Node {
	n := facts.Node{Generation: a.rules.generation.Load(), StoreError: a.stores.Problem()}
	n.Decided, n.Degraded, n.Failed = a.metrics.Totals()
	if table := a.limiter.Table(); table != nil {
		n.Hash = table.Hash()
	}
	return n
}

// countsOf returns the counts of a rule in the metrics.
func (a *App) countsOf(domain, name string) facts.Counts {
	c := a.metrics.RuleCounts(domain, name)
	return facts.Counts{Allowed: c.Allowed, Denied: c.Denied, Over: c.Over, Degraded: c.Degraded}
}

// runFacts keeps the facts up to date until ctx is done.
func (a *App) runFacts(ctx context.Context) {
	if a.facts != nil {
		a.group.Go(func() { a.facts.Run(ctx) })
	}
}

// closeFacts saves the facts.
func (a *App) closeFacts() {
	if a.facts == nil {
		return
	}
	end := a.facts.Close
	if a.cancel == nil {
		end = a.facts.Discard
	}
	if err := end(); err != nil {
		a.log.Error("facts not saved: the next start goes back to older ones", "error", err, "hint", "see that the disk has room and the folder can be written")
	}
	if a.facts.shared != nil {
		a.facts.shared.Close()
	}
}

// markLoss notes on the history that a server may have lost counts.
func (a *App) markLoss(server string) { a.facts.mark("epoch", server) }

func (k *knowledge) mark(what, note string) {
	if k != nil {
		k.Mark(what, note)
	}
}

func (k *knowledge) reloaded(table *rule.Table, first bool) {
	if k != nil {
		k.Reloaded(table, first)
	}
}

// endStreams ends the streams of facts, so that the admin listener can drain.
func (k *knowledge) endStreams() {
	if k != nil {
		close(k.ended)
	}
}

// handler returns the handler of facts, and of advice about the rules of a table.
func (k *knowledge) handler(table func() *rule.Table) http.Handler {
	if k == nil {
		return http.HandlerFunc(factsapi.Off)
	}
	return factsapi.New(factsapi.Options{Facts: k.Facts, Counts: k.Counts, Table: table, Done: k.ended})
}
