package script

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"stint"
	"stint/internal/transaction"
)

// Ledger is what a store remembers of the durable takes of a partition: see lua/durable.lua. It is safe for
// concurrent use. In the zero Ledger no server has answered a durable take yet.
type Ledger struct {
	mu   sync.Mutex
	last claim // of the last era
	late claim // of an answer that came after one of a later era; the next claim
	lost stint.Instant
}

// claim says how many groups with durable takes a server has answered in an era.
type claim struct{ era, seq int64 }

// ledgerFields is how many numbers decide.lua answers for a ledger.
const ledgerFields = 3

// answered notes the answer of a server.
func (l *Ledger) answered(n []int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	is := claim{n[0], n[1]}
	switch {
	case is.era < l.last.era:
		if is.era > l.late.era || is.era == l.late.era && is.seq > l.late.seq {
			l.late = is
		}
		return
	case is.era > l.last.era:
		l.lost = 0 // it may have been noted in a server that is gone
		fallthrough
	case is.seq > l.last.seq:
		l.last = is
	}
	l.lost = max(l.lost, stint.Instant(n[2]))
}

// claim returns what to claim, and the last loss that a server has answered.
func (l *Ledger) claim() (claim, stint.Instant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.late.era > 0 {
		late := l.late
		l.late = claim{}
		return late, l.lost
	}
	return l.last, l.lost
}

// Lost returns when the server lost counts last; 0: never, as far as this store knows.
func (l *Ledger) Lost() stint.Instant {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// Used reports whether a server has answered a durable take.
func (l *Ledger) Used() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last.era > 0
}

// DurableTake is what lua/durable.lua needs of a durable take.
type DurableTake struct {
	Key    string // of the ledger in Redis
	Ledger *Ledger
	rule   string
	limit  *stint.Limit
}

// NewDurableTake returns what is needed of a take in a partition whose keys begin with prefix; nil if the take is
// not durable.
func NewDurableTake(prefix string, l *Ledger, t *stint.Take) *DurableTake {
	if !transaction.Durable(t) {
		return nil
	}
	return &DurableTake{Key: LedgerKey(prefix), Ledger: l, rule: transaction.RuleName(t.Terms().Domain, t.Terms().Rule), limit: t.Limit}
}

// LedgerKey returns the key of the ledger of a partition.
func LedgerKey(prefix string) string { return prefix + "durable" }

// Append appends the arguments for decide.lua.
func (d *DurableTake) Append(args []string) []string {
	is, lost := d.Ledger.claim()
	ends := stint.Instant(0)
	if lost > 0 {
		ends = transaction.LossEnds(d.limit, lost)
	}
	return append(args, Number(is.era), Number(is.seq), Number(int64(lost)), Number(int64(ends)), d.rule)
}

// CutLedger notes what an answer has for its ledger, and returns the answer without it.
func (d *DurableTake) CutLedger(n []int64) []int64 {
	if len(n) < ledgerFields {
		return nil
	}
	at := len(n) - ledgerFields
	d.Ledger.answered(n[at:])
	return n[:at]
}

// UnknownLoss parses the answer that a group was not decided because this store does not know the last loss.
func UnknownLoss(answer string) (lost stint.Instant, is bool) {
	text, is := strings.CutPrefix(answer, "STINT-LOSS ")
	n, err := strconv.ParseInt(text, 10, 64)
	return stint.Instant(n), is && err == nil
}

// NoteLoss notes a loss that a server has answered.
func (d *DurableTake) NoteLoss(lost stint.Instant) {
	d.Ledger.mu.Lock()
	defer d.Ledger.mu.Unlock()
	d.Ledger.lost = lost
}

// Lost is the first word of a text of LostCounts.
const Lost = "STINT-LOST"

// LostCounts returns the text about a take that follows its policy after a loss; false if the reason why its state
// cannot be read is another one.
func LostCounts(why string) (problem string, is bool) {
	text, is := strings.CutPrefix(why, Lost+" ")
	lost, rule, _ := strings.Cut(text, " ")
	n, err := strconv.ParseInt(lost, 10, 64)
	if !is || err != nil {
		return "", false
	}
	return fmt.Sprintf("%s counts of the durable rule %s at %s", Lost, rule, stint.Instant(n).Time().UTC().Format("2006-01-02T15:04:05Z")), true
}
