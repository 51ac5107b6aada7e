package records

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"stint/internal/testkit"
	"stint/records/dbfile"
	"stint/records/replication"
	"stint/records/trail"
)

// traces returns which of some texts are in the raw file, also as they are written in JSON.
func traces(t testing.TB, f *File, texts ...string) (found []string) {
	t.Helper()
	raw, err := os.ReadFile(f.path)
	testkit.Must(t, err)
	for _, text := range texts {
		inJSON, err := json.Marshal(text)
		testkit.Must(t, err)
		if bytes.Contains(raw, []byte(text)) || bytes.Contains(raw, bytes.Trim(inJSON, `"`)) {
			found = append(found, text)
		}
	}
	return found
}

// personal are texts of the subject that is erased in tests; all of them begin with the name's value.
const personal = "user=jörg<7f3a>"

// fillPersonal makes a history of the subject personal: records of all kinds, of which some were changed
// and deleted again, large ones too; a reset; refusals; and an idempotency key. It returns all texts of it.
func fillPersonal(t testing.TB, f *File) []string {
	t.Helper()
	texts := []string{"jörg<7f3a>", "first note", "second note", "why override", "why ban", "why key", "why change", "why reset", "w1w2w3", "7f3a-made", "7f3a-refused"}
	long := strings.Repeat("w1w2w3", 500)
	key := keyOf("personal", personal)
	key.Why = "why key"
	s := Subject{Name: personal, Kind: User, Notes: "first note"}
	apply(t, f, Change{Edits: []Edit{{Put: s}, {Put: key}}, Why: "why change", By: alice, IdempotencyKey: "for " + personal}, start)
	s.Notes = "second note" + long
	for n := range 20 {
		apply(t, f, Change{Edits: []Edit{{Put: s}, {Put: Override{Target: personal, Rule: fmt.Sprint("rule-", n), Burst: 1, Why: "why override" + long}}}, By: alice}, start)
	}
	apply(t, f, Change{Edits: []Edit{{Put: s}}, By: alice, IdempotencyKey: "7f3a-made"}, start)
	apply(t, f, Change{Edits: []Edit{{Put: Ban{Subject: personal, Why: "why ban"}}, {Delete: ID{Overrides, personal + "\nrule-3"}}}, By: bob}, start)
	testkit.Must(t, f.Note(t.Context(), Event{By: bob, Action: trail.Reset, Object: ID{Limits, "api " + personal}, Subjects: []string{personal, "path=/"}, Why: "why reset"}, start))
	for n, edit := range []Edit{{Put: s, IfAbsent: true}, {Put: s, IfMatch: 99}, {Delete: ID{Bans, personal + "x"}}, {Delete: ID{Overrides, personal + "\nnone"}}} {
		_, err := f.Apply(t.Context(), Change{Edits: []Edit{edit}, IdempotencyKey: fmt.Sprint("7f3a-refused-", n), Request: "r"}, start)
		if err == nil {
			t.Fatalf("edit %d was not refused", n)
		}
	}
	return texts
}

// After a subject was erased, none of its texts is in the file: not in what was freed, and not in what
// is left of the page where it was. All else is as before, and the trail is whole.
func TestErase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.db")
	f := open(t, path)
	// What is near it stays, even with a name that begins alike.
	near := Override{Target: "user=jörg", Rule: "rule-3", Burst: 1, Why: "kept why"}
	put(t, f, subject, override, ban, banned, pattern, near, keyOf("k", "user=42"))
	want := contentOf(t, f)
	texts := fillPersonal(t, f)
	if got := traces(t, f, texts...); len(got) != len(texts) {
		t.Fatalf("the file has only %q of %q", got, texts)
	}
	entries := len(trailOf(t, f))
	lookup(t, f, "user", "jörg<7f3a>")
	revision, err := f.Revision()
	testkit.Must(t, err)
	before := trailOf(t, f)

	out, err := f.Erase(t.Context(), personal, alice, start.Add(time.Hour))
	testkit.Must(t, err)
	if out.Records != 22 || out.Entries != 2+40+1+2+1 || out.Revision != revision+1 {
		t.Errorf("%+v", out)
	}
	for range 2 {
		if got := traces(t, f, texts...); len(got) > 0 {
			t.Errorf("the file still has %q", got)
		}
		wantWhole(t, f, entries+1)
		if got := contentOf(t, f); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%v, want %v", got, want)
		}
		testkit.Must(t, f.Close())
		f = open(t, path)
	}
	if known := lookup(t, f, "user", "jörg<7f3a>"); known.Subject != nil || known.Ban(start) != nil || known.Override("rule-1", start) != nil {
		t.Errorf("%+v is still in force", known)
	}
	// Who did it, from where and when is left, and the entry of the erasure does not name the subject.
	after := trailOf(t, f)
	for i, e := range before {
		kept := after[i]
		if kept.Hash != e.Hash || kept.Actor != e.Actor || kept.From != e.From || kept.Erased != e.About(personal) || !kept.Erased && fmt.Sprint(kept) != fmt.Sprint(e) {
			t.Errorf("%+v, want %+v", kept, e)
		}
	}
	last := after[len(after)-1]
	if last.Action != trail.Erase || !last.Erased || last.Actor != "alice" || last.From != alice.From || last.Kind != "subject" || last.TextsHash == (trail.Hash{}) {
		t.Errorf("%+v", last)
	}
	// Repeats of refused changes are still refused, and do not name it.
	for n := range 4 {
		_, err := f.Apply(t.Context(), Change{Edits: []Edit{{Put: subject}}, IdempotencyKey: fmt.Sprint("7f3a-refused-", n), Request: "r"}, start)
		wantFault(t, err, "change", "refused; the reason was erased", "read the records again", nil)
	}
	if again, err := f.Apply(t.Context(), Change{Edits: []Edit{{Put: subject}}, IdempotencyKey: "7f3a-made"}, start); err != nil || !again.Repeated {
		t.Errorf("%v, %v for the repeat of a change that was made", again, err)
	}
	_, err = f.Erase(t.Context(), personal, alice, start)
	wantFault(t, err, "erase", "nothing is kept of it", "how its name is written", ErrMissing)
	if got := traces(t, f, texts...); len(got) > 0 {
		t.Errorf("the file has %q again", got)
	}
	wantWhole(t, f, entries+1)
}

