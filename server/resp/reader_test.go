package resp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"stint/internal/testkit"
)

// pieces is a connection that delivers pieces of at most n bytes.
type pieces struct {
	rest []byte
	n    int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.n)], p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

func wide() *room {
	r := new(room)
	r.left.Store(maxLarge)
	return r
}

// readAll returns the commands of what a client sends in pieces of n bytes, each with its arguments
// quoted, and the error that ended it.
func readAll(data string, n int, known bool) (commands []string, err error) {
	r := newReader(&pieces{[]byte(data), n}, known, wide())
	for {
		args, err := r.next()
		if err != nil {
			return commands, err
		}
		if args == nil {
			if err := r.fill(); errors.Is(err, io.EOF) {
				return commands, nil
			} else if err != nil {
				return commands, err
			}
			continue
		}
		commands = append(commands, fmt.Sprintf("%q", args))
	}
}

// Commands arrive whole, however they are cut. What Redis refuses is refused, in its words.
func TestReader(t *testing.T) {
	for _, tt := range []struct {
		data string
		want []string
		err  string
	}{
		{"*1\r\n$4\r\nPING\r\n", []string{`["PING"]`}, ""},
		{"*2\r\n$4\r\nECHO\r\n$0\r\n\r\n*1\r\n$4\r\nPING\r\n", []string{`["ECHO" ""]`, `["PING"]`}, ""},
		{"*2\r\n$4\r\nECHO\r\n$4\r\na\r\nb\r\n", []string{`["ECHO" "a\r\nb"]`}, ""},
		{"*2\r\n$4\r\nECHO\r\n$3\r\n\x00\xff\x80\r\n", []string{`["ECHO" "\x00\xff\x80"]`}, ""},
		{"*0\r\n*-1\r\n*1\r\n$4\r\nPING\r\n", []string{`["PING"]`}, ""},
		{"PING\r\n", []string{`["PING"]`}, ""},
		{"\r\n  \r\nPING a  b\n", []string{`["PING" "a" "b"]`}, ""},
		{`ECHO "a \"b\" \x41\n" 'it\'s'` + "\r\n", []string{`["ECHO" "a \"b\" A\n" "it's"]`}, ""},
		{`ECHO "" ''` + "\r\n", []string{`["ECHO" "" ""]`}, ""},
		{`ECHO "a` + "\r\n", nil, "Protocol error: unbalanced quotes in request"},
		{`ECHO "a"b` + "\r\n", nil, "Protocol error: unbalanced quotes in request"},
		{"*1\r\n+PING\r\n", nil, "Protocol error: expected '$', got '+'"},
		{"*1\r\n\r\n", nil, "Protocol error: expected '$', got '?'"},
		{"*x\r\n", nil, "Protocol error: invalid multibulk length"},
		{"*262145\r\n", nil, "Protocol error: invalid multibulk length"},
		{"*99999999999999999999\r\n", nil, "Protocol error: invalid multibulk length"},
		{"*1\r\n$-1\r\n", nil, "Protocol error: invalid bulk length"},
		{"*1\r\n$x\r\n", nil, "Protocol error: invalid bulk length"},
		{"*1\r\n$1073741824\r\n", nil, "Protocol error: invalid bulk length"},
		{"*1\r\n$4\r\nPINGXX", nil, "Protocol error: expected CRLF after a bulk string"},
		{"*1\r\n$4\rXPING\r\n", nil, "Protocol error: invalid bulk length"},
		{"*" + strings.Repeat("1", maxInline+2), nil, "Protocol error: too big mbulk count string"},
		{strings.Repeat("a ", inlineArgs+1) + "\r\n", nil, "Protocol error: too big inline request"},
		{strings.Repeat("a", maxInline+2), nil, "Protocol error: too big inline request"},
		{"*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPI", []string{`["PING"]`}, ""},
	} {
		for _, n := range []int{1, 2, 3, 7, 1 << 20} {
			got, err := readAll(tt.data, n, true)
			text := ""
			if err != nil {
				text = err.Error()
			}
			if !slices.Equal(got, tt.want) || text != tt.err {
				t.Errorf("%.60q in pieces of %d: %v, %q; want %v, %q", tt.data, n, got, text, tt.want, tt.err)
			}
		}
	}
}

