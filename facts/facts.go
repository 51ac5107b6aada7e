package facts

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/bits"
	"runtime"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"stint"
	"stint/facts/denials"
	"stint/facts/sketch"
	"stint/internal/system"
	"stint/limiter"
	"stint/rule"
)

const (
	// flushEvery is how often the background goroutine takes over what decisions noted.
	flushEvery = 200 * time.Millisecond

	// generation is how long the lists of keys count before a new one begins. The lists that are shown
	// are those of the current and the previous generation.
	generation = 10 * time.Minute

	// saveEvery is the time between two writes of the state file.
	saveEvery = time.Minute
)

// Options are the settings of Facts. The zero Options keep everything in memory.
type Options struct {
	// Node is the name of this process in a Summary.
	Node string

	// Secret is the key of the hashes by which keys are shown: the secret of the namespace. Nodes with
	// the same secret show a key under one hash, so that their lists can be merged. Nil: a random
	// one, for this process alone.
	Secret []byte

	// Read returns what other parts of the process know about it: Decided, Failed, Degraded, Generation,
	// Hash and StoreError of a Node. It is called for every summary. Nil: these are empty.
	Read func() Node

	// Counts returns the counts of a rule since the start of the process, but for looks. Facts then does not
	// count itself, which saves the time for it. They may begin anew when rules are reloaded. It must not
	// call Facts. Nil: Facts counts.
	Counts func(domain, rule string) Counts

	// State is the file that keeps counts and history over a restart. "": they are lost.
	State string

	// Exchange carries summaries between nodes. Nil: Summary has this node alone.
	Exchange Exchange

	// Denials are the settings of the log of denials.
	Denials DenialOptions

	// Log receives what fails in the background. Nil: nothing is logged.
	Log *slog.Logger

	// Now is the clock, for tests. Nil: time.Now.
	Now func() time.Time
}

// Facts observes the verdicts of a limiter. It is safe for concurrent use.
//
// A decision adds to a counter of its rule, and leaves a note about its key in a bounded table; there
// are about two tables for each processor. A background goroutine (Run) takes the notes over. Decisions of
// busy rules are sampled, and where tables are full notes of rare keys are, so that neither memory nor the work in the
// background grows with the traffic.
type Facts struct {
	options Options
	counted func(domain, rule string) Counts
	secret  []byte
	print   string      // fingerprint of secret
	seed    system.Seed // for the hashes of keys, derived from secret, so that nodes can merge counts of keys
	now     func() time.Time
	log     *slog.Logger

	board   atomic.Pointer[board]
	shards  []shard
	shift   uint // 64 less the bits of the index of a shard
	latency sketch.Latency

	mu      sync.Mutex // guards the fields below, and those of rules that say so
	since   time.Time
	began   time.Time // of the current generation of keys
	minute  time.Time // the minute whose history is not finished
	saved   time.Time
	marks   []Mark
	retired map[ruleName]*ruleFacts // of rules that the table no longer has
	denials *denials.Log
	events  []event // of all shards; memory that is used again
	others  others
}

// New returns facts without any. It reads the state file; a damaged file is an error, one that is not
// there is none.
func New(o Options) (*Facts, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Secret == nil {
		o.Secret = NewSecret()
	}
	shards := 1 << bits.Len(uint(min(runtime.GOMAXPROCS(0), 16)))
	f := &Facts{
		options: o, counted: o.Counts, secret: derive(o.Secret, "key of facts"), now: o.Now, log: o.Log,
		shards: make([]shard, shards), shift: uint(64 - bits.TrailingZeros(uint(shards))), retired: map[ruleName]*ruleFacts{},
	}
	f.print = hex.EncodeToString(derive(f.secret, "fingerprint")[:8])
	hashes := derive(f.secret, "hashes of keys")
	for i := range f.seed {
		f.seed[i] = binary.LittleEndian.Uint64(hashes[8*i:]) | 1<<(i+1) // never 0
	}
	for i := range f.shards {
		f.shards[i].init(shards)
	}
	f.since, f.began = f.now(), f.now()
	f.minute, f.saved = f.since.Truncate(Minute), f.since
	f.board.Store(newBoard(nil, nil, nil, shards))
	var err error
	if f.denials, err = denials.Open(o.Denials, f.now, f.log); err != nil {
		return nil, err
	}
	if o.State != "" {
		if err := f.load(); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, errors.Join(err, f.denials.Close())
		}
	}
	f.Mark("start", "")
	return f, nil
}

// NewSecret returns a random secret.
func NewSecret() []byte { return []byte(rand.Text() + rand.Text()) }

// derive returns a key for a purpose.
func derive(secret []byte, purpose string) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(purpose))
	return mac.Sum(nil)
}

// ID returns how a key of the store is shown: its HMAC-SHA256 under the secret, 16 bytes in
// hexadecimal. Keys of rules are those of the takes, see [limiter.Verdict.Take].
func (f *Facts) ID(key stint.Key) string {
	var buffer [maxKey]byte
	return f.id(appendCanonical(buffer[:0], string(key)))
}

