package records

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"stint/internal/testkit"
	"stint/records/dbfile"
)

func open(t testing.TB, path string) *File {
	t.Helper()
	f, err := Open(path, Options{})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func openNew(t testing.TB) *File {
	t.Helper()
	return open(t, filepath.Join(t.TempDir(), "records.db"))
}

// put writes records and returns the revision.
func put(t testing.TB, f *File, records ...Record) uint64 {
	t.Helper()
	var c Change
	for _, r := range records {
		c.Edits = append(c.Edits, Edit{Put: r})
	}
	out, err := f.Apply(t.Context(), c, start)
	testkit.Must(t, err)
	return out.Revision
}

func contentOf(t testing.TB, f *File) content {
	t.Helper()
	m := content{}
	for _, kind := range kinds {
		last := ""
		for e, err := range f.All(kind) {
			testkit.Must(t, err)
			id := e.Record.ID()
			if id.Kind != kind || id.Name <= last {
				t.Fatalf("%v follows %s %q", id, kind, last)
			}
			m[id], last = e.Record, id.Name
		}
	}
	return m
}

// wantFault checks an error.
func wantFault(t *testing.T, err error, where, problem, hint string, cause error) {
	t.Helper()
	fault, ok := errors.AsType[*Error](err)
	if !ok || !strings.Contains(fault.Where, where) || !strings.Contains(fault.Problem, problem) || !strings.Contains(fault.Hint, hint) || cause != nil && !errors.Is(err, cause) {
		t.Errorf("error %v (%T, hint %q), want %q: %q, hint %q, cause %v", err, err, hintOf(fault), where, problem, hint, cause)
	}
}

var (
	subject  = Subject{Name: "user=42", Kind: User, Plan: "pro", Groups: []string{"eu"}, Subscribed: start, PlanUntil: friday}
	override = Override{Target: "user=42", Rule: "api/user", Requests: 7, Per: time.Minute, Burst: 9, Until: friday, Why: "a partner"}
	pattern  = Override{Target: "user=test-*", Rule: "api/user", Unlimited: true}
	ban      = Ban{Network: network("192.0.2.0/24"), Until: friday, Why: "scans"}
	banned   = Ban{Subject: "user=42"}
)

func TestFileKeepsRecords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.db")
	f := open(t, path)
	want := content{}
	check := func(revision uint64) {
		t.Helper()
		testkit.Must(t, f.Close())
		f = open(t, path)
		got, err := f.Revision()
		testkit.Must(t, err)
		if now := contentOf(t, f); got != revision || !reflect.DeepEqual(now, want) {
			t.Fatalf("revision %d, %v; want %d, %v", got, now, revision, want)
		}
	}
	check(0)
	key := keyOf("secret", "user=42")
	for i, r := range []Record{subject, override, pattern, ban, banned, key} {
		if got := put(t, f, r); got != uint64(i)+1 {
			t.Errorf("revision %d of change %d", got, i+1)
		}
		want[r.ID()] = r
	}
	check(6)
	changed := override
	changed.Requests = 8
	_, err := f.Apply(t.Context(), Change{Edits: []Edit{{Delete: subject.ID()}, {Put: changed}, {Delete: ban.ID()}}}, friday.Add(-time.Minute))
	testkit.Must(t, err)
	delete(want, subject.ID())
	delete(want, ban.ID())
	want[changed.ID()] = changed
	check(7)
	e, ok, err := f.Get(changed.ID())
	if err != nil || !ok || e.Revision != 7 || !e.Changed.Equal(friday.Add(-time.Minute)) {
		t.Errorf("%v, %v, %v", e, ok, err)
	}
	for _, id := range []ID{subject.ID(), {Kind: "robot", Name: "user=42"}, {}} {
		if e, ok, err := f.Get(id); ok || err != nil {
			t.Errorf("%v: %v, %v", id, e, err)
		}
	}
}

// All reads more than one page, and a caller may stop early and change records meanwhile.
func TestAllInPages(t *testing.T) {
	f := openNew(t)
	var records []Record
	for n := range 2*page + 1 {
		records = append(records, Subject{Name: fmt.Sprintf("user=%05d", n), Kind: User})
	}
	for _, n := range []int{page - 1, page, page + 1, 2*page + 1} {
		put(t, f, records[:n]...)
		if got := len(contentOf(t, f)); got != n {
			t.Errorf("%d of %d records", got, n)
		}
	}
	for e, err := range f.All(Subjects) {
		testkit.Must(t, err)
		put(t, f, e.Record)
		break
	}
}

