package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/records"
	"stint/records/apikey"
	"stint/records/replication"
	"stint/store/redis/recordlog"
)

var now = time.Date(2026, 7, 30, 12, 0, 0, 0, time.UTC)

func open(t *testing.T) *records.File {
	t.Helper()
	f, err := records.Open(filepath.Join(t.TempDir(), "records.db"), records.Options{})
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, f.Close()) })
	return f
}

func apply(t *testing.T, f *records.File, all ...records.Record) {
	t.Helper()
	var c records.Change
	for _, r := range all {
		c.Edits = append(c.Edits, records.Edit{Put: r})
	}
	_, err := f.Apply(t.Context(), c, now)
	testkit.Must(t, err)
}

func export(t *testing.T, f *records.File, format Format) string {
	t.Helper()
	var out strings.Builder
	testkit.Must(t, Export(f, NewWriter(&out, format, Kinds...), Kinds, now))
	return out.String()
}

// load imports a text of all kinds.
func load(f *records.File, text string, o Options) (Difference, error) {
	if o.Kinds == nil {
		o.Kinds = Kinds
	}
	diff, _, err := Import(context.Background(), f, strings.NewReader(text), o, now)
	return diff, err
}

// nasty are texts that are hard to write as CSV or JSON, or dangerous in a spreadsheet.
var nasty = []string{
	"=1+1", "+1", "-1", "@SUM(A1)", "x;=cmd()", "x; -1", " @a", "x\t+1", "x\n=1", "x;'=1", "\tx", "\rx", "'=1", "''=1", "'quoted'", "'", "a,b", `say "hi"`, `"`, "a\r\nb", "a\nb", "x\r", "\n", "end", " lead", "trail ",
	"é", "\ufeffbom", "\u2028", "<&>", `\`, "null", "true",
}

// sample puts records of all kinds with all nasty texts into a file.
func sample(t *testing.T, f *records.File) {
	t.Helper()
	var all []records.Record
	for i, text := range nasty {
		visible := strings.NewReplacer("\t", "", "\r", "", "\n", "").Replace(text) + "." + strconv.Itoa(i)
		all = append(all,
			records.Subject{
				Name: "user=" + visible, Kind: records.User, Plan: visible, Groups: []string{visible, "b"}, Notes: text,
				Subscribed: now.Add(-time.Hour), PlanUntil: now.Add(time.Duration(i+1) * time.Hour),
			},
			records.Override{Target: "user=" + visible, Rule: visible, Requests: uint32(i + 1), Per: time.Duration(i+1) * 90 * time.Second, Why: text, Until: now.Add(time.Hour)},
			records.Ban{Subject: "ip=" + visible, Why: text},
			records.Grant{Subject: "user=" + visible, Name: fmt.Sprint("g-", i), Limit: visible, Units: uint32(i + 1), Priority: uint8(i), From: now.Add(time.Duration(i) * time.Minute), Until: now.Add(time.Hour), Why: text},
		)
	}
	all = append(all,
		records.Subject{Name: "org=acme", Kind: records.Organisation},
		records.Override{Target: "user=test-*", Rule: "api/user", Unlimited: true},
		records.Ban{Network: netip.MustParsePrefix("192.0.2.0/24"), Until: now.Add(time.Hour)},
		records.Ban{Network: netip.MustParsePrefix("192.0.2.7/32")},
		records.Ban{Network: netip.MustParsePrefix("2001:db8::/32")},
	)
	apply(t, f, all...)
	// A chain of replaced keys, and one that replaces a key that has ended.
	old := records.APIKey{Hash: apikey.Hash{0xff}, Last: "oooo", Subject: "user=42"}
	apply(t, f, old)
	ending, next := records.Replacement(old, records.APIKey{Hash: apikey.Hash{0x01}, Last: "nnnn", Why: "leak"}, now.Add(time.Hour))
	apply(t, f, ending, next)
}

// What was exported can be imported into another file, whose export is the same, byte by byte.
func TestRoundTrip(t *testing.T) {
	f := open(t)
	sample(t, f)
	for _, format := range []Format{JSONLines, CSV} {
		first := export(t, f, format)
		other := open(t)
		diff, err := load(other, first, Options{Format: format})
		if err != nil {
			t.Fatalf("format %d: %v\n%s", format, err, first)
		}
		if second := export(t, other, format); second != first {
			t.Errorf("format %d: the second export differs:\n%s\nthe first:\n%s", format, second, first)
		}
		if want := strings.Count(first, "\n"); diff.Added == 0 || format == JSONLines && diff.Added != want-1 {
			t.Errorf("format %d: %+v of %d lines", format, diff, want)
		}
		// The other format has the same records, and a repeat changes nothing.
		before, err := other.Revision()
		testkit.Must(t, err)
		again, err := load(other, export(t, f, 1-format), Options{Format: 1 - format, Replace: true})
		testkit.Must(t, err)
		after, err := other.Revision()
		testkit.Must(t, err)
		if again.Unchanged != diff.Added || again.Added+again.Changed+again.Deleted != 0 || before != after {
			t.Errorf("format %d: a repeat: %+v, revision %d, then %d", format, again, before, after)
		}
	}
	for line := range strings.Lines(export(t, f, CSV)) {
		for _, cell := range strings.FieldsFunc(strings.TrimSuffix(line, "\n"), func(r rune) bool { return strings.ContainsRune(",;\t\r\n", r) }) {
			if cell = strings.TrimLeft(cell, ` "`); cell != "" && strings.ContainsAny(cell[:1], "=+-@\t") {
				t.Errorf("a cell begins a formula: %q", cell)
			}
		}
	}
}