// What was deleted earlier, and whose audit trail has ended, is gone from the file with any erasure.
func TestEraseOverwritesOldDeletions(t *testing.T) {
	f, err := Open(filepath.Join(t.TempDir(), "records.db"), Options{AuditFor: time.Hour})
	testkit.Must(t, err)
	defer f.Close()
	put(t, f, Subject{Name: personal, Kind: User, Notes: "first note"}, subject)
	apply(t, f, Change{Edits: []Edit{{Delete: ID{Subjects, personal}}}}, start)
	apply(t, f, Change{Edits: []Edit{{Put: ban}}}, friday.Add(-time.Minute))
	if len(traces(t, f, "first note")) == 0 {
		t.Fatal("the file has no trace of it before")
	}
	_, err = f.Erase(t.Context(), "user=nobody", alice, start)
	wantFault(t, err, "erase: user=nobody", "nothing is kept", "", ErrMissing)
	if got := traces(t, f, "first note", "7f3a"); len(got) > 0 {
		t.Errorf("the file still has %q", got)
	}
	if got := len(contentOf(t, f)); got != 2 {
		t.Errorf("%d records", got)
	}
}

func TestEraseRefuses(t *testing.T) {
	f := openNew(t)
	for _, tt := range []struct{ subject, problem string }{
		{"", "missing"}, {"42", "no entry"}, {"user=4*", "star"}, {"user=" + strings.Repeat("x", 10<<10), "10245 bytes, at most 1024"}, {"user=\n", "control"},
	} {
		_, err := f.Erase(t.Context(), tt.subject, alice, start)
		wantFault(t, err, "erase", tt.problem, "", nil)
		_, _, err = f.Export(tt.subject)
		wantFault(t, err, "erase", tt.problem, "", nil)
	}
	_, err := f.Erase(t.Context(), "user=42", Actor{Name: strings.Repeat("x", 2000)}, start)
	wantFault(t, err, "erase: by", "at most 1024", "", nil)
	// A trail with a fault where the subject may be is an error, and nothing is erased.
	put(t, f, subject)
	testkit.Must(t, f.copy.UpdateLocal(func(tx *bolt.Tx) error {
		return tx.Bucket([]byte("audit trail")).Put([]byte{0, 0, 0, 0, 0, 0, 0, 1}, []byte("x"))
	}))
	_, err = f.Erase(t.Context(), "user=42", alice, start)
	wantFault(t, err, "records.db", "damaged: audit trail: entry 1", "put back", ErrDamaged)
	if len(contentOf(t, f)) != 1 {
		t.Error("the record was erased")
	}
}

// A network is erased by its name in any notation.
func TestEraseNetwork(t *testing.T) {
	f := openNew(t)
	put(t, f, Ban{Network: network("192.0.2.7/32"), Why: "a flat"}, ban)
	records, entries, err := f.Export("192.0.2.7")
	testkit.Must(t, err)
	if len(records) != 1 || len(collect(t, entries)) != 1 {
		t.Errorf("%v", records)
	}
	out, err := f.Erase(t.Context(), "::ffff:192.0.2.7", alice, start)
	if err != nil || out.Records != 1 || out.Entries != 1 || len(traces(t, f, "192.0.2.7", "a flat")) > 0 {
		t.Errorf("%+v, %v, %q", out, err, traces(t, f, "192.0.2.7", "a flat"))
	}
	if _, banned := f.BannedAddress(network("192.0.2.7/32").Addr(), start); !banned {
		t.Error("the network around it is no longer banned")
	}
}

