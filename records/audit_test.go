package records

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"stint/internal/testkit"
	"stint/records/trail"
)

var (
	alice = Actor{Name: "alice", From: "192.0.2.1"}
	bob   = Actor{Name: "bob"}
)

// apply makes a change that must succeed.
func apply(t testing.TB, f *File, c Change, now time.Time) Outcome {
	t.Helper()
	out, err := f.Apply(t.Context(), c, now)
	testkit.Must(t, err)
	return out
}

func trailOf(t testing.TB, f *File) (entries []trail.Entry) {
	t.Helper()
	for e, err := range f.Trail(0) {
		testkit.Must(t, err)
		entries = append(entries, e)
	}
	return entries
}

// wantWhole checks that the trail is whole up to its head, and has a number of entries.
func wantWhole(t testing.TB, f *File, entries int, known ...trail.Head) {
	t.Helper()
	r, err := f.Verify(t.Context(), known...)
	testkit.Must(t, err)
	number, hash := f.Head()
	if got := len(trailOf(t, f)); r.Break != nil || r.Head.Number != number || r.Head.Hash.String() != hash || got != entries {
		t.Fatalf("%d entries, want %d; %+v, %v; head %d:%s", got, entries, r, r.Break, number, hash)
	}
}

// Each edit has one entry with all that was changed, by whom, from where and why. What changes nothing
// has none.
func TestTrail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.db")
	f := open(t, path)
	wantWhole(t, f, 0, trail.Head{})
	changed := subject
	changed.Plan = "free"
	key := keyOf("secret", "user=42")
	moved := key
	moved.Subject = "user=43"
	at := func(n int) time.Time { return start.Add(time.Duration(n) * time.Microsecond) }
	apply(t, f, Change{Edits: []Edit{{Put: subject}, {Put: override}}, By: alice, Why: "asked\nin a ticket"}, at(1))
	apply(t, f, Change{Edits: []Edit{{Put: changed}}, By: bob, IdempotencyKey: "k"}, at(2))
	if out := apply(t, f, Change{Edits: []Edit{{Put: changed}}, By: bob, IdempotencyKey: "k"}, at(3)); !out.Repeated {
		t.Error("not repeated")
	}
	_, err := f.Apply(t.Context(), Change{Edits: []Edit{{Put: ban}, {Delete: banned.ID()}}, IdempotencyKey: "refused"}, at(3))
	wantFault(t, err, "ban user=42", "no such record", "list", ErrMissing)
	testkit.Must(t, f.Note(t.Context(), Event{
		By: alice, Action: trail.Reset, Object: ID{Limits, "api/user user=42"}, Subjects: []string{"user=42", "path=/"}, After: json.RawMessage(`{"used":0}`), Why: "unlock",
	}, at(4)))
	apply(t, f, Change{Edits: []Edit{{Delete: override.ID()}, {Put: ban}}, By: alice}, at(5))
	apply(t, f, Change{Edits: []Edit{{Put: key}}, Import: true}, at(6))
	apply(t, f, Change{Edits: []Edit{{Put: moved}, {Put: pattern}}}, at(7))

	text := func(r Record) json.RawMessage {
		text, err := json.Marshal(r)
		testkit.Must(t, err)
		return text
	}
	e := func(n, revision int, micro int, action trail.Action, kind Kind, by Actor, until time.Time, texts trail.Texts) trail.Entry {
		return trail.Entry{Number: uint64(n), Revision: uint64(revision), Time: at(micro), Action: action, Kind: string(kind), Actor: by.Name, From: by.From, Until: until, Texts: texts}
	}
	who := []string{"user=42"}
	want := []trail.Entry{
		e(1, 1, 1, trail.Put, Subjects, alice, friday, trail.Texts{Object: "user=42", After: text(subject), Why: "asked\nin a ticket", Subjects: who}),
		e(2, 1, 1, trail.Put, Overrides, alice, friday, trail.Texts{Object: "user=42\napi/user", After: text(override), Why: "asked\nin a ticket", Subjects: who}),
		e(3, 2, 2, trail.Put, Subjects, bob, friday, trail.Texts{Object: "user=42", Before: text(subject), After: text(changed), Subjects: who}),
		e(4, 2, 4, trail.Reset, Limits, alice, time.Time{}, trail.Texts{Object: "api/user user=42", After: json.RawMessage(`{"used":0}`), Why: "unlock", Subjects: []string{"user=42", "path=/"}}),
		e(5, 3, 5, trail.Delete, Overrides, alice, time.Time{}, trail.Texts{Object: "user=42\napi/user", Before: text(override), Subjects: who}),
		e(6, 3, 5, trail.Put, Bans, alice, friday, trail.Texts{Object: "192.0.2.0/24", After: text(ban), Subjects: []string{"192.0.2.0/24"}}),
		e(7, 4, 6, trail.Import, APIKeys, Actor{}, time.Time{}, trail.Texts{Object: key.Hash.String(), After: text(key), Subjects: who}),
		e(8, 5, 7, trail.Put, APIKeys, Actor{}, time.Time{}, trail.Texts{Object: key.Hash.String(), Before: text(key), After: text(moved), Subjects: []string{"user=42", "user=43"}}),
		e(9, 5, 7, trail.Put, Overrides, Actor{}, time.Time{}, trail.Texts{Object: "user=test-*\napi/user", After: text(pattern), Subjects: []string{"user=test-*"}}),
	}
	for range 2 {
		for i, got := range trailOf(t, f) {
			got.TextsKey, got.OriginKey, got.TextsHash, got.OriginHash, got.Previous, got.Hash = trail.Key{}, trail.Key{}, trail.Hash{}, trail.Hash{}, trail.Hash{}, trail.Hash{}
			if !reflect.DeepEqual(got, want[i]) {
				t.Errorf("%+v, want\n%+v", got, want[i])
			}
		}
		wantWhole(t, f, len(want))
		testkit.Must(t, f.Close())
		f = open(t, path)
	}
	for e, err := range f.Trail(8) {
		testkit.Must(t, err)
		if e.Number != 8 {
			t.Errorf("entry %d is the first from 8 on", e.Number)
		}
		break
	}
}