// An export has no record that has ended, and an import leaves it out.
func TestEnded(t *testing.T) {
	f := open(t)
	apply(t, f, records.Ban{Subject: "user=1", Until: now.Add(time.Minute)}, records.Grant{Subject: "user=1", Name: "g", Limit: "api", Units: 1, Until: now.Add(time.Minute)}, records.Subject{Name: "user=1", Kind: records.User, Plan: "gold", PlanUntil: now.Add(time.Minute)})
	text := export(t, f, JSONLines)
	var out strings.Builder
	testkit.Must(t, Export(f, NewWriter(&out, JSONLines), Kinds, now.Add(time.Minute)))
	if want := `{"record":"subject","subject":"user=1","kind":"user"}` + "\n" + `{"record":"end","count":1}` + "\n"; out.String() != want {
		t.Errorf("later: %s", out.String())
	}
	diff, _, err := Import(t.Context(), open(t), strings.NewReader(strings.Replace(text, `,"plan":"gold","plan_until":"2026-07-30T12:01:00Z"`, "", 1)), Options{Kinds: Kinds}, now.Add(time.Minute))
	if err != nil || diff.Ended != 2 || diff.Added != 1 {
		t.Errorf("%+v, %v", diff, err)
	}
}

// An export that leaves out what has ended changes nothing where it comes from.
func TestEndedHere(t *testing.T) {
	f := open(t)
	sample(t, f)
	_, err := f.Apply(t.Context(), records.Change{Edits: []records.Edit{{Delete: records.APIKey{Hash: apikey.Hash{0xff}}.ID()}}}, now)
	testkit.Must(t, err)
	if diff, err := load(f, export(t, f, JSONLines), Options{Replace: true}); err != nil || diff.Added+diff.Changed+diff.Deleted > 0 {
		t.Errorf("%+v, %v", diff, err)
	}
}

// A dry run says what would change, and changes nothing.
func TestDifference(t *testing.T) {
	f := open(t)
	apply(t, f, records.Subject{Name: "user=1", Kind: records.User}, records.Subject{Name: "user=2", Kind: records.User}, records.Subject{Name: "user=3", Kind: records.User}, records.Ban{Subject: "user=9"})
	const text = `{"record":"subject","subject":"user=2","kind":"user"}
{"record":"subject","subject":"user=3","kind":"user","plan":"gold"}
{"record":"subject","subject":"user=4","kind":"user"}
{"record":"end","count":3}
`
	kinds := []records.Kind{records.Subjects}
	before := export(t, f, JSONLines)
	diff, err := load(f, text, Options{DryRun: true, Replace: true, Kinds: kinds})
	if err != nil || export(t, f, JSONLines) != before {
		t.Fatalf("%v, and there is\n%s", err, export(t, f, JSONLines))
	}
	var got []string
	for _, line := range diff.Shown {
		got = append(got, line.Do+" "+line.Name)
	}
	if want := []string{"change user=3", "add user=4", "delete user=1"}; !reflect.DeepEqual(got, want) || diff.Unchanged != 1 {
		t.Errorf("%v, %+v", got, diff)
	}
	if real, err := load(f, text, Options{Replace: true, Kinds: kinds}); err != nil || !reflect.DeepEqual(real, diff) {
		t.Errorf("%+v, %v; the dry run said %+v", real, err, diff)
	}
	if _, ban, err := f.Get(records.Ban{Subject: "user=9"}.ID()); !ban || err != nil {
		t.Error("an import of subjects deletes a ban")
	}
}

