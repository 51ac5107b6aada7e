package trail

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"stint/internal/testkit"
)

var at = time.Date(2026, 7, 30, 12, 0, 0, 123456789, time.UTC)

// sample returns an entry as a caller of Seal makes it.
func sample(n int) Entry {
	e := Entry{
		Number: uint64(n), Revision: uint64(n) + 7, Time: at.Add(time.Duration(n) * time.Second), Action: Put, Kind: "ban",
		Actor: "oncall", From: fmt.Sprint("192.0.2.", n), Until: at.AddDate(0, 0, n),
		Texts: Texts{
			Object: fmt.Sprint("user=", n), Before: json.RawMessage(`{"a":1}`), After: json.RawMessage(`{"a":2}`), Why: "scans:\n3,of them,",
			Subjects: []string{fmt.Sprint("user=", n)},
		},
	}
	if n%2 == 0 {
		e.Actor, e.From, e.Until, e.Texts = "", "", time.Time{}, Texts{Object: fmt.Sprint("user=", n)}
	}
	return e
}

// chain returns a whole trail of n entries.
func chain(n int) (entries []Entry) {
	var previous Hash
	for i := range n {
		e := Seal(sample(i+1), previous)
		previous = e.Hash
		entries = append(entries, e)
	}
	return entries
}

func seq(entries []Entry) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func headOf(e Entry) Head { return Head{e.Number, e.Hash} }

// An entry is the same after it was stored, after it was sent as JSON, and, but for its texts, after
// these were erased.
func TestParse(t *testing.T) {
	for _, e := range chain(4) {
		for range 2 {
			got, err := Parse(e.Chain(), e.Clear())
			if err != nil || !reflect.DeepEqual(got, e) {
				t.Errorf("%v\n%+v, want\n%+v", err, got, e)
			}
			text, err := json.Marshal(e)
			testkit.Must(t, err)
			got = Entry{}
			testkit.Must(t, json.Unmarshal(text, &got))
			if !reflect.DeepEqual(got, e) {
				t.Errorf("as JSON %+v, want\n%+v", got, e)
			}
			if clear := string(e.Clear()) + string(e.Chain()) + string(text); e.Erased && (strings.Contains(clear, "user=") || strings.Contains(clear, "scans")) {
				t.Errorf("erased, and still %q", clear)
			}
			e = e.EraseTexts()
		}
	}
}

// What Seal cannot write in a line is replaced, so that no two entries have the same chain part.
func TestSealOneLine(t *testing.T) {
	e := sample(1)
	e.Actor = "CN=a\nb\xff\x00"
	e = Seal(e, Hash{})
	got, err := Parse(e.Chain(), e.Clear())
	if err != nil || got.Actor != "CN=a\ufffdb\ufffd\ufffd" {
		t.Errorf("%q, %v", got.Actor, err)
	}
}

// Commitments to the same texts differ, so that one cannot be found out from another.
func TestKeysAreRandom(t *testing.T) {
	a, b := Seal(sample(1), Hash{}), Seal(sample(1), Hash{})
	if a.TextsHash == b.TextsHash || a.OriginHash == b.OriginHash || a.TextsKey == a.OriginKey || a.TextsKey == (Key{}) {
		t.Errorf("%v and %v", a, b)
	}
}

func TestParseRefuses(t *testing.T) {
	e := Seal(sample(1), Hash{})
	chain, clear := string(e.Chain()), string(e.Clear())
	for _, tt := range []struct{ chain, clear string }{
		{"", clear},
		{chain + "\n", clear},
		{strings.TrimSuffix(chain, "\n"), clear},
		{strings.Replace(chain, "trail 1", "trail 2", 1), clear},
		{strings.Replace(chain, "\n1\n", "\n01\n", 1), clear},
		{strings.Replace(chain, ".123456Z", ".1234567Z", 1), clear},
		{strings.ToUpper(chain), clear},
		{chain, ""},
		{chain, clear[:20]},
		{chain, clear + "x"},
		{chain, clear[:len(clear)-1]},
		{chain, strings.Replace(clear, "9:192", "09:192", 1)},
		{chain, string(e.OriginKey[:]) + "0:," + "short"},
		{chain, string(e.OriginKey[:]) + "0:," + string(e.TextsKey[:]) + "0:,0:,0:,"},
		{chain, string(e.OriginKey[:]) + "-1:,"},
		{chain, string(e.OriginKey[:]) + "9999999999999999999:,"},
	} {
		if got, err := Parse([]byte(tt.chain), []byte(tt.clear)); err == nil {
			t.Errorf("%q, %q are read as %+v", tt.chain, tt.clear, got)
		}
	}
}

