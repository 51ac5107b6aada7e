// Package redis stores the states of limits in Redis or Valkey, so that many nodes share them.
package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"stint"
	"stint/internal/text"
	"stint/internal/transaction"
	"stint/store/redis/connect"
	"stint/store/redis/script"
)

// DefaultNamespace is the namespace if Options set none.
const DefaultNamespace = "stint"

// ConfigError is an error about a URL or Options.
type ConfigError = connect.URLError

// Error is why the server could not decide. It wraps stint.ErrUnknown, among others, if the call
// may have been charged.
type Error = connect.Error

// Options are the optional settings of a Store. The zero value is ready to use.
type Options struct {
	// Namespace is the beginning of every key, so that several services can use one server: stores
	// with different namespaces share nothing, stores with the same one share all states. It has at
	// most 64 letters, digits, dots, dashes and underscores. "" means DefaultNamespace.
	Namespace string

	// Partitions is the number of parts into which the keys are divided on a Cluster, 1 to
	// MaxPartitions; 0 means DefaultPartitions. All nodes must use the same: with another number
	// every key starts anew. More partitions spread busy keys more evenly; with fewer, more keys of
	// a call lie on one server. A single server ignores it.
	Partitions int

	// Clock is this node's clock. It chooses only which calendar windows are sent to the server
	// first; the server's own time decides. Nil means the machine's clock.
	Clock func() time.Time
}

// Store keeps the state of every key in Redis (6.2 and later) or Valkey. It is exact across any
// number of nodes and safe for concurrent use. Make one with Open and Close it in the end; the zero
// Store is not usable.
//
// # How it decides
//
// One script decides all takes of a call in one round trip, all or none, with the arithmetic of the
// root package: every field of a Decision has the value that a store in memory would return. The
// time is the server's own (TIME), never a node's, unless Call.At is set. If no take of a call has
// a limit, Store answers without the server.
//
// # Keys and values
//
// The key of a state is NAMESPACE:ALGORITHM:KEY, such as
//
//	stint:token_bucket:api/user=42
//
// Of a key longer than 128 bytes Store writes NAMESPACE:ALGORITHM#HASH, with 32 hexadecimal digits
// of its SHA-256. A namespace has no colon, so all keys of a Store lie inside it. Buckets and fixed
// windows are strings, sliding_log is a list, sliding_window a hash of counts; the head of each
// script/lua/*.lua describes the value. Every state begins with the release whose rules wrote it
// and the numbers of its limit. When the numbers change, the first charge under the new ones
// carries the state over, see transaction.Record.
//
// A key expires 10 to 15 seconds after its state equals that of an unused key, so that setting a
// server's clock back admits nothing twice; an hour after it if Call.At is not the present. The
// same step writes the value and its time to live. Where calls follow each other within
// milliseconds, a write keeps the key's expiry if that suits the new value too.
//
// # Histories and events
//
// A key with a history (see stint.Terms.Usage) has beside its state the hash NAMESPACE:usage:KEY, in the
// same partition, which expires when none of its periods is kept any more. NAMESPACE:usages lists these
// hashes. The events of thresholds are in NAMESPACE:events until Done, at most transaction.MaxEvents, and
// NAMESPACE:events:order has their order. What the key used of grants, and its rollover, is in
// NAMESPACE:grants:KEY until all of it has ended; nodes of earlier releases leave it as it is. The step
// that charges the key writes all of it.
//
// # Durable takes
//
// The step that charges a durable take (see stint.Terms.Durable) counts it in NAMESPACE:durable, on a Cluster
// one for each partition. A Store remembers the last count that it was told. A server that counts
// less has lost takes, by a crash, a failover or a flush. Until the period of the loss ends, or
// [Store.AcceptLoss], durable takes are then listed in a [stint.CorruptState] with an error that wraps
// transaction.ErrLost.
//
// # On a Cluster
//
// Store divides keys into partitions (Options.Partitions) by Handling.Place, or by their text where
// that is empty. A partition lies on one server: NAMESPACE:{TAG}:ALGORITHM:KEY. A call whose keys
// lie in one partition is decided as on a single server. Others take two round trips, to all
// partitions at once: the first tests and charges nothing, the second charges each partition all or
// none. If a partition denies in the second because of other calls, a third gives the rest back. So
// no more ever passes than limits allow, and denials change nothing. But between two partitions of
// a call others may see
//
//   - some of its keys charged and others not yet;
//   - for the length of a round trip, units charged that are then given back, so that a
//     request may be denied that would have passed a moment later. A place in a
//     leaky_bucket behind which others queued meanwhile stays taken.
//
// Takes that borrow from others (see stint.Take.Borrows) in another partition need one more round
// trip for that. Debts of such takes, and all that is forced, given back, settled or reset, follow
// after everything else has passed. If the connection is lost between two steps the error wraps
// stint.ErrUnknown. The decisions of one call carry the times of their servers.
//
// # Loans
//
// If units of a key are lent to nodes (see [stint.Loan]), its state contains the loans and lives
// until the last loan is written off. NAMESPACE:epoch, on a Cluster one for each partition, is the
// time since which the server lost nothing. NAMESPACE:process repeats it for the scripts that must be
// fast. They never expire, nor does NAMESPACE:secret (see [Store.KeepSecret]). A server that did not write its epoch itself, or has none though this Store
// remembers one, has lost writes and begins another epoch. If the takes of a call lie in several
// partitions, each partition checks its epoch when it tests and when it charges, and lends when it
// tests.
//
// # Errors
//
// A [stint.CorruptState] lists the takes whose keys hold a value that this release cannot read:
// everything that is not decided as one with them was decided. Any other error means that the call
// was not decided. It wraps [stint.ErrUnknown] if the answer was lost, so that the call may have
// been charged; otherwise nothing was charged. Store never sends a call again after ErrUnknown. A
// Store connects at its first call and again after a connection was lost, so it can be opened
// before its server starts.
type Store struct {
	*side

	namespace     string
	clock         func() time.Time
	tags          []string         // tags of the partitions of a Cluster; nil on one server
	cluster       *connect.SlotMap // nil on one server
	keyPrefixes   []string         // key prefix of each partition
	links         []connect.Link   // connections for decisions; on a Cluster one
	commits       []*committer     // one for each partition
	forms         script.Forms
	epochs        []knownEpoch           // of each partition
	ledgers       []script.Ledger        // of each partition
	checkedEpochs []atomic.Int64         // epoch of each partition that Look read last
	onlyDecide    bool                   // decide.lua decides everything; for tests
	batches       sync.Pool              // of *batch
	background    transaction.Background // refunds that go on after their call returned
	recent        *script.Recent         // keys that may be lent
}