// An import with a fault changes nothing, and the fault says where it is.
func TestRefused(t *testing.T) {
	const good = `{"record":"ban","subject":"user=1"}` + "\n"
	for _, test := range []struct{ text, want string }{
		{"", "line 1: the file has no last line"},
		{good, "line 2: the file has no last line"},
		{good + `{"record":"end","count":1}`, "line 2: the file ends within a line"},
		{good + `{"record":"end","count":2}` + "\n", "line 2: the file has 1 records, and its last line says 2"},
		{good + `{"record":"end"}` + "\n", `line 2: record: "end" is no kind`},
		{good + `{"record":"end","count":1}` + "\n" + good, "line 3: something follows"},
		{good + `{"record":"ban","subj`, "line 2: the file ends within a line"},
		{good + `{"record":"ban","subject":"user=2","until":"2020-01-01T00:00:00Z","plan":"x"}` + "\n", "line 2: plan: no field of ban"},
		{good + good + `{"record":"end","count":2}` + "\n", "line 2: ban user=1 is there twice"},
		{good + `{"record":"ban","address":"127.0.0.1"}` + "\n" + `{"record":"end","count":2}` + "\n", "line 2: ban 127.0.0.1/32: address: the ban would deny programs on this machine"},
		{good + `{"record":"override","pattern":"user=*","rule":"r","requests":1}` + "\n", "line 2: override user=* of r: pattern: user=* matches everybody"},
		{good + `{"record":"subject","subject":"user=` + strings.Repeat("x", 10<<10) + `","kind":"user"}` + "\n", "line 2: subject"},
		{good + `{"record":"ban","subject":"` + strings.Repeat("x", 300<<10) + `"}` + "\n", "line 2: longer than"},
		{good + `{"record":"key","hash":"stint_secret","last":"abcd","subject":"user=1"}` + "\n", "line 2: hash: not the hash of an API key"},
		{good + `{"record":"gift"}` + "\n", `line 2: record: "gift" is no kind of record`},
		{good + "{}\n", `line 2: record: "" is no kind of record`},
		{good + "[]\n", "line 2: "},
		{good + `{"record":"ban","subject":"user=2","gift":1}` + "\n", `line 2: unknown field "gift"`},
	} {
		f := open(t)
		_, err := load(f, test.text, Options{})
		if err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%.200q: %v, want %s", test.text, err, test.want)
		}
		if line, ok := errors.AsType[*LineError](err); !ok || line.Hint == "" {
			t.Errorf("%.200q: no hint: %#v", test.text, err)
		}
		if revision, err := f.Revision(); revision != 0 || err != nil {
			t.Errorf("%.200q: revision %d, %v", test.text, revision, err)
		}
	}
	for _, test := range []struct{ text, want string }{
		{"", "line 1: the file has no last line"},
		{"record,subject\nban,user=1\n", "line 3: the file has no last line"},
		{"record,subject\nban,user=1\nend,1", "line 3: the file ends within a line"},
		{"record,subject\nban,user=1\nend,\n", "line 3: the last line has no number"},
		{"record,subject\nban,user=1\nend,1\nban,user=2\n", "line 4: something follows"},
		{"subject,record\n", "line 1: the first column is not record"},
		{"record\n", "line 1: only one column"},
		{"record,gift\n", `line 1: unknown column "gift"`},
		{"record,subject,subject\n", "line 1: the column subject is there twice"},
		{"record,subject\nban\n", "line 2: 1 cells, and the first line has 2"},
		{"record,subject\nban,\"user=1\" \n", "line 2: a double quote inside a cell"},
		{"record,subject\nban,user=\"1\n", "line 2: a double quote inside a cell"},
		{"record,subject,requests\noverride,user=1,many\n", `line 2: requests: "many" is not a whole number`},
		{"record,subject,requests\nban,user=1,1\n", "line 2: requests: no field of ban"},
		{"record,subject,unlimited\noverride,user=1,maybe\n", `line 2: unlimited: "maybe" is neither true nor false`},
	} {
		f := open(t)
		if _, err := load(f, test.text, Options{Format: CSV}); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%q: %v, want %s", test.text, err, test.want)
		}
	}
}