// Each way to tamper with a trail is found at its place.
func TestVerify(t *testing.T) {
	good := chain(9)
	end := headOf(good[8])
	change := func(n int, do func(e *Entry)) []Entry {
		entries := slices.Clone(good)
		entries[n-1].Subjects = slices.Clone(entries[n-1].Subjects)
		do(&entries[n-1])
		return entries
	}
	resealed := func(e *Entry) { e.Actor = "nobody"; *e = Seal(*e, e.Previous) }
	for _, tt := range []struct {
		name    string
		entries []Entry
		known   []Head
		number  uint64 // of the break; 0 for none
		problem string
	}{
		{"whole", good, []Head{end, headOf(good[2]), {}}, 0, ""},
		{"erased", change(4, func(e *Entry) { *e = e.EraseTexts() }), []Head{end}, 0, ""},
		{"empty", nil, []Head{{}}, 0, ""},
		{"changed", change(4, func(e *Entry) { e.Actor = "nobody" }), nil, 4, "another hash than its chain part"},
		{"changed and sealed again", change(4, resealed), nil, 5, "does not follow entry 4"},
		{"the last changed and sealed again", change(9, resealed), []Head{end}, 9, "the head that was kept"},
		{"the last changed, kept before", change(9, resealed), []Head{headOf(good[7])}, 0, ""},
		{"removed", slices.Delete(slices.Clone(good), 4, 6), nil, 5, "missing: entry 7 follows entry 4"},
		{"first removed", good[1:], nil, 1, "missing: entry 2 follows entry 0"},
		{"cut off", good[:7], []Head{headOf(good[2]), end}, 8, "cut off, because a head was kept of entry 9"},
		{"all cut off", nil, []Head{end}, 1, "cut off"},
		{"reordered", append(slices.Clone(good[:3]), good[4], good[3], good[5]), nil, 4, "entry 5 follows entry 3"},
		{"twice", append(slices.Clone(good[:3]), good[2], good[3]), nil, 4, "entry 3 is in its place"},
		{"renumbered", append(slices.Clone(good[:3]), func() Entry { e := good[4]; e.Number = 4; return e }()), nil, 4, "does not follow entry 3"},
		{"object", change(3, func(e *Entry) { e.Object = "user=x" }), nil, 3, "its texts"},
		{"before", change(3, func(e *Entry) { e.Before = json.RawMessage("1") }), nil, 3, "its texts"},
		{"after", change(3, func(e *Entry) { e.Before, e.After = e.After, e.Before }), nil, 3, "its texts"},
		{"why", change(3, func(e *Entry) { e.Why = "" }), nil, 3, "its texts"},
		{"subject", change(3, func(e *Entry) { e.Subjects[0] = "user=x" }), nil, 3, "its texts"},
		{"key", change(3, func(e *Entry) { e.TextsKey[0]++ }), nil, 3, "its texts"},
		{"from", change(3, func(e *Entry) { e.From = "" }), nil, 3, "address of the caller"},
		{"another history", chain(9), []Head{end}, 9, "the head that was kept"},
		{"two histories", good, []Head{end, headOf(chain(9)[8])}, 9, "another hash"},
	} {
		r, err := Verify(Head{}, seq(tt.entries), tt.known...)
		switch {
		case err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.number == 0 && r.Break != nil, tt.number != 0 && (r.Break == nil || r.Break.Number != tt.number || !strings.Contains(r.Break.Error(), tt.problem)):
			t.Errorf("%s: %v, want %q of entry %d", tt.name, r.Break, tt.problem, tt.number)
		case tt.number == 0 && len(tt.entries) > 0 && (r.First != 1 || r.Head.Number != 9):
			t.Errorf("%s: %+v", tt.name, r)
		case (tt.name == "erased") != (r.Erased == 1):
			t.Errorf("%s: %d erased", tt.name, r.Erased)
		}
	}
}

