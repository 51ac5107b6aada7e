// Package redis keeps the states of limits in Redis or Valkey, so that many nodes
// decide as one.
package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"stint"
	"stint/store/redis/connect"
	"stint/store/redis/script"
)

// DefaultNamespace stands before every key where Options are silent.
const DefaultNamespace = "stint"

// maxNamespace is how many bytes a namespace may have.
const maxNamespace = 64

// ConfigError says what is wrong with a URL or with Options.
type ConfigError = connect.URLError

// Error says why the server could not decide. It wraps stint.ErrUnknown among others where nobody
// knows whether the call was charged.
type Error = connect.Error

// Options are the optional parts of a Store. The zero value is ready to use.
type Options struct {
	// Namespace stands before every key, so that several services can use one
	// server: two with different namespaces never meet, two with the same one share
	// all states. Letters, digits, dot, dash and underscore, at most 64. "" means
	// DefaultNamespace.
	Namespace string

	// Partitions is how many parts the keys are divided into on a Cluster, 1 to
	// MaxPartitions; 0 means DefaultPartitions. All nodes must say the same: with another
	// number every key begins anew. More spread busy keys more evenly, fewer let more keys
	// of a call meet on one server. One server has no use for it.
	Partitions int

	// Clock is this node's clock, which decides nothing but which windows of a calendar
	// are offered to the server first; the server's own time chooses among them. Nil is
	// the machine's clock.
	Clock func() time.Time
}

// Store keeps the state of every key in Redis (6.2 and later) or Valkey. It is exact
// across any number of nodes and safe for concurrent use. Make one with Open and Close
// it in the end; the zero Store is not usable.
//
// # How it decides
//
// All takes of a call are decided by one script in one round trip, all or none, by the
// arithmetic of the root package: every field of a Decision is what a store in memory
// would say. The time is the server's own (TIME), never a node's, unless Call.At is set.
// A call of unlimited takes only is answered without asking the server.
//
// # What stands in Redis
//
// The key of a state is NAMESPACE:ALGORITHM:KEY, such as
//
//	stint:token_bucket:api/user=42
//
// A key of more than 128 bytes stands as NAMESPACE:ALGORITHM#HASH, with 32 hexadecimal
// digits of its SHA-256. No namespace holds a colon, so nothing of ours lies outside
// it. Buckets and fixed windows are strings, sliding_log is a list, sliding_window a
// hash of counts; the head of script/lua/*.lua says what is in them. Every state says by which
// release's rules and under which numbers of its limit it was written. When the numbers
// change it is carried over by what is charged first under the new ones, see migrate.Record.
//
// A key expires when its state is as if never touched, and 10 to 15 seconds later so that a
// server's clock that is set back gives nothing out again; an hour later where Call.At
// says that it is another time than the present. The time to live is set in the step that
// writes the value; where calls follow each other within milliseconds, a value that may live
// on to the end that its key has is written without it.
//
// # On a Cluster
//
// Keys are divided into partitions (Options.Partitions) by Handling.Place, or where that is
// empty by their text, and a partition lies on one server: NAMESPACE:{TAG}:ALGORITHM:KEY. A call whose keys lie in one is
// decided as on a single server. Others take two round trips, to all partitions at once:
// the first tests and charges nothing, the second charges each partition all or none. If
// one denies then, because others were quicker, the rest is given back (which takes a
// third). So no more ever passes than limits allow, and denials change nothing; but
// between two partitions of a call others may see
//
//   - some of its keys charged and others not yet;
//   - for the length of a round trip, units charged that are then given back, so that
//     somebody may be denied who would have passed had they asked later. A place in a
//     leaky_bucket that others queued behind meanwhile stays taken.
//
// Takes that borrow from others (see stint.Take.Borrows) in another partition ask them in a
// round trip of their own, and what they owe, like all that is forced, given back, settled
// or reset, follows after everything else has passed. If the connection is lost between
// two steps the error wraps stint.ErrUnknown. The decisions of one call carry the times of
// their servers.
//
// # What is lent
//
// Where units of a key are lent to nodes (see [stint.Loan]) its state says so, and lives
// until the last loan is written off. NAMESPACE:epoch, in a Cluster one for each partition,
// says since when the server forgot nothing; it never expires, nor does NAMESPACE:secret (see
// [Store.KeepSecret]). A server
// that did not write it itself, or has none though this Store remembers one, has lost writes
// and begins another epoch. Where the takes of a call lie in several partitions, each looks at its epoch
// when it tests and when it charges, and lends when it tests.
//
// # When it fails
//
// A [stint.CorruptState] names takes whose keys hold what is no state of this release: all that is
// not decided as one with them was. Any other error means that the call was not decided. It wraps [stint.ErrUnknown] where the
// answer was lost on its way, so that nobody knows whether the call was charged; it was
// not otherwise. Nothing is ever asked twice for that. A Store connects when it is first
// asked and again after a connection was lost, so it can be opened before its server.
type Store struct {
	namespace string
	clock     func() time.Time
	tags      []string         // of the partitions of a Cluster; nil on one server
	cluster   *connect.SlotMap // nil on one server
	where     []string         // what the names of all keys of a partition begin with
	links     []connect.Link   // the ways to the server; of a Cluster one
	side      connect.Link     // for what is not a decision, so that it delays none
	commits   []*committer     // of each partition
	forms     script.Forms
	epochs    []atomic.Int64 // that each partition was last known to be in
	watched   []atomic.Int64 // that each was in when Look last asked
	lost      []atomic.Int64 // one of them in which quick.lua decides nothing of what may be lent
	general   bool           // decide.lua decides everything, for tests
	batches   sync.Pool      // *batch
	behind    sync.WaitGroup // what is given back behind the backs of callers
}

