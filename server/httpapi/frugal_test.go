package httpapi

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"stint/internal/jsonbody"
	"stint/internal/testkit"
	"stint/limiter"
	"stint/server/httpapi/limitjson"
)

// posted returns a request with a body of unknown length.
func posted(body []byte) *http.Request {
	return &http.Request{Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: -1}
}

// repeated returns bodies in which a piece is repeated.
func repeated(before, piece, after string, times ...int) (list [][]byte) {
	for _, n := range times {
		if n*len(piece) < 1<<20 {
			list = append(list, []byte(before+strings.Repeat(piece, n)+after))
		}
	}
	return list
}

// Decoding any body takes little memory per byte.
func TestDecodersAreFrugal(t *testing.T) {
	t.Run("check", func(t *testing.T) { // also used by inspect and reset
		var seeds [][]byte
		for _, element := range []string{
			`{"entries":[{"key":"k","value":""}]},`, `{"entries":[{"key":"k","value":""}],"cost":1},`, `{},`, `{"entries":[]},`, `null,`,
			`{"entries":[` + strings.Repeat(`{"key":"a","value":""},`, 127) + `{"key":"a","value":""}]},`,
		} {
			seeds = append(seeds, repeated(`{"domain":"d","descriptors":[`, element, `{"entries":[{"key":"k","value":""}]}]}`, 1, 20, 300, 999, 1000, 30_000)...)
		}
		seeds = append(seeds, repeated(`{"domain":"d","descriptors":[{"entries":[`, `{"key":"a","value":""},`, `{}]}]}`, 1, 127, 128, 40_000)...)
		for _, text := range []string{"x", `\u00e9`, "{", "[", `\"`, "é"} {
			for _, before := range []string{
				`{"`, `{"domain":"`, `{"key":"`, `{"key":"k","limit":{"requests":1,"unit":"`, `{"key":"k","limit":{"requests":1,"per":"`,
				`{"key":"k","limit":{"requests":1,"unit":"day","time_zone":"`, `{"key":"k","limit":{"algorithm":"`, `{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"`,
			} {
				seeds = append(seeds, repeated(before, text, `"}}`, 10, 5000, 170_000)...)
			}
		}
		for _, check := range []string{
			`{"key":"a","limit":{"unlimited":true}},`, `{"key":"a","limit":{"requests":1,"unit":"s"}},`, `{},`, `{"domain":"d","descriptors":[{"entries":[{"key":"k","value":""}]}]},`,
		} {
			seeds = append(seeds, repeated(`{"checks":[`, check, `{}]}`, 1, 20, 300, 999, 1001, 20_000)...)
		}
		seeds = append(seeds, repeated(`{"cost":`, "1", "}", 5000, 1<<20-20)...)
		seeds = append(seeds, repeated(`{"cost":1.`, "0", "}", 5000, 1<<20-20)...)
		seeds = append(seeds, []byte(`{"key":"user:42","limit":{"algorithm":"token_bucket","requests":5,"per":"1s","burst":9,"refill":"step"},"cost":3}`))
		testkit.Frugal(t, seeds, func(input []byte) {
			var limits limitjson.Cache
			limits.Init()
			if body, err := jsonbody.Read(nil, posted(input), MaxBody); err == nil {
				if f := new(question).decode(body, &limits, anyForm); f != nil {
					f.Append(nil)
				}
			}
		})
	})
	t.Run("auth query", func(t *testing.T) {
		seeds := [][]byte{[]byte("domain=api&deny=403&deny-5xx=403&wait=80ms"), []byte("domain=%61%70%69")}
		for _, piece := range []string{"&", "=&", "a=b&", "domain=a&", "domain=%", "%61", "wait=é", "deny=1"} {
			seeds = append(seeds, repeated("", piece, "", 100, 5000, 60_000)...)
			seeds = append(seeds, repeated("domain=", piece, "", 100, 5000, 60_000)...)
		}
		a := newAuth(limiter.New(nil, nil, limiter.Options{}), nil, AuthOptions{})
		testkit.Frugal(t, seeds, func(input []byte) {
			if _, f := a.parse(string(input)); f != nil {
				f.Append(nil)
			}
		})
	})
}

// A body that is too large is refused with a clear error.
func TestTooMuch(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	entries := func(n int) string {
		return `{"domain":"d","descriptors":[{"entries":[` + strings.Repeat(`{"key":"k","value":""},`, n-1) + `{"key":"k","value":""}]}]}`
	}
	for _, test := range []struct{ name, body, want string }{
		{"as many entries as can be", entries(limiter.MaxEntries), ""},
		{"entries", entries(limiter.MaxEntries + 1), "descriptors[0].entries[128]: more than 128 entries; "},
		{"the longest domain", `{"domain":"` + long(1024) + `","descriptors":[{"entries":[{"key":"k","value":""}]}]}`, ""},
		{"a domain", `{"domain":"` + long(1025) + `"`, "domain: 1025 bytes are too long; send at most 1024"},
		{"a key", `{"domain":"d","descriptors":[{"entries":[{"key":"` + long(1025) + `"`, "descriptors[0].entries[0].key: 1025 bytes are too long; "},
		{"the longest value", `{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"` + long(256<<10) + `"}]}]}`, ""},
		{"a value", `{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"` + long(256<<10+1) + `"`, "descriptors[0].entries[0].value: 262145 bytes"},
		{"an inline key", `{"key":"` + long(256<<10+1) + `"`, "key: 262145 bytes are too long; send at most 262144"},
		{"a word", `{"key":"k","limit":{"algorithm":"` + long(101) + `"`, "limit.algorithm: 101 bytes are too long; send at most 100"},
		{"a number", `{"domain":"d","cost":1` + strings.Repeat("0", 400) + `}`, "cost: a number of 401 characters; write at most 400"},
	} {
		var limits limitjson.Cache
		limits.Init()
		f := new(question).decode([]byte(test.body), &limits, anyForm)
		if got := ""; f != nil || test.want != "" {
			if f != nil {
				got = f.Message()
			}
			if test.want == "" || !strings.HasPrefix(got, test.want) {
				t.Errorf("%s: %q, want %q", test.name, got, test.want)
			}
		}
	}
}

// The memory of a large request is not kept in a pool.
func TestPoolsKeepNothingLarge(t *testing.T) {
	var limits limitjson.Cache
	limits.Init()
	body := func(descriptors, entries int) []byte {
		one := `{"entries":[` + strings.Repeat(`{"key":"k","value":""},`, entries-1) + `{"key":"k","value":""}]}`
		return []byte(`{"domain":"d","descriptors":[` + strings.Repeat(one+",", descriptors-1) + one + `]}`)
	}
	for _, test := range []struct {
		descriptors, entries int
		kept                 bool
	}{{1, 1, true}, {100, 2, true}, {1000, 1, false}, {20, 100, false}} {
		q := new(question)
		if f := q.decode(body(test.descriptors, test.entries), &limits, anyForm); f != nil || q.keepsLittle() != test.kept {
			t.Errorf("%d descriptors of %d entries: kept %v, %v", test.descriptors, test.entries, q.keepsLittle(), f)
		}
	}
	l, _ := newLimiter(t)
	traffic := NewTraffic(l, TrafficOptions{})
	call(t, traffic.Handler(), "POST", CheckPath, string(body(1000, 1)))
	if w := traffic.questions.Get().(*work); !w.question.keepsLittle() {
		t.Error("the memory of 1000 descriptors waits for the next request")
	}
}