// A trail whose oldest entries were dropped verifies from there on.
func TestVerifyFromStart(t *testing.T) {
	all := chain(9)
	start, rest := headOf(all[3]), all[4:]
	r, err := Verify(start, seq(rest), headOf(all[1]), start, headOf(all[8]))
	if err != nil || r.Break != nil || r.First != 5 || !r.Since.Equal(all[4].Time) || !reflect.DeepEqual(r.Skipped, []Head{headOf(all[1])}) {
		t.Errorf("%+v, %v", r, err)
	}
	for _, wrong := range []struct {
		start Head
		known []Head
	}{{headOf(all[2]), nil}, {headOf(all[4]), nil}, {Head{4, Hash{1}}, nil}, {start, []Head{{4, Hash{1}}}}} {
		if r, err := Verify(wrong.start, seq(rest), wrong.known...); err != nil || r.Break == nil {
			t.Errorf("start %v, known %v: %+v, %v", wrong.start, wrong.known, r, err)
		}
	}
	failed := errors.New("disk")
	_, err = Verify(start, func(yield func(Entry, error) bool) { yield(Entry{}, failed) })
	if !errors.Is(err, failed) {
		t.Errorf("error %v", err)
	}
	r, err = Verify(start, func(yield func(Entry, error) bool) { yield(Entry{}, &Break{5, "unreadable"}) })
	if err != nil || r.Break == nil || r.Break.Number != 5 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestParseHead(t *testing.T) {
	h := headOf(chain(1)[0])
	if got, err := ParseHead(h.String()); err != nil || got != h {
		t.Errorf("%v, %v, want %v", got, err, h)
	}
	for _, s := range []string{"", "7", "7:", "7:abc", "x:" + h.Hash.String(), "-1:" + h.Hash.String(), h.String() + "0", "7:" + strings.Repeat("g", 64)} {
		if got, err := ParseHead(s); err == nil {
			t.Errorf("%q is %v", s, got)
		}
	}
}

// An entry in JSON verifies as the package comment describes, without this package. In a shell, printf
// makes the texts, sha256sum the hash, and openssl dgst -sha256 -mac HMAC -macopt hexkey:KEY the HMAC.
func TestVerifyByHand(t *testing.T) {
	e := Seal(sample(1), Hash{})
	text, err := json.Marshal(e)
	testkit.Must(t, err)
	var fields struct {
		Previous, Actor, Action, Kind, Time, Until, From, Object, Why, Hash string
		Before, After                                                       json.RawMessage
		Number, Revision                                                    int
		Subjects                                                            []string
		TextsHash                                                           string `json:"texts_hash"`
		TextsKey                                                            string `json:"texts_key"`
		OriginHash                                                          string `json:"origin_hash"`
		OriginKey                                                           string `json:"origin_key"`
	}
	testkit.Must(t, json.Unmarshal(text, &fields))
	mac := func(hexKey, text string) string {
		t.Helper()
		key, err := hex.DecodeString(hexKey)
		testkit.Must(t, err)
		h := hmac.New(sha256.New, key)
		h.Write([]byte(text))
		return hex.EncodeToString(h.Sum(nil))
	}
	var texts strings.Builder
	for _, text := range append([]string{fields.Object, string(fields.Before), string(fields.After), fields.Why}, fields.Subjects...) {
		fmt.Fprintf(&texts, "%d:%s,", len(text), text)
	}
	if got := mac(fields.TextsKey, texts.String()); got != fields.TextsHash {
		t.Errorf("texts: %s, want %s", fields.TextsHash, got)
	}
	if got := mac(fields.OriginKey, fields.From); got != fields.OriginHash {
		t.Errorf("origin: %s, want %s", fields.OriginHash, got)
	}
	lines := fmt.Sprintf("stint trail 1\n%s\n%d\n%d\n%s\n%s\n%s\n%s\n%s\n%s\n%s\n", fields.Previous, fields.Number, fields.Revision,
		fields.Time, fields.Action, fields.Kind, fields.Until, fields.Actor, fields.TextsHash, fields.OriginHash)
	if got := fmt.Sprintf("%x", sha256.Sum256([]byte(lines))); got != fields.Hash {
		t.Errorf("hash %s, want %s", fields.Hash, got)
	}
}

// Parse reads only what Seal writes.
func FuzzParse(f *testing.F) {
	for _, e := range chain(2) {
		f.Add(e.Chain(), e.Clear())
		e = e.EraseTexts()
		f.Add(e.Chain(), e.Clear())
	}
	f.Fuzz(func(t *testing.T, chain, clear []byte) {
		e, err := Parse(chain, clear)
		if err == nil && (string(e.Chain()) != string(chain) || string(e.Clear()) != string(clear)) {
			t.Errorf("%q, %q are read as %+v", chain, clear, e)
		}
	})
}

// BenchmarkVerify reports the cost of reading and verifying one stored entry, without reading the disk.
func BenchmarkVerify(b *testing.B) {
	e := Seal(sample(1), Hash{})
	stored, clear := e.Chain(), e.Clear()
	for b.Loop() {
		got, err := Parse(stored, clear)
		if err != nil {
			b.Fatal(err)
		}
		if r := (Report{}); r.add(&got, nil) != nil {
			b.Fatal(r)
		}
	}
}
