package facts

import (
	"math/bits"
	"runtime"
	"sync/atomic"

	"stint"
	"stint/facts/denials"
	"stint/facts/sketch"
	"stint/limiter"
)

// The kinds of counts of a key.
const (
	denied = iota
	allowed
	over
)

const (
	// maxKey is the longest key that is noted as it is; of a longer one its hash is.
	maxKey = 120

	// All shards together have room for these many notes between two flushes, and one alone for half of
	// the notes in detail; sampling leaves most of the room free. The background goroutine needs about a
	// quarter of a microsecond for each, and there are five flushes a second, so that it works at most about
	// 10 ms a second.
	tableSlots  = 1024
	rareNotes   = 4096
	detailNotes = 2048
)

// shard has the notes of decisions. It is locked for some nanoseconds at a time; who finds it in use
// takes another one.
type shard struct {
	busy    atomic.Bool
	filling *notes // guarded by busy
	taken   *notes // guarded by Facts.mu
	_       [40]byte
}

func (s *shard) init(shards int) {
	s.filling, s.taken = newNotes(shards), newNotes(shards)
}

// swap takes the notes of the shard.
func (s *shard) swap() *notes {
	s.taken.reset()
	for !s.busy.CompareAndSwap(false, true) {
		runtime.Gosched()
	}
	s.filling, s.taken = s.taken, s.filling
	s.filling.threshold = s.taken.nextThreshold()
	s.busy.Store(false)
	return s.taken
}

// notes are what decisions left between two flushes.
type notes struct {
	// table has the counts of keys, by their hash. A key that finds its slot in use by another one
	// goes into rare; if this happens more often than that the other one is found, it takes the slot.
	table []keyNote

	// rare has the other keys. If it gets full they are sampled by their weight, as in N. Duffield, C.
	// Lund, M. Thorup, "Learn more, sample less", 2005: one of weight w below a threshold is kept with
	// the probability w/threshold, and then counts as threshold.
	rare      []keyNote
	threshold uint32 // at the begin
	weight    uint64 // of all keys that went to rare

	events []event // of keys of samples
	random uint64
}

// keyNote has the counts of a key.
type keyNote struct {
	rule   *ruleFacts // nil: nothing is here; see refusal
	hash   uint64
	counts [sketch.Kinds]uint32
	votes  uint32
	denial denialNote

	// notes are the decisions that were counted. If each stood for several, variance is that of counts.
	notes    [2]uint32 // denied, allowed
	variance [sketch.Kinds]uint32

	// If the note itself was sampled, its counts are to be multiplied by scale and divided by weight. 0: it
	// was not.
	scale, weight uint32

	keyLen uint8
	key    [maxKey]byte
}

// denialNote is about the first denied request of a keyNote.
type denialNote struct {
	at         stint.Instant
	limit      int64
	retryAfter int64
	reason     limiter.Reason
	refusal    string // name of a list or of a kind of refusal, without a rule
	domain     string
	degraded   bool
	denied     bool // the request was denied, and not only by a rule in shadow mode
	id         denials.RequestID
}

func newNotes(shards int) *notes {
	n := &notes{
		table: make([]keyNote, tableSlots/shards), rare: make([]keyNote, 0, rareNotes/shards),
		events: make([]event, 0, detailNotes/2), threshold: 1, random: golden,
	}
	return n
}

// reset empties the notes.
func (n *notes) reset() {
	for i := range n.table {
		n.table[i].rule, n.table[i].denial.refusal = nil, ""
	}
	n.rare, n.events, n.weight = n.rare[:0], n.events[:0], 0
}

// nextThreshold returns the threshold with which as many rare keys would have filled half of the room.
func (n *notes) nextThreshold() uint32 {
	return uint32(max(n.weight/uint64(cap(n.rare)/2), 1))
}

// addKey counts a decision for its key.
func (n *notes) addKey(d *noted) {
	k := &n.table[d.hash>>32%uint64(len(n.table))]
	switch {
	case k.rule == d.rule && k.hash == d.hash:
		k.votes++
	case k.rule == nil && k.denial.refusal == "":
		k.begin(d)
	default:
		if k.votes > 1 {
			k.votes--
			k = n.addRare(d)
		} else {
			n.move(k)
			k.begin(d)
		}
	}
	if k != nil {
		k.add(d)
	}
}