// Cut anywhere, an export is refused.
func TestCut(t *testing.T) {
	testkit.OneGoroutine(t)
	f := open(t)
	sample(t, f)
	other := open(t)
	for _, format := range []Format{JSONLines, CSV} {
		text := export(t, f, format)
		for n := 0; n < len(text); n += 1 + n%7 {
			if _, err := load(other, text[:n], Options{Format: format, DryRun: true}); err == nil {
				t.Fatalf("format %d: accepted %d bytes of %d, which end with %q", format, n, len(text), text[max(0, n-40):n])
			}
		}
	}
}

// An import of more records than MaxAtOnce is several changes, and takes little memory.
func TestMany(t *testing.T) {
	const many = 3*MaxAtOnce + 7
	read, write := io.Pipe()
	go func() {
		w := NewWriter(write, JSONLines)
		for i := range many {
			if err := w.Write(records.Subject{Name: fmt.Sprintf("user=%07d", i), Kind: records.User, Plan: "gold"}); err != nil {
				break
			}
		}
		_ = write.CloseWithError(w.Close()) // the reader sees the error
	}()
	text, err := io.ReadAll(read)
	testkit.Must(t, err)
	f := open(t)
	diff, outcome, err := Import(t.Context(), f, bytes.NewReader(text), Options{Kinds: Kinds}, now)
	if err != nil || diff.Added != many || outcome.Revision != 4 || len(diff.Shown) != maxShown {
		t.Fatalf("%d added, %d shown, revision %d, %v", diff.Added, len(diff.Shown), outcome.Revision, err)
	}
	diff, outcome, err = Import(t.Context(), f, bytes.NewReader(text), Options{Kinds: Kinds}, now)
	if err != nil || diff.Unchanged != many || outcome.Revision != 4 {
		t.Errorf("again: %d unchanged, revision %d, %v", diff.Unchanged, outcome.Revision, err)
	}
}

// If nodes share the records, an import makes changes that are small enough to share.
func TestSharedMany(t *testing.T) {
	log, err := recordlog.Open(testkit.StartRedis(t).URL(), "shop")
	testkit.Must(t, err)
	f, err := records.Open(filepath.Join(t.TempDir(), "records.db"), records.Options{Log: log, Node: "a"})
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, f.Close()) })
	apply(t, f, records.Ban{Subject: "user=1"})
	const many = 2*MaxAtOnce + 7
	var text strings.Builder
	w := NewWriter(&text, CSV, records.Subjects)
	for i := range many {
		testkit.Must(t, w.Write(records.Subject{Name: fmt.Sprint("user=", i), Kind: records.User, Notes: strings.Repeat("n", 200)}))
	}
	testkit.Must(t, w.Close())
	o := Options{Format: CSV, Kinds: Kinds, Change: records.Change{IfMatch: 1}}
	diff, err := load(f, text.String(), o)
	o.Change.IfMatch = 0
	switch {
	case errors.Is(err, records.ErrUnavailable): // on a slow machine: what is there already is not counted again
		testkit.Until(t, "the rest is imported", func() bool {
			_, err := load(f, text.String(), o)
			return err == nil
		})
	case err != nil || diff.Added != many:
		t.Fatalf("%d added, %v", diff.Added, err)
	}
	if diff, err := load(f, text.String(), o); err != nil || diff.Unchanged != many {
		t.Errorf("again: %d unchanged, %v", diff.Unchanged, err)
	}
}

// busyLog is a log to which a busy node has no time to send many writes. It may lose its answers, too.
type busyLog struct {
	replication.Log
	lost bool
}

func (l *busyLog) Append(ctx context.Context, after replication.Head, e *replication.Entry, writes []replication.Write, forget bool) (replication.Head, error) {
	switch {
	case l.lost:
		return replication.Head{}, fmt.Errorf("no answer: %w: %w", stint.ErrUnknown, context.DeadlineExceeded)
	case len(writes) > 3000:
		return replication.Head{}, fmt.Errorf("not sent: %w", context.DeadlineExceeded)
	}
	return l.Log.Append(ctx, after, e, writes, forget)
}