// A change with a fault in any edit makes none of them.
func TestNothingInPart(t *testing.T) {
	f := openNew(t)
	put(t, f, subject, ban)
	want := contentOf(t, f)
	fresh := Subject{Name: "user=43", Kind: User}
	for _, tt := range []struct {
		c                    Change
		where, problem, hint string
		cause                error
	}{
		{Change{}, "change: edits", "none", "at least one", nil},
		{Change{Edits: []Edit{{Put: fresh}, {Put: Ban{Subject: "x"}}}}, "ban x: subject", "no entry", "KEY=VALUE", nil},
		{Change{Edits: []Edit{{Put: fresh}, {Put: fresh}}}, "subject user=43", "twice in one change", "leave out", nil},
		{Change{Edits: []Edit{{Put: fresh}, {Delete: fresh.ID()}}}, "subject user=43", "twice in one change", "leave out", nil},
		{Change{Edits: []Edit{{Put: fresh}, {Delete: override.ID()}}}, "override user=42 of api/user", "no such record", "list", ErrMissing},
		{Change{Edits: []Edit{{Put: fresh}, {Delete: ID{Kind: "robot", Name: "x"}}}}, "robot x", "no such record", "list", ErrMissing},
		{Change{Edits: []Edit{{Put: fresh}, {}}}, "", "no such record", "list", ErrMissing},
		{Change{Edits: []Edit{{Put: fresh}, {Put: subject, IfAbsent: true}}}, "subject user=42", "exists already", "read it", ErrConflict},
		{Change{Edits: []Edit{{Put: fresh}, {Put: subject, IfMatch: 9}}}, "subject user=42", "revision 9 does not exist yet: the last one is 1", "right file", ErrConflict},
		{Change{Edits: []Edit{{Put: fresh}}, IfMatch: 2}, "records", "revision 2 does not exist yet", "right file", ErrConflict},
		{Change{Edits: []Edit{{Put: fresh, IfMatch: 1}}}, "subject user=43", "deleted since revision 1", "read it again", ErrConflict},
		{Change{Edits: []Edit{{Put: fresh}}, IdempotencyKey: strings.Repeat("x", 257)}, "idempotency key", "longer than 256", "UUID", nil},
		{Change{Edits: []Edit{{Put: fresh}}, IdempotencyKey: "a\n"}, "idempotency key", "control", "UUID", nil},
		{Change{Edits: []Edit{{Put: fresh}}, Request: strings.Repeat("x", 257)}, "request", "longer than 256", "hash", nil},
	} {
		_, err := f.Apply(t.Context(), tt.c, start)
		wantFault(t, err, tt.where, tt.problem, tt.hint, tt.cause)
		revision, err := f.Revision()
		testkit.Must(t, err)
		if got := contentOf(t, f); revision != 1 || !reflect.DeepEqual(got, want) {
			t.Fatalf("after %q the file has revision %d and %v", tt.problem, revision, got)
		}
	}
}

// Of two writers who read the same revision, the second is refused.
func TestIfMatch(t *testing.T) {
	f := openNew(t)
	read := put(t, f, subject, ban)
	other := put(t, f, banned)
	mine, yours := subject, subject
	mine.Plan, yours.Plan = "mine", "yours"
	var wins sync.Map
	var both sync.WaitGroup
	for _, s := range []Subject{mine, yours} {
		both.Go(func() {
			if _, err := f.Apply(t.Context(), Change{Edits: []Edit{{Put: s, IfMatch: read}}}, start); err == nil {
				wins.Store(s.Plan, true)
			} else {
				wantFault(t, err, "subject user=42", "changed since revision 1: it has revision 3", "repeat the change", ErrConflict)
			}
		})
	}
	both.Wait()
	e, _, err := f.Get(subject.ID())
	testkit.Must(t, err)
	got, _ := e.Record.(Subject)
	if _, won := wins.Load(got.Plan); !won || e.Revision != 3 {
		t.Errorf("the file has %v at revision %d", got, e.Revision)
	}
	wins.Delete(got.Plan)
	wins.Range(func(plan, _ any) bool { t.Errorf("both won, and %v is lost", plan); return true })
	// The whole file has a revision too.
	_, err = f.Apply(t.Context(), Change{Edits: []Edit{{Put: mine}}, IfMatch: other}, start)
	wantFault(t, err, "records", "changed since revision 2: it has revision 3", "read it again", ErrConflict)
	_, err = f.Apply(t.Context(), Change{Edits: []Edit{{Delete: ban.ID(), IfMatch: read}}, IfMatch: 3}, start)
	testkit.Must(t, err)
}