// Readers see whole records while pages are overwritten.
func TestEraseMeanwhile(t *testing.T) {
	f := openNew(t)
	var records []Record
	for n := range 3000 {
		records = append(records, Subject{Name: fmt.Sprint("org=", n), Kind: Organisation, Notes: strings.Repeat("n", n%50)})
	}
	put(t, f, records...)
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				count := 0
				for _, err := range f.All(Subjects) {
					if err != nil {
						t.Error(err)
						return
					}
					count++
				}
				if count < len(records) {
					t.Errorf("%d records", count)
					return
				}
			}
		})
	}
	rounds := 8
	if testing.Short() {
		rounds = 4
	}
	for range rounds {
		fillPersonal(t, f)
		put(t, f, records[:500]...)
		_, err := f.Erase(t.Context(), personal, alice, start)
		testkit.Must(t, err)
	}
	close(done)
	readers.Wait()
	testkit.Must(t, f.view(func(tx *bolt.Tx) error {
		for err := range tx.Check() {
			return err
		}
		return nil
	}))
}

// The place where looking for ended records stopped has the name of a subject. It is erased too.
func TestEraseSwept(t *testing.T) {
	f := open(t, filepath.Join(t.TempDir(), "records.db"))
	var all []Record
	for i := range 3 * sweepMost {
		all = append(all, Override{Target: personal, Rule: fmt.Sprint("rule", i), Requests: 1})
	}
	put(t, f, all...)
	put(t, f, subject)
	_, err := f.Erase(t.Context(), personal, alice, start)
	testkit.Must(t, err)
	if got := traces(t, f, personal); len(got) > 0 {
		t.Errorf("the file still has %q", got)
	}
}

// A process that is killed while it overwrites goes on when it opens the file again.
func TestEraseGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.db")
	f := open(t, path)
	put(t, f, subject)
	texts := fillPersonal(t, f)
	// As if it was killed after the change of the erasure.
	e := eraser{file: f, name: personal, now: start, most: math.MaxInt}
	testkit.Must(t, f.update(t.Context(), func(tx *replication.Tx) error {
		e.tx = tx
		return e.erase(alice)
	}, func() {}))
	if len(traces(t, f, texts...)) == 0 {
		t.Fatal("nothing is left to overwrite")
	}
	testkit.Must(t, f.Close())
	f = open(t, path)
	if got := traces(t, f, texts...); len(got) > 0 {
		t.Errorf("the file still has %q", got)
	}
	testkit.Must(t, f.view(func(tx *bolt.Tx) error {
		if tx.Bucket(dbfile.About).Get(overwriteKey) != nil {
			return errors.New("it overwrites each time")
		}
		return nil
	}))
}

func collect(t testing.TB, entries iter.Seq2[trail.Entry, error]) (all []trail.Entry) {
	t.Helper()
	for e, err := range entries {
		testkit.Must(t, err)
		all = append(all, e)
	}
	return all
}

// An export has all records and entries of the subject, and of no other.
func TestExport(t *testing.T) {
	f := openNew(t)
	put(t, f, subject, override, ban, banned, pattern, keyOf("k", "user=42"))
	put(t, f, Subject{Name: "user=421", Kind: User, Notes: "not user=42"}, Override{Target: "user=421", Rule: "r", Burst: 1}, keyOf("other", "user=421"))
	moved := keyOf("k", "user=421")
	put(t, f, moved)
	put(t, f, keyOf("k2", "user=42"))
	testkit.Must(t, f.Note(t.Context(), Event{Action: trail.Reset, Object: ID{Limits, "r user=42"}, Subjects: []string{"user=42"}}, start))
	records, entries, err := f.Export("user=42")
	testkit.Must(t, err)
	var got []string
	for _, e := range records {
		got = append(got, e.Record.ID().String())
	}
	if want := fmt.Sprint([]ID{subject.ID(), banned.ID(), override.ID(), keyOf("k2", "").ID()}); fmt.Sprint(got) != want {
		t.Errorf("%v, want %v", got, want)
	}
	var numbers []uint64
	for _, e := range collect(t, entries) {
		numbers = append(numbers, e.Number)
	}
	if want := "[1 2 4 6 10 11 12]"; fmt.Sprint(numbers) != want {
		t.Errorf("entries %v, want %s", numbers, want)
	}
	records, entries, err = f.Export("user=nobody")
	if err != nil || len(records)+len(collect(t, entries)) != 0 {
		t.Errorf("%v, %v", records, err)
	}
}

// An error about any record of a subject is returned, whatever its kind.
func TestRecordsOfError(t *testing.T) {
	f := openNew(t)
	g := grantOf("a", 1)
	put(t, f, Subject{Name: g.Subject, Kind: User}, Ban{Subject: g.Subject}, Override{Target: g.Subject, Rule: "api", Burst: 1}, g, keyOf("key", g.Subject))
	wrong := errors.New("wrong")
	for n, kind := range []Kind{Subjects, Bans, Overrides, Grants, APIKeys} {
		testkit.Must(t, f.view(func(tx *bolt.Tx) error {
			read, err := recordsOf(f, tx, g.Subject, func(id ID, _ []byte) (Kind, error) {
				if id.Kind == kind {
					return kind, wrong
				}
				return id.Kind, nil
			})
			if !errors.Is(err, wrong) || len(read) != n+1 {
				t.Errorf("%s: %v, error %v", kind, read, err)
			}
			return nil
		}))
	}
}
