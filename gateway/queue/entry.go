package queue

import (
	"errors"
	"time"
)

// State is the state of a record.
type State string

// The states of a record. A record is unfinished while it is waiting or claimed; then it has a place in
// its line.
const (
	// Waiting records are sent when those before them in their line are finished and their time has come.
	Waiting State = "waiting"

	// Claimed records are with a worker, until their claim runs out.
	Claimed State = "claimed"

	// Done records have an answer of the upstream.
	Done State = "done"

	// Failed records were refused before they were sent: their client is banned, or its key is not valid
	// any more.
	Failed State = "failed"

	// Dead records were tried too often. They stay until somebody retries or drops them, and count as
	// records that wait, but block nobody.
	Dead State = "dead"

	// Cancelled records were cancelled by their client.
	Cancelled State = "cancelled"

	// Gone records are too old. They have no answer any more.
	Gone State = "gone"

	// Removed is the state to give to a record in Change to remove it.
	Removed State = ""
)

// States are all states of stored records.
var States = []State{Waiting, Claimed, Done, Failed, Dead, Cancelled, Gone}

// Unfinished reports whether a record in this state has a place in its line.
func (s State) Unfinished() bool { return s == Waiting || s == Claimed }

// Counted reports whether a record in this state counts towards the places and bytes of its rule, and
// whether its request is kept.
func (s State) Counted() bool { return s.Unfinished() || s == Dead }

// Entry is a record as a storage sees it. The storage does not read the request and the answer.
type Entry struct {
	ID   string `json:"id"`   // 32 hex digits
	Line string `json:"line"` // hash of rule and key
	Rule string `json:"rule"` // name of the rule; its records share places and bytes

	// Who is a hash of the client who may see and cancel the record.
	Who string `json:"who"`

	State State `json:"state"`

	// At is the time of the next step: the earliest time to send a waiting record, the end of a claim,
	// the time to forget a finished record.
	At time.Time `json:"at"`

	Made  time.Time     `json:"made"`  // when the request was accepted
	Ended time.Time     `json:"ended"` // when the record was finished; zero before
	Keep  time.Duration `json:"keep"`  // how long the record is kept once it is finished

	Tries   int    `json:"tries"`   // how often sending it was begun
	Claimer string `json:"claimer"` // who has claimed it; "" for nobody
	Reason  string `json:"reason"`  // why the last try failed, without personal data; "" if none did
	Size    int    `json:"size"`    // bytes of the request as stored

	// Sending means that the last claim began to send the record. If the claim runs out, the upstream
	// may have the request.
	Sending bool `json:"sending"`

	Data   []byte `json:"-"` // request, see [Record]; nil once it is not needed any more
	Answer []byte `json:"-"` // answer of the upstream, see [Answer]; nil for none
}

// Overhead is how many bytes a record counts in addition to its request.
const Overhead = 512

// Bytes returns how many bytes the record counts towards the bytes of its rule.
func (e *Entry) Bytes() int64 { return int64(e.Size) + Overhead }

// Bounds limits the records of a rule.
type Bounds struct {
	Places int   // records that wait, are claimed or are dead
	Bytes  int64 // bytes of their requests
}

// Stats are the numbers of the records of one rule.
type Stats struct {
	Waiting int       `json:"waiting"` // waiting or claimed
	Dead    int       `json:"dead"`
	Bytes   int64     `json:"bytes"`  // of records that wait, are claimed or are dead
	Oldest  time.Time `json:"oldest"` // when the oldest unfinished record was accepted; zero for none
	Kept    int       `json:"kept"`   // finished records that are still kept
}

// Errors of a storage, to compare with errors.Is.
var (
	// ErrFull means that the rule has no place or no bytes left, or that the disk is full. The record is
	// not stored.
	ErrFull = errors.New("the queue is full")

	// ErrUnknown means that no record has this ID.
	ErrUnknown = errors.New("no such record")

	// ErrLost means that the claim of a record ran out, and that somebody else may send it.
	ErrLost = errors.New("the claim ran out")
)

// ListTime returns the time by which List orders the record.
func (e *Entry) ListTime() time.Time {
	if e.State.Counted() {
		return e.Made
	}
	return e.At
}