// A repeat has the outcome of the first change: also if the first was refused, if other changes came
// between, and if the end that both set has passed meanwhile.
func TestIdempotency(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.db")
	f := open(t, path)
	put(t, f, subject)
	good := Change{Edits: []Edit{{Put: ban}}, IdempotencyKey: "k1", Request: "hash 1"}
	conflicting := Change{Edits: []Edit{{Put: subject, IfAbsent: true}}, IdempotencyKey: "k2"}
	missing := Change{Edits: []Edit{{Delete: override.ID()}}, IdempotencyKey: "k3"}
	out, err := f.Apply(t.Context(), good, start)
	if err != nil || out != (Outcome{2, false}) {
		t.Fatalf("%v, %v", out, err)
	}
	for round := range 2 {
		_, err = f.Apply(t.Context(), conflicting, start)
		wantFault(t, err, "subject user=42", "exists already", "read it", ErrConflict)
		_, err = f.Apply(t.Context(), missing, start)
		wantFault(t, err, "override user=42 of api/user", "no such record", "list", ErrMissing)
		if round == 0 { // now both would be possible
			_, err := f.Apply(t.Context(), Change{Edits: []Edit{{Delete: subject.ID()}, {Delete: ban.ID()}, {Put: override}}}, start)
			testkit.Must(t, err)
			testkit.Must(t, f.Close())
			f = open(t, path)
		}
	}
	out, err = f.Apply(t.Context(), good, start.Add(9*time.Hour))
	if err != nil || out != (Outcome{2, true}) {
		t.Errorf("%v, %v", out, err)
	}
	if out, err = f.Apply(t.Context(), good, friday.Add(time.Hour)); err != nil || out != (Outcome{2, true}) {
		t.Errorf("after the end of the ban: %v, %v", out, err)
	}
	if _, there, err := f.Get(ban.ID()); there || err != nil {
		t.Errorf("the repeat made the ban again, %v", err)
	}
	other := good
	other.Request = "hash 2"
	_, err = f.Apply(t.Context(), other, start)
	wantFault(t, err, "idempotency key", "used for another request", "new key", ErrReused)
	// A change with a fault of its own can be corrected.
	fault := Change{Edits: []Edit{{Put: Ban{Subject: "user"}}}, IdempotencyKey: "k4"}
	_, err = f.Apply(t.Context(), fault, start)
	wantFault(t, err, "ban user", "no entry", "KEY=VALUE", nil)
	fault.Edits[0].Put = banned
	if out, err := f.Apply(t.Context(), fault, start); err != nil || out.Repeated {
		t.Errorf("%v, %v", out, err)
	}
}

// Outcomes are removed after a day.
func TestOutcomesEnd(t *testing.T) {
	f := openNew(t)
	count := func() (kept, ages int) {
		testkit.Must(t, f.view(func(tx *bolt.Tx) error {
			kept, ages = tx.Bucket(dbfile.OutcomeBuckets()[0]).Stats().KeyN, tx.Bucket(dbfile.OutcomeBuckets()[1]).Stats().KeyN
			return nil
		}))
		return kept, ages
	}
	for n := range 2 * dbfile.DropMost {
		_, err := f.Apply(t.Context(), Change{Edits: []Edit{{Put: subject}}, IdempotencyKey: fmt.Sprint("k", n)}, start.Add(time.Duration(n)*time.Second))
		testkit.Must(t, err)
	}
	at := start.Add(dbfile.OutcomeAge + time.Minute)
	for _, want := range []int{2*dbfile.DropMost - 60, 2*dbfile.DropMost - 60} { // one for each second of that minute
		_, err := f.Apply(t.Context(), Change{Edits: []Edit{{Put: pattern}}}, at)
		testkit.Must(t, err)
		if kept, ages := count(); kept != want || ages != want {
			t.Errorf("%d outcomes, %d ages, want %d", kept, ages, want)
		}
	}
	if out, err := f.Apply(t.Context(), Change{Edits: []Edit{{Put: subject}}, IdempotencyKey: "k60"}, at); err != nil || !out.Repeated {
		t.Errorf("after a day: %v, %v", out, err)
	}
	if out, err := f.Apply(t.Context(), Change{Edits: []Edit{{Put: subject}}, IdempotencyKey: "k59"}, at); err != nil || out.Repeated {
		t.Errorf("after more than a day: %v, %v", out, err)
	}
}