// The trail is read in pages.
func TestTrailInPages(t *testing.T) {
	f := openNew(t)
	for _, n := range []int{499, 1, 1, 498, 1, 1} {
		var c Change
		for i := range n {
			c.Edits = append(c.Edits, Edit{Put: Subject{Name: fmt.Sprint("user=", i), Kind: User}})
		}
		before := len(trailOf(t, f))
		apply(t, f, c, start)
		wantWhole(t, f, before+n)
	}
}

func TestNoteRefuses(t *testing.T) {
	f := openNew(t)
	good := Event{Action: trail.Reset, Object: ID{Limits, "x"}}
	with := func(do func(e *Event)) Event {
		e := good
		do(&e)
		return e
	}
	for _, tt := range []struct {
		e              Event
		where, problem string
	}{
		{with(func(e *Event) { e.Action = "" }), "event: action", "no action"},
		{with(func(e *Event) { e.Action = "re\nset" }), "event: action", "no action"},
		{with(func(e *Event) { e.Object.Kind = "" }), "event: action", "no kind"},
		{with(func(e *Event) { e.Object.Name = strings.Repeat("x", maxEvent+1) }), "event: object", "more than 65536 bytes"},
		{with(func(e *Event) { e.Subjects = []string{strings.Repeat("x", maxEvent)} }), "event: object", "more than 65536 bytes"},
		{with(func(e *Event) { e.After = json.RawMessage(`"` + strings.Repeat("x", maxEvent) + `"`) }), "event: object", "more than 65536 bytes"},
		{with(func(e *Event) { e.Before = json.RawMessage("{") }), "event: before, after", "not JSON"},
		{with(func(e *Event) { e.Why = strings.Repeat("x", MaxText+1) }), "event: why", "at most 4096"},
		{with(func(e *Event) { e.Why = "\x00" }), "event: why", "control"},
		{with(func(e *Event) { e.By.Name = strings.Repeat("x", MaxSubject+1) }), "event: by", "at most 1024"},
	} {
		wantFault(t, f.Note(t.Context(), tt.e, start), tt.where, tt.problem, "", nil)
	}
	_, err := f.Apply(t.Context(), Change{Edits: []Edit{{Put: subject}}, Why: strings.Repeat("x", MaxText+1)}, start)
	wantFault(t, err, "change: why", "at most 4096", "ticket", nil)
	_, err = f.Apply(t.Context(), Change{Edits: []Edit{{Put: subject}}, By: Actor{From: strings.Repeat("x", MaxSubject+1)}}, start)
	wantFault(t, err, "change: by", "at most 1024", "shorter", nil)
	wantWhole(t, f, 0)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Note(ended, good, start); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	testkit.Must(t, f.Note(t.Context(), good, start))
	wantWhole(t, f, 1)
	if _, err := f.Verify(ended); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Whoever changes the file without this package is found out, at the right place.
func TestTampering(t *testing.T) {
	names := trail.Buckets()
	chain, texts, places := names[0], names[1], names[2]
	number := func(n byte) []byte { return []byte{0, 0, 0, 0, 0, 0, 0, n} }
	swap := func(b *bolt.Bucket, i, j byte) error {
		x, y := append([]byte(nil), b.Get(number(i))...), append([]byte(nil), b.Get(number(j))...)
		return errors.Join(b.Put(number(i), y), b.Put(number(j), x))
	}
	replace := func(b *bolt.Bucket, n byte, old, fresh string) error {
		value := string(b.Get(number(n)))
		if !strings.Contains(value, old) {
			return fmt.Errorf("entry %d has no %q", n, old)
		}
		return b.Put(number(n), []byte(strings.ReplaceAll(value, old, fresh)))
	}
	for _, tt := range []struct {
		name    string
		change  func(tx *bolt.Tx) error
		number  uint64
		problem string
	}{
		{"nothing", func(*bolt.Tx) error { return nil }, 0, ""},
		{"actor", func(tx *bolt.Tx) error { return replace(tx.Bucket(chain), 4, "\nalice\n", "\nnobody\n") }, 5, "does not follow entry 4"},
		{"last actor", func(tx *bolt.Tx) error { return replace(tx.Bucket(chain), 9, "\nalice\n", "\nnobody\n") }, 9, "head that was kept"},
		{"garbage", func(tx *bolt.Tx) error { return tx.Bucket(chain).Put(number(4), []byte("x")) }, 4, "not written as an entry"},
		{"removed", func(tx *bolt.Tx) error { return tx.Bucket(chain).Delete(number(4)) }, 4, "missing"},
		{"first removed", func(tx *bolt.Tx) error { return tx.Bucket(chain).Delete(number(1)) }, 1, "missing"},
		{"last removed", func(tx *bolt.Tx) error { return tx.Bucket(chain).Delete(number(9)) }, 9, "cut off"},
		{"last removed, and the head", func(tx *bolt.Tx) error {
			e, err := trail.Parse(tx.Bucket(chain).Get(number(8)), tx.Bucket(texts).Get(number(8)))
			return errors.Join(err, tx.Bucket(chain).Delete(number(9)), tx.Bucket(places).Put([]byte("last"), append(number(8), e.Hash[:]...)))
		}, 9, "cut off, because a head was kept of entry 9"},
		{"reordered", func(tx *bolt.Tx) error {
			return errors.Join(swap(tx.Bucket(chain), 4, 5), swap(tx.Bucket(texts), 4, 5))
		}, 4, "entry 5 follows entry 3"},
		{"texts swapped", func(tx *bolt.Tx) error { return swap(tx.Bucket(texts), 4, 5) }, 4, "its texts"},
		{"text", func(tx *bolt.Tx) error { return replace(tx.Bucket(texts), 4, "ticket 3", "ticket 4") }, 4, "its texts"},
		{"origin", func(tx *bolt.Tx) error { return replace(tx.Bucket(texts), 4, "192.0.2.1", "192.0.2.2") }, 4, "address of the caller"},
		{"texts removed", func(tx *bolt.Tx) error { return tx.Bucket(texts).Delete(number(4)) }, 4, "texts are not written"},
		{"texts cut", func(tx *bolt.Tx) error { return replace(tx.Bucket(texts), 4, "ticket 3", "ticket") }, 4, "texts are not written"},
		{"start moved", func(tx *bolt.Tx) error {
			e, err := trail.Parse(tx.Bucket(chain).Get(number(2)), tx.Bucket(texts).Get(number(2)))
			return errors.Join(err, tx.Bucket(places).Put([]byte("start"), append(number(2), e.Hash[:]...)))
		}, 0, ""}, // as if the oldest were dropped
		{"start forged", func(tx *bolt.Tx) error {
			return tx.Bucket(places).Put([]byte("start"), append(number(0), make([]byte, 31)...))
		}, 0, ""},
	} {
		path := filepath.Join(t.TempDir(), "records.db")
		f := open(t, path)
		for n := range 9 {
			apply(t, f, Change{Edits: []Edit{{Put: subject}}, By: alice, Why: fmt.Sprint("ticket ", n)}, start)
		}
		at, hash := f.Head()
		kept, err := trail.ParseHead(fmt.Sprint(at, ":", hash))
		testkit.Must(t, err)
		testkit.Must(t, f.copy.UpdateLocal(tt.change))
		testkit.Must(t, f.Close())
		f = open(t, path)
		r, err := f.Verify(t.Context(), kept)
		switch {
		case err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.number == 0 && r.Break != nil, tt.number != 0 && (r.Break == nil || r.Break.Number != tt.number || !strings.Contains(r.Break.Problem, tt.problem)):
			t.Errorf("%s: %v, want %q of entry %d", tt.name, r.Break, tt.problem, tt.number)
		}
		// Without a head that was kept elsewhere, a cut is still found unless the head in the file was changed too.
		r, err = f.Verify(t.Context())
		testkit.Must(t, err)
		if found := tt.number != 0 && tt.name != "last removed, and the head"; found != (r.Break != nil) {
			t.Errorf("%s: without a head: %v", tt.name, r.Break)
		}
		for _, err := range f.Trail(0) {
			if err != nil {
				wantFault(t, err, "records.db", "damaged: audit trail: entry 4", "put back a copy", ErrDamaged)
			}
		}
	}
}

// Entries are dropped after their time, some with each change, and the trail still verifies from there.
func TestAuditFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.db")
	f, err := Open(path, Options{AuditFor: time.Hour})
	testkit.Must(t, err)
	var records []Record
	for n := range 250 {
		records = append(records, Subject{Name: fmt.Sprint("user=", n), Kind: User})
	}
	put(t, f, records...)
	number, hash := f.Head()
	kept, err := trail.ParseHead(fmt.Sprint(number, ":", hash))
	testkit.Must(t, err)
	late := start.Add(time.Hour)
	note := func(now time.Time) {
		t.Helper()
		testkit.Must(t, f.Note(t.Context(), Event{Action: trail.Reset, Object: ID{Limits, "x"}}, now))
	}
	note(late)
	wantWhole(t, f, 251, kept)
	apply(t, f, Change{Edits: []Edit{{Put: ban}}}, late.Add(time.Microsecond))
	wantWhole(t, f, 152, kept)
	note(late.Add(time.Second))
	wantWhole(t, f, 53, kept)
	note(late.Add(time.Second))
	wantWhole(t, f, 4, kept)
	note(late.Add(time.Second))
	wantWhole(t, f, 5, kept)
	note(late.Add(2 * time.Hour))
	wantWhole(t, f, 1)
	testkit.Must(t, f.Close())
	f, err = Open(path, Options{AuditFor: time.Hour})
	testkit.Must(t, err)
	defer f.Close()
	wantWhole(t, f, 1)
	r, err := f.Verify(t.Context(), kept)
	testkit.Must(t, err)
	if r.First != 256 || len(r.Skipped) != 1 || r.Skipped[0] != kept || r.Break != nil {
		t.Errorf("%+v, %v", r, r.Break)
	}
	if got := DefaultAuditFor; got != 400*24*time.Hour {
		t.Errorf("%v", got)
	}
}

