package replication

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
)

func TestEncode(t *testing.T) {
	writes := []Write{
		{Key: []byte("a"), Value: []byte("1")},
		{Key: []byte("b\x00c"), Deleted: true},
		{Key: []byte{}, Value: []byte{}},
		{Key: []byte("long"), Value: bytes.Repeat([]byte{0}, 300)},
	}
	for _, forget := range []bool{false, true} {
		data := Encode(writes, forget)
		got, forgets, err := Decode(data)
		if err != nil || forgets != forget || !reflect.DeepEqual(got, writes) {
			t.Errorf("%v, %v, %v", got, forgets, err)
		}
		whole := 0
		for n := range len(data) { // cut anywhere: an error, or the writes before the cut
			part, _, err := Decode(data[:n])
			if err == nil && !(len(part) == 0 && n == 2) && !reflect.DeepEqual(part, writes[:len(part)]) {
				t.Errorf("%d bytes: %v", n, part)
			}
			if err == nil {
				whole++
			}
		}
		if whole != len(writes) {
			t.Errorf("%d cuts between writes, want %d", whole, len(writes))
		}
	}
	if _, _, err := Decode([]byte{2, 0}); !errors.Is(err, ErrLater) {
		t.Errorf("a later format: %v", err)
	}
	if _, _, err := Decode([]byte{1, 2}); !errors.Is(err, ErrLater) {
		t.Errorf("a later flag: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(Encode([]Write{{Key: []byte("a"), Value: []byte("1")}, {Key: []byte("b"), Deleted: true}}, true))
	f.Fuzz(func(t *testing.T, data []byte) {
		writes, forget, err := Decode(data)
		if err != nil {
			return
		}
		again, forgets, err := Decode(Encode(writes, forget))
		if err != nil || forgets != forget || len(again) != len(writes) {
			t.Errorf("%v became %v, %v", writes, again, err)
		}
	})
}

// Each entry's hash depends on all data before it.
func TestHistory(t *testing.T) {
	a := Head{}.Next([]byte("a"))
	b := a.Head().Next([]byte("b"))
	other := Head{}.Next([]byte("c"))
	c := other.Head().Next([]byte("b"))
	if b.Number != 2 || c.Number != 2 || b.Hash == c.Hash || a.Hash == other.Hash {
		t.Errorf("%v %v", b, c)
	}
	parsed, err := ParseHash(b.Hash.String())
	if err != nil || parsed != b.Hash {
		t.Errorf("%v, %v", parsed, err)
	}
	for _, bad := range []string{"", "00", b.Hash.String() + "00", "x" + b.Hash.String()[1:]} {
		if _, err := ParseHash(bad); err == nil {
			t.Errorf("%q is a hash", bad)
		}
	}
}