// side is what a Store does beside deciding.
type side = connect.Side

var _ stint.Store = (*Store)(nil)

// Open returns a store on the server or servers of a URL. It does not connect; Ping does. The error
// is about the URL or the options.
//
//	redis://USER:PASSWORD@HOST:PORT/DB           one server; all but HOST is optional
//	redis+sentinel://HOST,HOST/DB?master=NAME    the primary, found through Sentinels
//	redis+cluster://HOST,HOST                    a Cluster; some of its nodes are enough
//	redis+unix:///PATH                           one server, by its Unix socket
//
// rediss instead of redis encrypts the connection; valkey and valkeys mean the same. Parameters
// after the question mark:
//
//	password_file=PATH      the first line of a file is the password, read for each new connection
//	password_command=COMMAND   the first line of a shell command's output is the password, within 5 s
//	sentinel_user=, sentinel_password=   user and password of the Sentinels themselves
//	ca=PATH                 PEM certificates that may sign the server's
//	cert=PATH, key=PATH     the client certificate and its key, read for each connection
//	verify=chain            accept a certificate for any name, if a trusted authority signed it
//	db=NUMBER               the database on a Unix socket, whose URL has no room for it
//	partitions=N            the number of partitions of a Cluster, instead of Options.Partitions
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
	s := &Store{namespace: options.Namespace, clock: options.Clock, links: make([]connect.Link, maxInFlight)}
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
	s.keyPrefixes = connect.KeyPrefixes(s.namespace, s.tags)
	s.side = connect.NewSide(target, s.namespace, s.keyPrefixes)
	for _, prefix := range s.keyPrefixes {
		c := newCommitter(s.links, prefix)
		c.sharesConnections = len(s.keyPrefixes) > 1
		s.commits = append(s.commits, c)
	}
	s.epochs, s.checkedEpochs, s.ledgers = make([]knownEpoch, len(s.commits)), make([]atomic.Int64, len(s.commits)), make([]script.Ledger, len(s.commits))
	s.recent = script.NewRecent()
	s.batches.New = func() any { return &batch{only: -1} }
	return s, nil
}

// CheckNamespace returns an error if name is not allowed as a namespace.
func CheckNamespace(name string) error {
	if problem, hint := text.CheckNamespace(name); problem != "" {
		return &ConfigError{Problem: problem, Hint: hint}
	}
	return nil
}

// Close closes all connections. Calls in flight fail.
func (s *Store) Close() {
	for i := range s.links {
		s.links[i].Close()
	}
	s.side.Close()
	s.background.Close()
}

// Ping asks the server for an answer, on a Cluster all primaries. The error says what is wrong and
// what to do. Probe also checks that it can decide.
func (s *Store) Ping(ctx context.Context) error { return failed(s.Look(ctx, false)) }

