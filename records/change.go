package records

import (
	"context"
	"errors"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"

	"stint/records/dbfile"
	"stint/records/replication"
	"stint/records/trail"
)

// Edit writes or deletes one record.
type Edit struct {
	Put    Record // the record to write; nil to delete one
	Delete ID     // the record to delete, if Put is nil

	// IfMatch is the revision that the record must have; 0 for any. A writer who read the record at
	// this revision then cannot undo what another wrote meanwhile.
	IfMatch uint64

	IfAbsent bool // there must be no record with this ID
}

func (e *Edit) id() ID {
	if e.Put != nil {
		return e.Put.ID()
	}
	return e.Delete
}

// Change is edits that are made together or not at all.
type Change struct {
	Edits   []Edit // at least one, in the order in which they are made; at most one for a record
	IfMatch uint64 // the revision that the file must have; 0 for any
	Force   bool   // accept bans of many clients, of trusted proxies and of this machine

	// IdempotencyKey makes a repeat safe: a second change with the same key does nothing and has the
	// outcome of the first. "" for none.
	IdempotencyKey string

	// Request identifies the request for this change, such as the hash of its body. A change with the
	// same key and another request is a mistake, and is refused.
	Request string

	By     Actor  // who makes the change
	Why    string // the reason, for those who read the audit trail
	Import bool   // the edits come from an import, which the audit trail says
}

// Actor is who makes a change.
type Actor struct {
	Name string // of a token or a certificate; "" if the caller did not have to name itself
	From string // the address that the call came from; "" for a command on this machine
}

// Outcome is the result of a change.
type Outcome struct {
	Revision uint64 // the revision of the change
	Repeated bool   // the change was made earlier, with the same idempotency key
}

// Causes of an [Error] of [File.Apply].
var (
	ErrConflict = errors.New("another change came first")       // IfMatch or IfAbsent does not hold, or a key has a replacement
	ErrMissing  = errors.New("no such record")                  // the record to delete does not exist
	ErrReused   = errors.New("used for another request before") // an idempotency key
)

// Apply makes a change. When it returns without an error, the change is on disk and in force. If it returns an
// error, an [*Error] or that of ctx, nothing has changed, unless stint.ErrUnknown is a cause too (see
// [ErrUnavailable]).
func (f *File) Apply(ctx context.Context, c Change, now time.Time) (Outcome, error) {
	if err := ctx.Err(); err != nil {
		return Outcome{}, err
	}
	if err := c.check(); err != nil {
		return Outcome{}, err
	}
	var result Outcome
	var made made
	var next *memory
	var rules, plans func()
	err := f.update(ctx, func(tx *replication.Tx) (err error) {
		next = nil
		result, err = f.recall(tx.Tx, &c)
		if err != nil || result.Repeated {
			return err
		}
		if made, err = f.apply(tx, &c, now); err != nil {
			return err
		}
		result.Revision = made.revision
		if next, err = f.memory.Load().after(made.edits, made.revision); err != nil {
			return err
		}
		if rules, err = f.prepareRules(made.edits); err == nil {
			plans, err = f.preparePlans(tx.Tx, made.edits)
		}
		if err != nil {
			return err
		}
		return f.remember(tx, &c, now, dbfile.Outcome{Revision: result.Revision})
	}, func() {
		if next != nil {
			rules()
			plans()
			f.publish(next, made.edits, made.head)
		}
	})
	if refusal := refusalOf(err); refusal != nil && c.IdempotencyKey != "" {
		return f.refuse(ctx, &c, now, refusal)
	}
	if err != nil {
		return Outcome{}, err
	}
	return result, nil
}

// check checks what does not depend on the file.
func (c *Change) check() error {
	field, problem, hint := dbfile.CheckKey(c.IdempotencyKey, c.Request)
	if len(c.Edits) == 0 {
		field, problem, hint = "edits", "none", "write or delete at least one record"
	}
	if problem != "" {
		return &Error{Where: "change: " + field, Problem: problem, Hint: hint}
	}
	if err := checkReason("change", c.By, c.Why); err != nil {
		return err
	}
	seen := make(map[ID]bool, len(c.Edits))
	for i := range c.Edits {
		name := c.Edits[i].id()
		if seen[name] {
			return &Error{Where: name.String(), Problem: "there twice in one change", Hint: "leave out one of them"}
		}
		seen[name] = true
	}
	return nil
}

// made is a change that was made in a transaction.
type made struct {
	edits    []Edit // with the records as they are stored, and deletions of ended records
	revision uint64
	head     trail.Head // of the audit trail after the change
}

