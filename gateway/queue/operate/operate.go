// Package operate lists, shows, retries and drops records of the queue, for operators: in this process, or
// over the admin endpoint of a running gateway, which serves a Handler.
package operate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"stint/gateway/queue"
	"stint/gateway/queue/seal"
)

// Operations are what an operator can do with the records. All errors that are no faults of a storage or a
// network are an [*Error].
type Operations interface {
	// List returns up to limit records of a state, the oldest first; "" is all that are waiting, claimed or
	// dead.
	List(ctx context.Context, state queue.State, limit int) ([]Item, error)

	// Show returns a record with its request and answer.
	Show(ctx context.Context, id string) (*Detail, error)

	// Retry sends a dead record again, at the end of its line, or a waiting one now.
	Retry(ctx context.Context, id string) error

	// Drop removes a record for good, unless it is being sent.
	Drop(ctx context.Context, id string) error
}

// Error is a refusal with a hint.
type Error struct {
	Status  int    `json:"-"` // of HTTP
	Problem string `json:"message"`
	Hint    string `json:"hint"`
}

// Error returns the problem, without the hint.
func (e *Error) Error() string { return e.Problem }

// Item is a record in a list.
type Item struct {
	ID     string      `json:"id"`
	State  queue.State `json:"state"`
	Rule   string      `json:"rule"`
	Line   string      `json:"line"`
	Made   time.Time   `json:"made"`
	At     time.Time   `json:"at"` // next try, end of the claim, or when it is forgotten
	Tries  int         `json:"tries"`
	Bytes  int         `json:"bytes"`
	Reason string      `json:"reason,omitempty"`
}

// Detail is a record with all that is known of it.
type Detail struct {
	Item
	Request *queue.Record `json:"request,omitempty"`
	Body    []byte        `json:"body,omitempty"`
	Answer  *queue.Answer `json:"answer,omitempty"`

	// AnswerBody is the body of Answer, as Body is that of Request.
	AnswerBody []byte `json:"answer_body,omitempty"`

	// Problem says why request or answer cannot be read; "" if they can.
	Problem string `json:"problem,omitempty"`
}

// Local operates on a storage in this process.
type Local struct {
	Storage queue.Records
	Keys    *seal.Keys // nil: records in clear can be read

	// Changed is called after a retry, so that a worker looks for the record. Nil: not called.
	Changed func()
}

var _ Operations = (*Local)(nil)

// MaxList is the largest limit of List.
const MaxList = 10_000

// listed are the states that List shows without a state.
var listed = []queue.State{queue.Claimed, queue.Waiting, queue.Dead}

// List implements Operations.
func (l *Local) List(ctx context.Context, state queue.State, limit int) ([]Item, error) {
	states := listed
	if state != "" {
		if !slices.Contains(queue.States, state) {
			return nil, &Error{http.StatusBadRequest, fmt.Sprintf("unknown state %q", state), "write one of " + words()}
		}
		states = []queue.State{state}
	}
	items := []Item{}
	for _, s := range states {
		entries, err := l.Storage.List(ctx, s, nil, min(max(limit-len(items), 0), MaxList))
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			items = append(items, itemOf(e))
		}
	}
	return items, nil
}

func words() string {
	names := make([]string, len(queue.States))
	for i, s := range queue.States {
		names[i] = string(s)
	}
	return strings.Join(names, ", ")
}

func itemOf(e *queue.Entry) Item {
	return Item{ID: e.ID, State: e.State, Rule: e.Rule, Line: e.Line, Made: e.Made, At: e.At, Tries: e.Tries, Bytes: e.Size, Reason: e.Reason}
}

// Show implements Operations.
func (l *Local) Show(ctx context.Context, id string) (*Detail, error) {
	e, err := l.Storage.Get(ctx, id)
	if err != nil {
		return nil, explain(id, err)
	}
	d := &Detail{Item: itemOf(e)}
	var faults []string
	if e.Data != nil {
		data, err := l.Keys.Open(id, "data", e.Data)
		if err == nil {
			d.Request, err = queue.DecodeRecord(data)
		}
		if err != nil {
			faults = append(faults, "the request cannot be read: "+err.Error())
			d.Request = nil
		} else {
			d.Body = d.Request.Body
		}
	}
	if e.Answer != nil {
		data, err := l.Keys.Open(id, "answer", e.Answer)
		if err == nil {
			d.Answer, err = queue.DecodeAnswer(data)
		}
		if err != nil {
			faults = append(faults, "the answer cannot be read: "+err.Error())
			d.Answer = nil
		} else {
			d.AnswerBody = d.Answer.Body
		}
	}
	d.Problem = strings.Join(faults, "; ")
	return d, nil
}

// Retry implements Operations.
func (l *Local) Retry(ctx context.Context, id string) error {
	err := l.Storage.Change(ctx, id, func(e *queue.Entry) error {
		switch e.State {
		case queue.Dead:
			e.Tries = 0
		case queue.Waiting:
		default:
			return refused(e, "only dead and waiting records can be sent again")
		}
		e.State, e.At, e.Ended, e.Reason = queue.Waiting, time.Now(), time.Time{}, ""
		return nil
	})
	if err == nil && l.Changed != nil {
		l.Changed()
	}
	return explain(id, err)
}

// Drop implements Operations.
func (l *Local) Drop(ctx context.Context, id string) error {
	return explain(id, l.Storage.Change(ctx, id, func(e *queue.Entry) error {
		if e.State == queue.Claimed {
			return refused(e, "wait until its try has ended, or until its claim runs out")
		}
		e.State = queue.Removed
		return nil
	}))
}

func refused(e *queue.Entry, hint string) *Error {
	return &Error{http.StatusConflict, fmt.Sprintf("record %s is %s", e.ID, e.State), hint}
}

// explain adds a hint to errors about an ID.
func explain(id string, err error) error {
	if errors.Is(err, queue.ErrUnknown) {
		return &Error{http.StatusNotFound, fmt.Sprintf("no record %q", id), "stint-gateway queue list shows the IDs; finished records are forgotten after a while"}
	}
	return err
}