// Decide decides the call, see stint.Store. It blocks until the server has answered or ctx is done.
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
		b.notPresent = max(now-c.At, c.At-now) > presentRange
		now = c.At
	}
	var err error
	switch {
	case s.tags != nil && len(b.parts) > 0 && !b.inOnePartition(b.parts):
		if transaction.Depends(c) {
			return transaction.Apart(ctx, c, s.Decide)
		}
		err = s.decideInTurn(ctx, b, now)
	case !s.isQuick(b):
		err = s.decideSlowly(ctx, b, now)
	default: // like decideTogether without its checks, as most calls take this path
		if _, err = s.exchange(ctx, b, byQuick); err == nil && !b.readQuick() {
			err = s.decideSlowly(ctx, b, now)
		}
	}
	if err != nil {
		return err
	}
	for i, p := range b.partOf {
		c.Results[i] = b.parts[p].result
	}
	transaction.DivideSpent(c, 0, b.partOf)
	transaction.AnswerCandidates(c)
	s.rememberEpochs(b)
	return b.corrupt()
}

// decideInTurn decides the groups of a batch one after the other, because they lie in several
// partitions.
func (s *Store) decideInTurn(ctx context.Context, b *batch, now stint.Instant) error {
	charged := false
	for i := range b.groups {
		g := &b.groups[i]
		var err error
		if parts := b.parts[g.first:g.end]; b.inOnePartition(parts) {
			b.only = i
			if err = s.decideTogether(ctx, b, now); err != nil && !errors.Is(err, errUndecodable) {
				err = transaction.MarkRestUncharged(s.withServers(err, b.partition()))
			}
		} else {
			err = s.spread(ctx, b, g, now)
		}
		switch {
		case !errors.Is(err, errUndecodable):
		case errors.Is(err, stint.ErrUnknown): // some takes may be charged
			return fmt.Errorf("%w: %w", stint.ErrUnknown, b.corrupt())
		default:
			continue
		}
		if err != nil && charged {
			return transaction.UnmarkRestUncharged(fmt.Errorf("%w: %w", stint.ErrUnknown, err))
		}
		if err != nil {
			return err
		}
		charged = true
	}
	return nil
}

// decideTogether decides the groups of a batch, which lie in one partition.
func (s *Store) decideTogether(ctx context.Context, b *batch, now stint.Instant) error {
	if s.isQuick(b) {
		if _, err := s.exchange(ctx, b, byQuick); err != nil || b.readQuick() {
			return err
		}
	}
	return s.decideSlowly(ctx, b, now)
}

// decideSlowly decides the groups of a batch that the quick scripts have not decided.
func (s *Store) decideSlowly(ctx context.Context, b *batch, now stint.Instant) error {
	if !s.onlyDecide && b.isLease() {
		b.writeLease()
		p, err := s.exchange(ctx, b, byLease)
		if err == nil {
			err = b.readLease(p.texts)
		}
		switch {
		case err != nil && b.charged() && !errors.Is(err, stint.ErrUnknown):
			return fmt.Errorf("%w: %w", stint.ErrUnknown, err)
		case err != nil:
			return err
		}
	}
	return s.runDecide(ctx, b, now)
}

// runDecide decides groups by decide.lua. It sends a group again, of which nothing was changed, if
// the calendar windows did not contain the server's time or the script lacked the algorithm of a
// state.
func (s *Store) runDecide(ctx context.Context, b *batch, now stint.Instant) error {
	for range 3 {
		if !b.write(now) {
			return nil
		}
		var again stint.Instant // if not 0, some groups must be sent once more with the calendar windows around it
		p, err := s.exchange(ctx, b, byDecide)
		if err == nil {
			again, err = b.read(p.reply)
		}
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
	return &Error{Doing: "decide", Problem: "the server's clock changes too fast to find its calendar window", Hint: "check the server's clock"}
}

// isQuick reports whether quick.lua may decide a batch, and sets its size.
func (s *Store) isQuick(b *batch) bool {
	if s.onlyDecide || !b.isQuick() {
		return false
	}
	for i := range b.parts {
		b.size += len(b.parts[i].name) + partBytes
	}
	return true
}

// exchange sends a batch and returns the answer to it.
func (s *Store) exchange(ctx context.Context, b *batch, kind method) (*waiter, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("redis: not sent: %w", err)
	}
	client, err := s.links[0].Client(ctx)
	if err != nil {
		return nil, connect.Explain("connect", err)
	}
	c := s.commits[b.partition()]
	p, inUse := c.exchange(ctx, client, b, kind)
	if !inUse && errors.Is(p.err, connect.ErrLost) && ctx.Err() == nil {
		p, inUse = c.exchange(ctx, client, b, kind) // a probe reconnects first, and this waits for it
	}
	b.inUse = b.inUse || inUse
	return p, p.err
}

// release returns a batch to the pool, unless a sender may still read it.
func (s *Store) release(b *batch) {
	if b.inUse {
		return
	}
	b.clear()
	s.batches.Put(b)
}

// message is an answer of the server.
type message = rueidis.RedisMessage