// A node that is too busy for a large change makes smaller ones. If an answer is lost, the import can be sent again.
func TestSharedBusy(t *testing.T) {
	log, err := recordlog.Open(testkit.StartRedis(t).URL(), "shop")
	testkit.Must(t, err)
	t.Cleanup(log.Close)
	busy := &busyLog{Log: log}
	f, err := records.Open(filepath.Join(t.TempDir(), "records.db"), records.Options{Log: busy, Node: "a"})
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, f.Close()) })
	apply(t, f, records.Ban{Subject: "user=1"})
	var text strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&text, "subject,user=%d,user\n", i)
	}
	diff, err := load(f, "record,subject,kind\n"+text.String()+"end,5000,\n", Options{Format: CSV})
	if n, err2 := f.Count(records.Subjects); err != nil || err2 != nil || n != 5000 {
		t.Errorf("%d of %d, %v, %v", n, diff.Added, err, err2)
	}
	busy.lost = true
	_, err = load(f, "record,subject,kind\n"+text.String()+"subject,user=more,user\nend,5001,\n", Options{Format: CSV})
	wrong, ok := errors.AsType[*records.Error](err)
	if !ok || !errors.Is(err, stint.ErrUnknown) || !strings.Contains(wrong.Problem, "may have been made") || !strings.Contains(wrong.Hint, "send the same import again") {
		t.Errorf("%+v", err)
	}
}

// If a later change of an import fails, the error says how much was imported, and a repeat goes on.
func TestPart(t *testing.T) {
	f := open(t)
	var text strings.Builder
	w := NewWriter(&text, CSV, records.Subjects)
	for i := range 2*MaxAtOnce + 10 {
		testkit.Must(t, w.Write(records.Subject{Name: fmt.Sprintf("user=%d", i), Kind: records.User}))
	}
	testkit.Must(t, w.Close())
	ctx, cancel := context.WithCancel(t.Context())
	o := Options{Format: CSV, Kinds: Kinds}
	_, _, err := Import(ctx, f, &cancelling{Reader: strings.NewReader(text.String()), cancel: cancel, after: text.Len() + text.Len()*8/10}, o, now)
	part, ok := errors.AsType[*PartError](err)
	if !ok || part.Applied != MaxAtOnce || part.Of != 2*MaxAtOnce+10 || !errors.Is(err, context.Canceled) {
		t.Fatalf("%v", err)
	}
	if diff, err := load(f, text.String(), o); err != nil || diff.Added != MaxAtOnce+10 || diff.Unchanged != MaxAtOnce {
		t.Errorf("%+v, %v", diff, err)
	}
}

// cancelling cancels a context after some bytes.
type cancelling struct {
	*strings.Reader
	cancel func()
	after  int
}

func (c *cancelling) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p[:min(len(p), 1000)])
	if c.after -= n; c.after < 0 {
		c.cancel()
	}
	return n, err
}

// The second of two imports that were made for one revision is refused.
func TestStaleImport(t *testing.T) {
	f := open(t)
	apply(t, f, records.Ban{Subject: "user=1"})
	const text = `{"record":"ban","subject":"user=2"}` + "\n" + `{"record":"end","count":1}` + "\n"
	o := Options{Change: records.Change{IfMatch: 1}}
	if _, err := load(f, text, o); err != nil {
		t.Fatal(err)
	}
	if _, err := load(f, strings.Replace(text, "=2", "=3", 1), o); !errors.Is(err, records.ErrConflict) {
		t.Errorf("%v", err)
	}
}

// Keys are put in the order in which one replaces another, whatever the order of the file.
func TestInOrder(t *testing.T) {
	var edits []records.Edit
	for i := range byte(20) {
		edits = append(edits, records.Edit{Put: records.APIKey{Hash: apikey.Hash{i + 1}, Replaces: apikey.Hash{i}}})
	}
	edits = append(edits, records.Edit{Delete: records.ID{Kind: records.Overrides, Name: "user=a*"}})
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(edits), func(i, j int) { edits[i], edits[j] = edits[j], edits[i] })
	ordered := inOrder(edits)
	if ordered[0].Put != nil || len(ordered) != len(edits) {
		t.Fatalf("%d edits, the first is %v", len(ordered), ordered[0])
	}
	for i, e := range ordered[1:] {
		if k := e.Put.(records.APIKey); int(k.Hash[0]) != i+1 {
			t.Errorf("key %d is at %d", k.Hash[0], i)
		}
	}
}