// Clients that have not authenticated may send little.
func TestReaderUnknown(t *testing.T) {
	for data, want := range map[string]string{
		"*11\r\n":              "Protocol error: unauthenticated multibulk length",
		"*1\r\n$16385\r\n":     "Protocol error: unauthenticated bulk length",
		"*1\r\n$4\r\nPING\r\n": "<nil>",
	} {
		if _, err := readAll(data, 1<<20, false); fmt.Sprint(err) != want {
			t.Errorf("%q: %v, want %s", data, err, want)
		}
	}
}

// A command of many arguments keeps its memory within a small multiple of its size, and the buffer of
// a large one is dropped.
func TestReaderMemory(t *testing.T) {
	big := bytes.Repeat([]byte("x"), MaxCommand/2)
	data := fmt.Sprintf("*2\r\n$4\r\nECHO\r\n$%d\r\n%s\r\n", len(big), big)
	r := newReader(&pieces{[]byte(data), 1 << 16}, true, wide())
	for {
		args, err := r.next()
		if err != nil {
			t.Fatal(err)
		}
		if args != nil {
			break
		}
		if err := r.fill(); err != nil {
			t.Fatal(err)
		}
	}
	if cap(r.buf) > 2*(MaxCommand+maxInline) {
		t.Errorf("the buffer has %d bytes", cap(r.buf))
	}
	if args, err := r.next(); args != nil || err != nil {
		t.Fatal(args, err)
	}
	_ = r.fill() // io.EOF
	if cap(r.buf) > keptBuffer {
		t.Errorf("the empty buffer has %d bytes", cap(r.buf))
	}
}

// FuzzReader: whatever arrives, and however it is cut, the commands are the same, and nothing panics.
func FuzzReader(f *testing.F) {
	for _, seed := range []string{
		"*1\r\n$4\r\nPING\r\n", "PING\r\n", "*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", "ECHO \"\\x41\" 'b'\r\n", "*-1\r\n*0\r\n", "*1\r\n$-1\r\n", "*1000000\r\n", "$4\r\n",
	} {
		f.Add([]byte(seed), 3)
	}
	f.Fuzz(func(t *testing.T, data []byte, n int) {
		if len(data) > 1<<12 {
			return
		}
		n = max(1, n&0xff)
		whole, err := readAll(string(data), 1<<20, true)
		cut, err2 := readAll(string(data), n, true)
		if !slices.Equal(whole, cut) || fmt.Sprint(err) != fmt.Sprint(err2) {
			t.Errorf("%q: whole %v %v, in pieces of %d %v %v", data, whole, err, n, cut, err2)
		}
	})
}

// Any bytes take little memory.
func TestDecodersAreFrugal(t *testing.T) {
	var seeds [][]byte
	for _, n := range []int{1, 100, 5000, 100_000} {
		seeds = append(seeds,
			[]byte(fmt.Sprintf("*%d\r\n%s", n, strings.Repeat("$1\r\na\r\n", n))),
			[]byte(fmt.Sprintf("*%d\r\n%s", n, strings.Repeat("$0\r\n\r\n", n))),
			[]byte(strings.Repeat("*1\r\n$4\r\nPING\r\n", n)),
			[]byte(strings.Repeat("*0\r\n", n)),
			[]byte(strings.Repeat("a ", min(n, maxInline/3))+"\r\n"),
			[]byte(strings.Repeat("\r\n", n)),
			[]byte(fmt.Sprintf("*2\r\n$4\r\nECHO\r\n$%d\r\n%s\r\n", n, strings.Repeat("x", n))),
		)
	}
	testkit.Frugal(t, seeds, func(input []byte) {
		r := newReader(&pieces{input, 1 << 14}, true, wide())
		for {
			args, err := r.next()
			if err != nil || args == nil && r.fill() != nil {
				return
			}
		}
	})
}
