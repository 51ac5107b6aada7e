package jsonbody

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/iotest"
)

// Objects counts objects outside of strings, by their depth.
func TestObjects(t *testing.T) {
	for body, want := range map[string][Depths + 1]int{
		``:                                      {},
		`{}`:                                    {0, 1},
		`[{},{}]`:                               {0, 0, 2},
		`{"a":[{"b":[{},{"c":{}}]},{}],"d":{}}`: {0, 1, 1, 2, 0, 2},
		`{"{[\\":"\"{","a":[{"b":"}"}]}`:        {0, 1, 0, 1},
		`}{{{`:                                  {},
	} {
		if got := Objects([]byte(body)); got != want {
			t.Errorf("%s: %v, want %v", body, got, want)
		}
	}
}

// Read reads bodies of all lengths, with or without a Content-Length, and allocates only for bytes
// that have arrived.
func TestRead(t *testing.T) {
	const most = 5000
	for _, n := range []int{0, 1, 511, 512, 513, 1024, 4999, 5000, 5001, 100_000} {
		for _, announced := range []int64{-1, int64(n)} {
			text := strings.Repeat("x", n)
			r := &http.Request{Body: io.NopCloser(iotest.OneByteReader(strings.NewReader(text))), ContentLength: announced}
			got, err := Read(nil, r, most)
			if n > most {
				if f := ReadFault(err, most); f.Status != http.StatusRequestEntityTooLarge {
					t.Errorf("%d bytes: %v", n, err)
				}
				continue
			}
			if err != nil || string(got) != text || cap(got) > max(512, 2*n+1) {
				t.Errorf("%d bytes, announced %d: %d, room for %d, %v", n, announced, len(got), cap(got), err)
			}
		}
	}
	r := &http.Request{Body: io.NopCloser(strings.NewReader("little")), ContentLength: most}
	if got, err := Read(nil, r, most); err != nil || cap(got) > 512 {
		t.Errorf("a body that is announced and does not come takes %d bytes, %v", cap(got), err)
	}
}

// Each reason why a body did not arrive has its own fault.
func TestUnreadable(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want int
	}{{os.ErrDeadlineExceeded, http.StatusRequestTimeout}, {errors.New("gone"), http.StatusBadRequest}, {errTooLarge, http.StatusRequestEntityTooLarge}} {
		if f := ReadFault(tt.err, 5); f.Status != tt.want {
			t.Errorf("%v: %d, want %d", tt.err, f.Status, tt.want)
		}
	}
}

// Strings, numbers and null in all spellings.
func TestScanner(t *testing.T) {
	s := &Scanner{Data: []byte(` null "abc" -1.5e3 nul`)}
	if !s.Null() || s.Null() {
		t.Error("null is not read once")
	}
	if text, f := s.TextUpTo(3); text != "abc" || f != nil {
		t.Errorf("%q, %v", text, f)
	}
	if number, f := s.Number(); number != "-1.5e3" || f != nil {
		t.Errorf("%q, %v", number, f)
	}
	if s.Null() {
		t.Error("half of null is read")
	}
	if _, f := (&Scanner{Data: []byte(`"abcd"`)}).TextUpTo(3); f == nil || f.Message() != "4 bytes are too long; send at most 3" {
		t.Errorf("%v", f)
	}
	if _, f := (&Scanner{Data: bytes.Repeat([]byte("1"), MaxNumber+1)}).Number(); f == nil {
		t.Error("a long number is read")
	}
}
