package inforce

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"time"

	"stint/records"
	"stint/records/transfer"
	"stint/rule"
	"stint/rule/catalog"
	"stint/rule/catalog/book"
)

// Rules joins a book and a file: it is the [book.Shared] of the one and the [records.RuleSet] of the
// other. Make it by NewRules, open the file with it, then call Use. It is safe for concurrent use.
type Rules struct {
	book *book.Book
	log  *slog.Logger

	mu   sync.Mutex
	file *records.File // nil before Use
}

var (
	_ book.Shared     = (*Rules)(nil)
	_ records.RuleSet = (*Rules)(nil)
)

// NewRules returns rules without a file. log gets errors that nobody else gets.
func NewRules(o catalog.Options, log *slog.Logger) *Rules {
	r := &Rules{log: log}
	r.book = book.NewShared(r, o)
	return r
}

// Use sets the file that was opened with r.
func (r *Rules) Use(file *records.File) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.file = file
}

// Book returns the book. Its changes fail before Use.
func (r *Rules) Book() *book.Book { return r.book }

var errNoFile = errors.New("the records are not open yet")

func (r *Rules) opened() (*records.File, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return nil, errNoFile
	}
	return r.file, nil
}

// stored is a rule in JSON, as in a line of a JSON Lines file.
type stored struct {
	ID        string  `json:"id"`
	UID       string  `json:"uid,omitempty"`
	URL       string  `json:"url"`
	Time      string  `json:"time,omitempty"`
	Requests  *uint64 `json:"requests,omitempty"` // nil for an unlimited rule
	Algorithm string  `json:"algorithm,omitempty"`
	Burst     uint64  `json:"burst,omitempty"`
	Domain    string  `json:"domain,omitempty"`
	Policy    string  `json:"policy,omitempty"`
}

func encode(r *catalog.Rule) (records.Rule, error) {
	s := stored{ID: r.ID, UID: r.UID, URL: r.URL, Time: r.Time, Algorithm: r.Algorithm, Burst: r.Burst, Domain: r.Domain, Policy: r.Policy}
	if r.Time != "" {
		s.Requests = &r.Requests
	}
	text, err := json.Marshal(s)
	return records.Rule{Name: r.ID, Text: text}, err
}

func decode(r records.Rule) (catalog.Rule, error) {
	rule, err := book.ReadOne(r.Text, r.Name)
	if err != nil {
		return rule, fmt.Errorf("rule %q in the records: %w", r.Name, err)
	}
	return rule, nil
}

// Get implements book.Shared.
func (r *Rules) Get(id string) (rule catalog.Rule, revision uint64, err error) {
	file, err := r.opened()
	if err != nil {
		return rule, 0, err
	}
	e, ok, err := file.Get(records.ID{Kind: records.Rules, Name: id})
	if err != nil || !ok {
		return rule, 0, err
	}
	record, _ := e.Record.(records.Rule)
	rule, err = decode(record)
	return rule, e.Revision, err
}

// Revision implements book.Shared.
func (r *Rules) Revision() (uint64, error) {
	file, err := r.opened()
	if err != nil {
		return 0, err
	}
	return file.Revision()
}

// Change implements book.Shared. The caller and the reason are those of [WithActor].
func (r *Rules) Change(ctx context.Context, c book.Change) error {
	file, err := r.opened()
	if err != nil {
		return err
	}
	change := records.Change{IfMatch: c.Revision, Import: c.Import, Edits: make([]records.Edit, len(c.Edits))}
	change.By, change.Why = callOf(ctx)
	for i := range c.Edits {
		e, to := &c.Edits[i], &change.Edits[i]
		to.IfMatch, to.IfAbsent = e.Revision, e.Absent
		if e.Delete {
			to.Delete = records.ID{Kind: records.Rules, Name: e.Rule.ID}
			continue
		}
		if to.Put, err = encode(&e.Rule); err != nil {
			return err
		}
	}
	if c.Import {
		r.order(change.Edits)
	}
	_, err = transfer.Apply(ctx, file, change, time.Now())
	if _, partly := errors.AsType[*transfer.PartError](err); !partly && (errors.Is(err, records.ErrConflict) || errors.Is(err, records.ErrMissing)) {
		return fmt.Errorf("%w: %w", book.ErrMoved, err)
	}
	return err
}