// apply makes the edits and writes them to the audit trail.
func (f *File) apply(tx *replication.Tx, c *Change, now time.Time) (m made, err error) {
	last := dbfile.Revision(tx.Tx)
	if c.IfMatch != 0 && c.IfMatch != last {
		return m, conflict(&Error{Where: "records"}, c.IfMatch, last, last)
	}
	if m.revision, err = dbfile.NextRevision(tx); err != nil {
		return m, err
	}
	rules := &checks{now: now, trusted: f.options.TrustedProxies, force: c.Force}
	audit := auditOf(tx, m.revision, c.By, now)
	m.edits = slices.Clone(c.Edits)
	imported := false // rules per API
	for i := range m.edits {
		e := &m.edits[i]
		if err := f.match(tx.Tx, e, last); err != nil {
			return m, err
		}
		entry, err := f.edit(tx, e, rules, m.revision)
		if err != nil {
			return m, err
		}
		if c.Import && e.id().Kind == Rules {
			imported = true
			continue
		}
		entry.Why = c.Why
		if c.Import {
			entry.Action = trail.Import
		}
		if err := audit.Write(entry); err != nil {
			return m, err
		}
	}
	if imported {
		if err := writeImport(audit, c); err != nil {
			return m, err
		}
	}
	swept, err := f.sweep(tx, max(sweepMost, 2*len(c.Edits)), f.copy.SafeTime(now))
	if err != nil {
		return m, err
	}
	m.edits = append(m.edits, swept...)
	m.head, err = audit.End(f.keptSince(now))
	return m, err
}

// match checks the conditions of an edit. last is the revision of the file.
func (f *File) match(tx *bolt.Tx, e *Edit, last uint64) error {
	if e.IfMatch == 0 && !e.IfAbsent {
		return nil
	}
	id := e.id()
	old, there, err := f.get(tx, id)
	switch {
	case err != nil:
		return err
	case e.IfAbsent && there:
		return &Error{Where: id.String(), Problem: "exists already", Hint: "read it, and change it if that is what you want", Err: ErrConflict}
	case e.IfMatch != 0 && old.Revision != e.IfMatch:
		return conflict(&Error{Where: id.String()}, e.IfMatch, old.Revision, last)
	}
	return nil
}

// conflict completes the Error for a record, or for the file, that has another revision than wanted.
// last is the revision of the file.
func conflict(e *Error, want, is, last uint64) *Error {
	e.Err = ErrConflict
	e.Problem, e.Hint = dbfile.Conflict(want, is, last)
	return e
}

// edit makes one edit, and sets its record to what is stored. It returns the entry of the audit trail.
func (f *File) edit(tx *replication.Tx, e *Edit, rules *checks, revision uint64) (entry trail.Entry, err error) {
	id := e.id()
	b := tx.Bucket(bucketOf(id.Kind))
	if e.Put == nil {
		if b == nil || id.Name == "" || b.Get([]byte(id.Name)) == nil {
			return entry, &Error{Where: id.String(), Problem: "no such record", Hint: "list the records of this kind", Err: ErrMissing}
		}
		if entry, err = f.entry(trail.Delete, id, b.Get([]byte(id.Name)), nil); err != nil {
			return entry, err
		}
		return entry, b.Delete([]byte(id.Name))
	}
	r, fault := e.Put.check(rules)
	if fault != nil {
		return entry, fault
	}
	switch r := r.(type) {
	case APIKey:
		err = f.checkReplacement(tx.Tx, &r, rules.now)
	case Grant:
		err = f.checkGrants(tx.Tx, &r, rules.now)
	}
	if err != nil {
		return entry, err
	}
	e.Put = r
	id = r.ID()
	name := []byte(id.Name)
	value, err := dbfile.Encode(name, stored[Record]{revision, rules.now.UTC(), r})
	if err != nil {
		return entry, err
	}
	if entry, err = f.entry(trail.Put, id, b.Get(name), value); err != nil {
		return entry, err
	}
	entry.Until = r.end()
	return entry, b.Put(name, value)
}

// entry returns the entry of the audit trail for a record that was stored as before and is to be stored
// as after; nil for none.
func (f *File) entry(action trail.Action, id ID, before, after []byte) (e trail.Entry, err error) {
	e = trail.Entry{Action: action, Kind: string(id.Kind), Texts: trail.Texts{Object: id.Name, Before: recordText(before), After: recordText(after)}}
	switch {
	case id.Kind == Overrides, id.Kind == Grants:
		e.Subjects = []string{id.target()}
	case id.Kind == Rules, id.Kind == Plans: // about nobody
	case id.Kind != APIKeys:
		e.Subjects = []string{id.Name}
	default:
		for _, value := range [][]byte{before, after} {
			if value == nil {
				continue
			}
			k, err := decode[stored[APIKey]](f, []byte(id.Name), value)
			if err != nil {
				return e, err
			}
			if !e.About(k.Record.Subject) {
				e.Subjects = append(e.Subjects, k.Record.Subject)
			}
		}
	}
	if before == nil {
		return e, nil
	}
	_, err = dbfile.Text([]byte(id.Name), before)
	return e, f.unreadable(err)
}