// While a key is replaced, two are valid, and never three.
func TestKeyReplacement(t *testing.T) {
	f := openNew(t)
	first := keyOf("first", "user=42")
	put(t, f, first)
	replace := func(old APIKey, key string, now, until time.Time) (APIKey, APIKey, error) {
		ending, next := Replacement(old, keyOf(key, ""), until)
		_, err := f.Apply(t.Context(), Change{Edits: []Edit{{Put: ending}, {Put: next}}}, now)
		return ending, next, err
	}
	first, second, err := replace(first, "second", start, friday)
	testkit.Must(t, err)
	_, _, err = replace(first, "other", start, friday)
	wantFault(t, err, "replaces", "another replacement already", "revoke", ErrConflict)
	_, _, err = replace(second, "third", start, friday)
	wantFault(t, err, "replaces", "two keys are valid already", "...x7Qa", ErrConflict)
	late := friday.Add(time.Hour)
	second, third, err := replace(second, "third", friday, late)
	testkit.Must(t, err)
	// A revoked replacement can be made again.
	_, err = f.Apply(t.Context(), Change{Edits: []Edit{{Delete: third.ID()}}}, friday)
	testkit.Must(t, err)
	_, third, err = replace(second, "fourth", friday, late)
	testkit.Must(t, err)
	third.Why = "noted later"
	_, err = f.Apply(t.Context(), Change{Edits: []Edit{{Put: third}}}, late.Add(time.Hour))
	testkit.Must(t, err)
	_, err = f.Apply(t.Context(), Change{Edits: []Edit{{Put: APIKey{Hash: sumOf("a"), Last: "abcd", Subject: "user=42", Replaces: sumOf("b")}}}}, start)
	wantFault(t, err, "replaces", "no key to replace", "replaces none", ErrConflict)
	lone := keyOf("lone", "user=42")
	put(t, f, lone)
	_, next := Replacement(lone, keyOf("next", ""), friday)
	_, err = f.Apply(t.Context(), Change{Edits: []Edit{{Put: next}}}, start)
	wantFault(t, err, "replaces", "the old key has no end", "same change", ErrConflict)
}

func TestTrustedProxies(t *testing.T) {
	f, err := Open(filepath.Join(t.TempDir(), "records.db"), Options{TrustedProxies: []netip.Prefix{proxy}})
	testkit.Must(t, err)
	defer f.Close()
	c := Change{Edits: []Edit{{Put: Ban{Network: proxy}}}}
	_, err = f.Apply(t.Context(), c, start)
	wantFault(t, err, "ban 198.51.100.0/28: network", "trusted proxy", "force", nil)
	c.Force = true
	_, err = f.Apply(t.Context(), c, start)
	testkit.Must(t, err)
}