var _ stint.Store = (*Store)(nil)

// Open returns a store on the server or servers that a URL names. It does not connect;
// Ping does. The error is about the URL or the options.
//
//	redis://USER:PASSWORD@HOST:PORT/DB           one server; all but HOST may be left out
//	redis+sentinel://HOST,HOST/DB?master=NAME    the primary that Sentinels name
//	redis+cluster://HOST,HOST                    a Cluster, by some of its nodes
//	redis+unix:///PATH                           one server, by its Unix socket
//
// With rediss for redis the connection is encrypted, valkey and valkeys mean the same.
// Parameters behind the question mark:
//
//	password_file=PATH      the password is the first line of a file, read for each new connection
//	password_command=COMMAND   the same of what a command of the shell prints, within 5 s
//	sentinel_user=, sentinel_password=   for the Sentinels themselves
//	ca=PATH                 certificates, as PEM, that may sign the server's
//	cert=PATH, key=PATH     the certificate to show the server, read for each connection, and its key
//	verify=chain            take a certificate of any name, if it is signed by somebody trusted
//	db=NUMBER               of a Unix socket, where the path is taken
//	partitions=N            of a Cluster, before Options.Partitions
func Open(url string, options Options) (*Store, error) {
	if options.Namespace == "" {
		options.Namespace = DefaultNamespace
	}
	if err := CheckNamespace(options.Namespace); err != nil {
		return nil, err
	}
	target, err := connect.ParseURL(url)
	if err != nil {
		return nil, err
	}
	if options.Clock == nil {
		options.Clock = time.Now
	}
	s := &Store{namespace: options.Namespace, clock: options.Clock, links: make([]connect.Link, maxFlights), side: connect.Link{Target: target}}
	if asked, cluster := connect.PartitionsOfURL(url); cluster {
		n := cmp.Or(asked, options.Partitions, DefaultPartitions)
		if err := connect.CheckPartitions(n); err != nil {
			return nil, err
		}
		s.tags, s.links = connect.Tags(n), s.links[:1]
		s.cluster = connect.NewSlotMap(s.tags)
	}
	for i := range s.links {
		s.links[i].Target = target
	}
	s.where = wheres(s.namespace, s.tags)
	for _, where := range s.where {
		c := newCommitter(s.links, where)
		c.shares = len(s.where) > 1
		s.commits = append(s.commits, c)
	}
	s.epochs, s.lost = make([]atomic.Int64, len(s.commits)), make([]atomic.Int64, len(s.commits))
	s.watched = make([]atomic.Int64, len(s.commits))
	s.batches.New = func() any { return &batch{only: -1} }
	return s, nil
}

// CheckNamespace says what is wrong with a namespace, nil for nothing.
func CheckNamespace(name string) error {
	if name == "" || len(name) > maxNamespace {
		return &ConfigError{
			Problem: fmt.Sprintf("namespace of %d characters", len(name)),
			Hint:    fmt.Sprintf("give it 1 to %d letters, digits, dots, dashes and underscores", maxNamespace),
		}
	}
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	if rest := strings.Trim(name, allowed); rest != "" {
		return &ConfigError{
			Problem: fmt.Sprintf("namespace %q has a character that is none of a name", name),
			Hint:    "use letters, digits, dots, dashes and underscores",
		}
	}
	return nil
}

// Close closes all connections. Calls that are under way fail.
func (s *Store) Close() {
	for i := range s.links {
		s.links[i].Close()
	}
	s.side.Close()
	s.behind.Wait()
}

// Ping asks the server whether it is there, of a Cluster all primaries: nil, or an error that
// says what is wrong and what to do. Probe asks whether it can decide.
func (s *Store) Ping(ctx context.Context) error { return failed(s.Look(ctx, false)) }