// order sorts the edits of an import so that they fit after each part of it: first rules that are deleted, then
// those that change, which may take the place of each other, then new ones.
func (r *Rules) order(edits []records.Edit) {
	rank := make(map[string]int, len(edits))
	for i := range edits {
		if put, is := edits[i].Put.(records.Rule); is {
			rank[put.Name] = 2
			if _, there := r.book.Catalog().Get(put.Name); there {
				rank[put.Name] = 1
			}
		}
	}
	of := func(e *records.Edit) int {
		put, _ := e.Put.(records.Rule)
		return rank[put.Name]
	}
	slices.SortStableFunc(edits, func(a, b records.Edit) int { return cmp.Compare(of(&a), of(&b)) })
}

// Check implements records.RuleSet.
func (r *Rules) Check(given records.Rule) (records.Record, *records.Error) {
	read, err := book.ReadOne(given.Text, given.Name)
	if err == nil {
		err = read.Check()
	}
	if err == nil {
		given, err = encode(&read)
	}
	if err != nil {
		return nil, faultOf(given.Name, err)
	}
	return given, nil
}

// faultOf returns the fault of a rule.
func faultOf(id string, err error) *records.Error {
	where := records.ID{Kind: records.Rules, Name: id}.String()
	if wrong, ok := errors.AsType[*rule.Error](err); ok {
		return &records.Error{Where: where, Problem: wrong.Problem, Hint: wrong.Hint}
	}
	if wrong, ok := errors.AsType[*catalog.Error](err); ok {
		if where = (records.ID{Kind: records.Rules, Name: wrong.ID}).String(); wrong.Field != "" {
			where += ": " + wrong.Field
		}
		return &records.Error{Where: where, Problem: wrong.Problem, Hint: wrong.Hint, Err: errors.Join(records.ErrUnfit, err)}
	}
	return &records.Error{Where: where, Problem: err.Error(), Hint: "correct the rule"}
}

// Prepare implements records.RuleSet.
func (r *Rules) Prepare(edits []records.Edit) (commit func(), err error) {
	changes := make([]catalog.Edit, len(edits))
	for i := range edits {
		record, put := edits[i].Put.(records.Rule)
		if !put {
			changes[i] = catalog.Edit{Rule: catalog.Rule{ID: edits[i].Delete.Name}, Delete: true}
			continue
		}
		if changes[i].Rule, err = decode(record); err != nil {
			return nil, err
		}
	}
	return r.commit(r.book.Catalog().Prepare(changes))
}

// PrepareAll implements records.RuleSet.
func (r *Rules) PrepareAll(rules iter.Seq2[records.Rule, error]) (commit func(), err error) {
	return r.commit(r.book.Catalog().PrepareAll(func(yield func(catalog.Rule, error) bool) {
		for record, err := range rules {
			var rule catalog.Rule
			if err == nil {
				rule, err = decode(record)
			}
			if !yield(rule, err) || err != nil {
				return
			}
		}
	}))
}

// commit returns the function that puts a prepared change in force.
func (r *Rules) commit(p *catalog.Prepared, err error) (func(), error) {
	if wrong, ok := errors.AsType[*catalog.Error](err); ok {
		return nil, faultOf(wrong.ID, wrong)
	}
	if err != nil {
		return nil, err
	}
	return func() {
		if err := p.Commit(); err != nil {
			r.log.Error("rules per API are in the records, but not in force", "error", err)
		}
	}, nil
}

// callKey is the key of a call in a context.
type callKey struct{}

type call struct {
	by  records.Actor
	why string
}

// WithActor returns a context for changes of the book, with who makes them and why.
func WithActor(ctx context.Context, by records.Actor, why string) context.Context {
	return context.WithValue(ctx, callKey{}, call{by, why})
}

func callOf(ctx context.Context) (records.Actor, string) {
	c, _ := ctx.Value(callKey{}).(call)
	return c.by, c.why
}