// Verifying a trail does not fail while entries are added at its end and dropped at its start.
func TestVerifyMeanwhile(t *testing.T) {
	f, err := Open(filepath.Join(t.TempDir(), "records.db"), Options{AuditFor: time.Second})
	testkit.Must(t, err)
	defer f.Close()
	var edits []Edit
	for n := range 1500 {
		edits = append(edits, Edit{Put: Subject{Name: fmt.Sprint("user=", n), Kind: User}})
	}
	done := make(chan struct{})
	var verifier sync.WaitGroup
	rounds := 0
	verifier.Go(func() {
		for {
			if r, err := f.Verify(context.Background()); err != nil || r.Break != nil {
				t.Errorf("%v, %v", err, r.Break)
				return
			}
			rounds++
			select {
			case <-done:
				return
			default:
			}
		}
	})
	for n := range 20 {
		apply(t, f, Change{Edits: edits}, start.Add(time.Duration(n)*time.Minute))
	}
	close(done)
	verifier.Wait()
	if len(trailOf(t, f)) > 2*len(edits) || rounds < 2 {
		t.Errorf("%d entries, verified %d times", len(trailOf(t, f)), rounds)
	}
}

// Status reports the revision, and a disk that did not take the last change.
func TestStatus(t *testing.T) {
	f := openNew(t)
	put(t, f, subject)
	if got := f.Status(start); !reflect.DeepEqual(got, Status{Revision: 1}) {
		t.Errorf("%+v", got)
	}
	_ = f.writing(errors.New("input/output error")) // stores it
	if got := f.Status(start); !strings.Contains(got.Error, "cannot write: input/output error") {
		t.Errorf("%+v", got)
	}
	put(t, f, subject)
	if got := f.Status(start); !reflect.DeepEqual(got, Status{Revision: 2}) {
		t.Errorf("%+v", got)
	}
}