// Decide answers the call, see stint.Store. It blocks until the server has answered or
// ctx is done.
func (s *Store) Decide(ctx context.Context, c *stint.Call) error {
	if err := c.Check(); err != nil {
		return err
	}
	b := s.batches.Get().(*batch)
	defer s.release(b)
	if err := b.gather(s, c); err != nil {
		return err
	}
	c.SizeResults()
	now := stint.At(s.clock())
	if c.At != 0 {
		b.fixed = max(now-c.At, c.At-now) > present
		now = c.At
	}
	var err error
	switch {
	case s.tags != nil && len(b.parts) > 0 && !b.meets(b.parts):
		err = s.each(ctx, b, now)
	case !s.isQuick(b):
		err = s.repeat(ctx, b, now)
	default: // as together does; most calls come by here
		if _, err = s.exchange(ctx, b, byQuick); err == nil && !s.readQuick(b) {
			err = s.repeat(ctx, b, now)
		}
	}
	if err != nil {
		return err
	}
	for i, p := range b.of {
		c.Results[i] = b.parts[p].result
	}
	s.rememberEpochs(b)
	return b.corrupt()
}

// each has the groups of a batch decided one after the other, as they do not lie in one partition.
func (s *Store) each(ctx context.Context, b *batch, now stint.Instant) error {
	charged := false
	for i := range b.groups {
		g := &b.groups[i]
		var err error
		if parts := b.parts[g.first:g.end]; b.meets(parts) {
			b.only = i
			if err = s.together(ctx, b, now); err != nil && !errors.Is(err, errUndecodable) {
				err = whole(s.blame(err, b.where()))
			}
		} else {
			err = s.spread(ctx, b, g, now)
		}
		switch {
		case !errors.Is(err, errUndecodable):
		case errors.Is(err, stint.ErrUnknown): // some was charged
			return fmt.Errorf("%w: %w", stint.ErrUnknown, b.corrupt())
		default:
			continue
		}
		if err != nil && charged {
			return notWhole(fmt.Errorf("%w: %w", stint.ErrUnknown, err))
		}
		if err != nil {
			return err
		}
		charged = true
	}
	return nil
}

// together has the groups of a batch decided that lie in one partition.
func (s *Store) together(ctx context.Context, b *batch, now stint.Instant) error {
	if s.isQuick(b) {
		if _, err := s.exchange(ctx, b, byQuick); err != nil || s.readQuick(b) {
			return err
		}
	}
	return s.repeat(ctx, b, now)
}

// repeat has groups decided by decide.lua. Those whose calendar windows turn out not to hold the
// server's time are asked once more, with those that do, and so are those whose states need
// another script: nothing of them was changed.
func (s *Store) repeat(ctx context.Context, b *batch, now stint.Instant) error {
	for range 3 {
		if !b.write(now) {
			return nil
		}
		again, err := s.ask(ctx, b)
		switch {
		case err != nil && b.charged() && !errors.Is(err, stint.ErrUnknown):
			return fmt.Errorf("%w: %w", stint.ErrUnknown, err)
		case err != nil:
			return err
		case again == 0:
			return nil
		}
		now = again
	}
	return &Error{Doing: "decide", Problem: "the server's clock does not stand still long enough to find its calendar window", Hint: "check the server's clock"}
}

// ask sends what the batch has written and reads the answers. Where again is set, it is
// the server's time, and groups are left to be asked with the windows around it.
func (s *Store) ask(ctx context.Context, b *batch) (again stint.Instant, err error) {
	p, err := s.exchange(ctx, b, byDecide)
	if err != nil {
		return 0, err
	}
	return b.read(p.reply)
}

// isQuick says whether quick.lua may decide a batch, and notes how much that adds to a group.
func (s *Store) isQuick(b *batch) bool {
	if s.general || !b.isQuick() {
		return false
	}
	for i := range b.parts {
		b.size += len(b.parts[i].name) + partBytes
	}
	return true
}

// readQuick reads what quick.lua said of a batch, and says whether nothing is left to be asked.
func (s *Store) readQuick(b *batch) (done bool) {
	done = b.readQuick()
	if p := &b.parts[0]; p.word == otherEpoch {
		s.lost[p.partition].Store(int64(b.known))
	}
	return done
}

// exchange sends a batch and returns the answer to it.
func (s *Store) exchange(ctx context.Context, b *batch, kind passage) (*waiter, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("redis: not asked: %w", err)
	}
	client, err := s.links[0].Client(ctx)
	if err != nil {
		return nil, connect.Explain("connect", err)
	}
	c := s.commits[b.where()]
	p, gone := c.exchange(ctx, client, b, kind)
	if !gone && errors.Is(p.err, connect.ErrLost) && ctx.Err() == nil {
		p, gone = c.exchange(ctx, client, b, kind) // it waits for the probe that connects
	}
	b.gone = b.gone || gone
	return p, p.err
}

// release keeps the memory of a batch for another, unless a group that it left with still
// reads it.
func (s *Store) release(b *batch) {
	if b.gone {
		return
	}
	b.clear()
	s.batches.Put(b)
}

// message is an answer of the server.
type message = rueidis.RedisMessage