// Every fault of a file or its folder is reported with a hint when the file is opened or read.
func TestFileFaults(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good.db")
	f := open(t, good)
	var records []Record
	for n := range 2000 {
		records = append(records, Subject{Name: fmt.Sprint("user=", n), Kind: User, Notes: "noted"})
	}
	put(t, f, records...)
	testkit.Must(t, f.Close())
	data, err := os.ReadFile(good)
	testkit.Must(t, err)
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		testkit.Must(t, os.WriteFile(path, data, 0o600))
		return path
	}
	// changed returns a copy of the file with a change that this program would not make.
	changed := func(name string, change func(*bolt.Tx) error) string {
		path := write(name, data)
		db, err := bolt.Open(path, 0o600, nil)
		testkit.Must(t, err)
		testkit.Must(t, db.Update(change))
		testkit.Must(t, db.Close())
		return path
	}
	other := filepath.Join(dir, "other.db")
	stranger, err := bolt.Open(other, 0o600, nil)
	testkit.Must(t, err)
	testkit.Must(t, stranger.Update(func(tx *bolt.Tx) error { _, err := tx.CreateBucket([]byte("theirs")); return err }))
	testkit.Must(t, stranger.Close())
	flipped := append([]byte(nil), data...)
	flipped[strings.LastIndex(string(flipped), `"record":{`)+len(`"record":{"`)] ^= 1
	held := filepath.Join(dir, "held.db")
	open(t, held)
	newer := changed("newer", func(tx *bolt.Tx) error { return tx.Bucket(dbfile.About).Put(dbfile.FormatKey, []byte{2}) })
	before, err := os.ReadFile(newer)
	testkit.Must(t, err)
	for _, tt := range []struct{ path, want, hint string }{
		{dir, "not a file", "a file of its own"},
		{filepath.Join(dir, "no", "where.db"), "its folder does not exist", "create the folder"},
		{write("text", []byte(strings.Repeat("user=1,pro\n", 5000))), "damaged: no file of records", "import the records anew"},
		{write("empty", nil), "damaged: it is empty", "put back a copy"},
		{write("short", data[:100]), "damaged", "put back a copy"},
		{write("page", data[:4096]), "damaged: most of it", "put back a copy"},
		{write("pages", data[:8192]), "damaged: 8192 bytes are there of", "put back a copy"},
		{write("half", data[:len(data)/2]), "damaged", "put back a copy"},
		{write("flipped", flipped), "has another checksum", "faulty disk"},
		{changed("bucket", func(tx *bolt.Tx) error { return tx.DeleteBucket(bucketOf(Bans)) }), `the part "kind ban" is missing`, "put back"},
		{changed("revision", func(tx *bolt.Tx) error { return tx.Bucket(dbfile.About).Delete(dbfile.RevisionKey) }), "the revision is missing", "put back"},
		{changed("format", func(tx *bolt.Tx) error { return tx.Bucket(dbfile.About).Delete(dbfile.FormatKey) }), "the version of its format is missing", "put back"},
		{changed("json", func(tx *bolt.Tx) error {
			return tx.Bucket(bucketOf(Subjects)).Put([]byte("a"), dbfile.EncodeText([]byte("a"), []byte("{")))
		}), "the record a is not a valid record", "put back"},
		{newer, "written by a later version", "start that version"},
		{other, "none of records", "another program"},
		{held, "in use by another process", "stop the other service"},
	} {
		t.Run(filepath.Base(tt.path), func(t *testing.T) {
			t.Parallel()
			f, err := Open(tt.path, Options{})
			if err == nil {
				defer f.Close()
				for _, e := range f.All(Subjects) {
					err = e
				}
			}
			wantFault(t, err, tt.path, tt.want, tt.hint, nil)
			if damaged := strings.Contains(tt.hint, "put back"); damaged && !errors.Is(err, ErrDamaged) {
				t.Errorf("the cause of %v is not ErrDamaged", err)
			}
		})
	}
	t.Cleanup(func() {
		if after, err := os.ReadFile(newer); err != nil || string(after) != string(before) {
			t.Errorf("the file of a later version was changed, %v", err)
		}
	})
}

// A file of the first version, which had fewer kinds of records, keeps what it has and takes records of each kind
// that was added later.
func TestEarlierFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.db")
	f := open(t, path)
	put(t, f, Subject{Name: "user=42", Kind: "user", Plan: "gold"})
	testkit.Must(t, f.Close())
	db, err := bolt.Open(path, 0o600, nil)
	testkit.Must(t, err)
	testkit.Must(t, db.Update(func(tx *bolt.Tx) error {
		for _, kind := range kinds {
			if !slices.Contains([]Kind{Subjects, Overrides, Bans, APIKeys, Rules}, kind) {
				if err := tx.DeleteBucket(bucketOf(kind)); err != nil {
					return err
				}
			}
		}
		return nil
	}))
	testkit.Must(t, db.Close())
	f = open(t, path)
	put(t, f, grantOf("order-7", 7))
	if got := lookup(t, f, "user", "42"); len(got.Grants) != 1 || got.Subject.Plan != "gold" {
		t.Errorf("%+v", got)
	}
}

func TestClosedFile(t *testing.T) {
	f := openNew(t)
	testkit.Must(t, f.Close())
	_, err := f.Apply(t.Context(), Change{Edits: []Edit{{Put: subject}}}, start)
	wantFault(t, err, "records.db", "closed", "open it", nil)
	_, _, err = f.Get(subject.ID())
	wantFault(t, err, "records.db", "closed", "open it", nil)
}