// id returns the ID of a key in its canonical form.
func (f *Facts) id(canonical []byte) string {
	mac := hmac.New(sha256.New, f.secret)
	mac.Write(canonical)
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// appendCanonical appends a key, or the hash of one that is long.
func appendCanonical(dst []byte, key string) []byte {
	if len(key) <= maxKey {
		return append(dst, key...)
	}
	sum := sha256.Sum256([]byte(key))
	return append(append(dst, '#'), sum[:]...)
}

// Reloaded sets the rules in force. Rules keep their facts as long as one with the same domain and name
// exists, and get them back if it returns. It must be called before the first decision, and before what
// Options.Counts asks learns of the table. first says
// that it is the one at the start of the process, which is no reload.
func (f *Facts) Reloaded(table *rule.Table, first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.board.Load()
	for _, r := range before.all() {
		r.countsLocked(f.counted) // the counter of a rule may go with it
	}
	b := newBoard(table, before, f.retired, len(f.shards))
	f.board.Store(b)
	for name, r := range before.byName {
		if b.byName[name] == nil {
			r.recordLocked(f.minute, f.counted) // nobody does while the rule is away
			r.since = time.Time{}
			f.retired[name] = r
		}
	}
	for name, r := range b.byName {
		delete(f.retired, name)
		if r.since.IsZero() {
			r.since = f.now()
		}
		if limit := numbers(r.rule.Load().Limit); r.peaks.limit != limit {
			r.peaks = peaks{limit: limit} // shares of other numbers say nothing about these
		}
	}
	for name := range f.retired {
		if first || len(f.retired) <= maxRetired {
			break // at the start those of the state file wait for their rules
		}
		delete(f.retired, name)
	}
	if !first && table != nil {
		f.markLocked("reload", "rules "+table.Hash())
	}
}

// numbers returns the numbers of a limit that its shares depend on.
func numbers(l *stint.Limit) string {
	s := l.Spec()
	return fmt.Sprintf("%s %d per %s %s from %d burst %d", s.Algorithm, s.Requests, s.Per, s.Calendar, s.Anchor, s.Burst)
}

// maxRetired is the most rules without a table whose facts are kept after a reload, in case they return.
const maxRetired = 1000

// maxMarks is the most marks that are kept.
const maxMarks = 1000

// Mark notes a change on the history: reload, failed reload, epoch, start. The note must not have
// anything secret.
func (f *Facts) Mark(what, note string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.markLocked(what, note)
}

func (f *Facts) markLocked(what, note string) {
	f.marks = append(f.marks, Mark{At: f.now(), What: what, Note: note})
	f.marks = f.marks[max(len(f.marks)-maxMarks, 0):]
}

// Run takes over the notes of decisions, keeps the history and the state file, and exchanges
// summaries, until ctx is done.
//
// Its goroutines have the profile label "stint: facts".
func (f *Facts) Run(ctx context.Context) {
	pprof.Do(ctx, pprof.Labels("stint", "facts"), f.run)
}

func (f *Facts) run(ctx context.Context) {
	var group sync.WaitGroup
	if f.options.Exchange != nil {
		group.Go(func() { system.Every(ctx, publishEvery, func() { f.publish(ctx) }) })
	}
	system.Every(ctx, flushEvery, f.Flush)
	group.Wait()
	f.Flush()
}

// Flush takes over the notes of decisions. Run calls it many times a second; tests call it to see
// everything at once.
func (f *Facts) Flush() {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	f.takeOverLocked(now)
	f.denials.Flush()
	if now.Sub(f.began) >= generation || now.Before(f.began) {
		f.began = now
		for _, r := range f.board.Load().all() {
			r.rotateLocked(now)
		}
	}
	if minute := now.Truncate(Minute); minute.After(f.minute) || minute.Before(f.minute.Add(-TenMinutes)) {
		f.recordLocked(f.minute)
		f.minute = minute
		f.latency.Rotate()
	}
	if f.options.State != "" && now.Sub(f.saved).Abs() >= saveEvery {
		f.saved = now
		if err := f.saveLocked(); err != nil {
			f.log.Error("facts not saved: a restart goes back to older ones", "file", f.options.State, "error", err, "hint", "see that the disk has room and the folder can be written")
		}
	}
}

// Close writes the state file and closes the log of denials. Run must have ended.
func (f *Facts) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var err error
	if f.options.State != "" {
		f.recordLocked(f.minute)
		err = f.saveLocked()
	}
	return errors.Join(err, f.denials.Close())
}

// Discard closes the log of denials and writes nothing, for a service that never ran.
func (f *Facts) Discard() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.denials.Close()
}

// Facts observes decisions and reads facts.
var (
	_ limiter.BatchObserver = (*Facts)(nil)
	_ Reader                = (*Facts)(nil)
)
