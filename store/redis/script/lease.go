package script

import (
	"encoding/binary"
	"math"
	"time"

	"stint"
)

// LeaseTake is a take for lua/lease.lua, of a limit that it decides, see [Quick.Leases].
type LeaseTake struct {
	Limit *stint.Limit
	Quick *Quick
	Cost  uint64
	Loan  *stint.Loan   // the node's report; read fills in the answer
	Known stint.Instant // the epoch that this store remembers
}

// Leases reports whether lease.lua can decide takes of a limit. Limit must be that of the form.
func (f *Quick) Leases(limit *stint.Limit) bool {
	return f.Per == 0 && limit.Algorithm() == stint.TokenBucket && limit.ForStores().Leasable()
}

// LeaseCall collects the takes of one batch for lease.lua.
type LeaseCall struct {
	Keys, Words []string
	numbers     []byte
}

// Add adds a take of a key.
func (c *LeaseCall) Add(key string, t LeaseTake) {
	if len(c.Words) == 0 {
		c.Words = append(c.Words, "")
	}
	c.Keys, c.Words = append(c.Keys, key), append(c.Words, t.Quick.Head)
	c.numbers = Doubles(c.numbers, int64(min(t.Cost, maxUnits)), t.Limit.Capacity(), int64(t.Quick.Charge))
	c.numbers = Doubles(c.numbers, LoanNumbers(t.Loan, t.Known)...)
}

// Finish returns the words.
func (c *LeaseCall) Finish() []string {
	c.Words[0] = string(c.numbers)
	return c.Words
}

// BeginLeases returns the arguments of lease.lua before any take: at is the time, 0 for that of the
// server, and spare is how many milliseconds keys live longer than their states.
func BeginLeases(at stint.Instant, spare int64) (keys, words []string) {
	return nil, []string{string(Doubles(nil, int64(at), spare))}
}

// JoinLeases appends the words of a batch to those of others.
func JoinLeases(words, more []string) []string {
	words[0] += more[0]
	return append(words, more[1:]...)
}

// LeaseAnswer is the beginning of the answer of lease.lua.
type LeaseAnswer struct {
	Now     stint.Instant
	Began   stint.Instant // the epoch; below 0 if it follows a loss
	Process int64         // the address of the server's interpreter
}

// ReadLeases parses the beginning of an answer. It returns false if it has another form.
func ReadLeases(text string) (a LeaseAnswer, ok bool) {
	var n [3]int64
	ok = numbersIn(text, n[:])
	return LeaseAnswer{stint.Instant(n[0]), stint.Instant(n[1]), n[2]}, ok
}

// Read parses the answer to a take, which is not empty, into the loan. It returns false if the answer
// has another form.
func (t *LeaseTake) Read(said *LeaseAnswer, text string) (d stint.Decision, ok bool) {
	var n [9]int64
	if !numbersIn(text, n[:]) {
		return d, false
	}
	d = stint.Decision{
		Allowed: n[0] == 1, Limit: t.Limit.Capacity(), Remaining: n[1],
		RetryAfter: Span(n[2]), ResetAfter: Span(n[3]), At: said.Now,
	}
	if n[2] < 0 {
		d.RetryAfter = stint.Never
	}
	a := t.Loan
	a.Answer(stint.Epoch{Began: max(said.Began, -said.Began)})
	a.Grant, a.Held, a.Lease, a.Empty, a.Recall = uint32(n[4]), uint32(n[5]), Span(n[6]), Span(n[7]), n[8] == 1
	return d, true
}

// numbersIn parses a text of doubles, which are whole numbers.
func numbersIn(text string, numbers []int64) bool {
	if len(text) != 8*len(numbers) {
		return false
	}
	for i := range numbers {
		numbers[i] = int64(math.Float64frombits(binary.LittleEndian.Uint64([]byte(text[8*i:]))))
	}
	return true
}

// Span turns microseconds into a Duration, as the root package does.
func Span(micros int64) time.Duration { return stint.Instant(micros).Sub(0) }