// begin makes the note one of the key of a decision, without counts.
func (k *keyNote) begin(d *noted) {
	k.rule, k.hash, k.votes, k.scale = d.rule, d.hash, 1, 0
	k.counts, k.notes, k.variance = [sketch.Kinds]uint32{}, [2]uint32{}, [sketch.Kinds]uint32{}
	k.denial.refusal, k.denial.at = "", 0
	k.keyLen = uint8(len(appendCanonical(k.key[:0], string(d.key))))
}

// add adds a decision to the counts.
func (k *keyNote) add(d *noted) {
	count := uint32(1) << d.bits
	kind := denied
	if d.a.Allowed {
		kind = allowed
		if d.a.Over {
			k.counts[over] += count
			k.variance[over] += count * (count - 1)
		}
	}
	k.counts[kind] += count
	k.variance[kind] += count * (count - 1)
	k.notes[kind]++
	if kind == denied && k.denial.at == 0 {
		k.denial.set(d)
	}
}

// set notes a denied request.
func (n *denialNote) set(d *noted) {
	n.at = max(d.a.At, 1)
	n.limit, n.retryAfter, n.degraded = d.a.Limit, int64(d.a.RetryAfter), d.a.Degraded
	n.reason = d.v.Reason()
	n.denied = !d.v.Allowed
	n.id.Set(d.v.RequestID)
}

// weightOf returns how much notes weigh when they are sampled. Denied requests may stand for fewer than
// allowed ones do.
func (k *keyNote) weightOf() uint32 { return max(k.notes[denied]+k.notes[allowed], 1) }

// addRare returns a new note among the rare keys; nil if it is not kept.
func (n *notes) addRare(d *noted) *keyNote {
	scale, kept := n.keep(1)
	if !kept {
		return nil
	}
	n.rare = n.rare[:len(n.rare)+1]
	k := &n.rare[len(n.rare)-1]
	k.begin(d)
	k.scale, k.weight = scale, 1
	return k
}

// move moves a note from the table to the rare keys, or drops it.
func (n *notes) move(k *keyNote) {
	weight := k.weightOf()
	scale, kept := n.keep(weight)
	if !kept {
		return
	}
	n.rare = n.rare[:len(n.rare)+1]
	moved := &n.rare[len(n.rare)-1]
	*moved = *k
	moved.scale, moved.weight = scale, weight
}

// keep reports whether a note of this weight is kept, and its scale. While the room fills up, the threshold doubles
// whenever half of what was left is used.
func (n *notes) keep(weight uint32) (scale uint32, kept bool) {
	n.weight += uint64(weight)
	room := cap(n.rare) - len(n.rare)
	if room == 0 {
		return 0, false
	}
	threshold := n.threshold << uint(min(bits.Len(uint(cap(n.rare)/room))-1, 16))
	if weight >= threshold {
		return 0, true
	}
	n.random ^= n.random << 13
	n.random ^= n.random >> 7
	n.random ^= n.random << 17
	return threshold, uint64(uint32(n.random))*uint64(threshold)>>32 < uint64(weight)
}

// addRefusal notes a request that a ban or a list denied.
func (n *notes) addRefusal(hash uint64, v *limiter.Verdict, name, domain string) {
	k := &n.table[hash>>32%uint64(len(n.table))]
	switch {
	case k.rule == nil && k.denial.refusal == name && k.denial.domain == domain:
		k.counts[denied]++
		return
	case k.rule != nil:
		n.move(k)
	}
	*k = keyNote{hash: hash, counts: [sketch.Kinds]uint32{denied: 1}, denial: denialNote{
		at: max(v.At, 1), retryAfter: int64(v.RetryAfter), reason: v.Reason(), refusal: name, domain: domain, denied: true,
	}}
	k.denial.id.Set(v.RequestID)
}
