package rls

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"stint/internal/jsonbody"
	"stint/internal/testkit"
	"stint/limiter"
)

// emptyDescriptors returns a request with n empty descriptors.
func emptyDescriptors(n int) []byte {
	return append([]byte("\x0a\x03mix"), bytes.Repeat([]byte{0x12, 0x00}, n)...)
}

// one returns a request with one descriptor that repeats a part.
func one(part string, times int) []byte {
	data := binary.AppendUvarint([]byte("\x0a\x03mix\x12"), uint64(len(part)*times))
	return append(data, strings.Repeat(part, times)...)
}

// worst returns the requests that need the most memory per byte of input.
func worst() [][]byte {
	var list [][]byte
	for _, n := range []int{1, 100, 500, 999, 1000, 1001, 2000, 30_000, 524_283} {
		list = append(list, emptyDescriptors(n))
	}
	for _, n := range []int{1, 127, 128, 129, 2000, 524_000} {
		list = append(list, one("\x0a\x00", n), one("\x0a\x03\x0a\x01k", n))
	}
	for _, part := range []string{
		"\x12\x02\x0a\x00", "\x12\x05\x0a\x03\x0a\x01k", "\x12\x02\x20\x01", "\x12\x02\x1a\x00", "\x12\x02\x12\x00", "\x12\x08\x0a\x00\x0a\x00\x0a\x00\x20\x01",
		"\x12\x07\x0a\x03\x0a\x01k\x20\x01", "\x12\x80\x02" + strings.Repeat("\x0a\x00", 128), "\x12\x80\x05" + strings.Repeat("\x0a\x03\x0a\x01k", 128),
		"\x12\x81\x05" + strings.Repeat("\x0a\x03\x0a\x01k", 128) + "\x20", strings.Repeat("\x0b", 50),
	} {
		for _, n := range []int{1, 10, 100, 500, 900, 1000, 1001} {
			list = append(list, append([]byte("\x0a\x03mix"), strings.Repeat(part, n)...))
		}
	}
	return list
}

// Decoding any request takes little memory per byte, including the copy that package transport
// makes.
func TestDecodersAreFrugal(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	t.Run("protobuf", func(t *testing.T) {
		seeds := worst()
		for range 20 {
			data, err := proto.Marshal(randomRequest(r))
			if err != nil {
				t.Fatal(err)
			}
			seeds = append(seeds, data)
		}
		testkit.Frugal(t, seeds, func(input []byte) {
			_ = new(message).decode(bytes.Clone(input))
		})
	})
	t.Run("json", func(t *testing.T) {
		var seeds [][]byte
		for range 20 {
			data, err := protojson.Marshal(randomRequest(r))
			if err != nil {
				t.Fatal(err)
			}
			seeds = append(seeds, data)
		}
		for _, element := range []string{
			`{}`, `{"entries":[{}]}`, `{"entries":[{},{},{}]}`, `{"entries":[{"key":""}]}`, `{"limit":{}}`, `{"limit":{"unit":1}}`, `{"isNegativeHits":true}`,
			`{"hitsAddend":"1.0"}`, `null`, `[]`, `{"hitsAddend":1e0}`, `{"entries":[` + strings.Repeat(`{},`, 127) + `{}]}`,
		} {
			for _, n := range []int{1, 10, 200, 999, 1000, 1001, 90_000} {
				if len(element)*n < 1<<20 {
					seeds = append(seeds, []byte(`{"domain":"mix","descriptors":[`+strings.Repeat(element+",", n-1)+element+`]}`))
				}
			}
		}
		for _, n := range []int{128, 129, 2000, 300_000} {
			seeds = append(seeds, []byte(`{"domain":"mix","descriptors":[{"entries":[`+strings.Repeat(`{},`, n)+`{}]}]}`))
		}
		for _, text := range []string{"x", `\u00e9`, "{", "[", `\"`} {
			seeds = append(seeds, []byte(`{"`+strings.Repeat(text, 100_000)+`":1}`), []byte(`{"hitsAddend":"`+strings.Repeat(text, 100_000)+`"}`),
				[]byte(`{"descriptors":[{"limit":{"unit":"`+strings.Repeat(text, 100_000)+`"}}]}`))
		}
		testkit.Frugal(t, seeds, func(input []byte) {
			req := &http.Request{Body: io.NopCloser(bytes.NewReader(input)), ContentLength: -1} // unknown length
			if body, err := jsonbody.Read(nil, req, maxBody); err == nil {
				if f := new(message).decodeJSON(body); f != nil {
					f.Message()
				}
			}
		})
	})
}

// The largest requests with non-empty descriptors and entries are accepted; only requests of many
// empty ones are refused.
func TestFullRequestsAreTaken(t *testing.T) {
	for name, part := range map[string]string{
		"a key and a value":         "\x12\x08\x0a\x06\x0a\x01k\x12\x011",
		"a key":                     "\x12\x05\x0a\x03\x0a\x01k",
		"with hits":                 "\x12\x0c\x0a\x06\x0a\x01k\x12\x011\x1a\x02\x08\x05",
		"given back":                "\x12\x0a\x0a\x06\x0a\x01k\x12\x011\x20\x01",
		"as many entries as can be": "\x12\x80\x08" + strings.Repeat("\x0a\x06\x0a\x01k\x12\x011", limiter.MaxEntries),
		"nothing":                   "\x12\x00",
	} {
		data := append([]byte("\x0a\x03mix"), strings.Repeat(part, limiter.MaxDescriptors)...)
		m := new(message)
		if err := m.decode(data); err != nil || len(m.descriptors) != limiter.MaxDescriptors {
			t.Errorf("%s: %d descriptors, %v", name, len(m.descriptors), err)
		}
	}
}

// A request that is too large is refused with a clear error.
func TestTooMuch(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	entry := func(key, value string) []byte {
		return appendBytes(appendBytes(nil, 1, "mix"), 2, appendBytes(nil, 1, appendBytes(appendBytes(nil, 1, key), 2, value)))
	}
	for _, test := range []struct {
		name string
		data []byte
		json string
		want string
	}{
		{"descriptors", emptyDescriptors(1001), `{"descriptors":[` + strings.Repeat(`{},`, 1000) + `{}]}`, "more than 1000 descriptors"},
		{"entries", one("\x0a\x00", 129), `{"descriptors":[{"entries":[` + strings.Repeat(`{},`, 128) + `{}]}]}`, "more than 128 entries"},
		{"a domain", appendBytes(nil, 1, long(1025)), `{"domain":"` + long(1025) + `"}`, "1024 bytes"},
		{"a key", entry(long(1025), ""), `{"descriptors":[{"entries":[{"key":"` + long(1025) + `"}]}]}`, "1024 bytes"},
		{"a value", entry("k", long(256<<10+1)), `{"descriptors":[{"entries":[{"value":"` + long(256<<10+1) + `"}]}]}`, "262144 bytes"},
	} {
		m := new(message)
		err := m.decode(test.data)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
		f := m.decodeJSON([]byte(test.json))
		if f == nil || !strings.Contains(f.Message(), strings.TrimSuffix(test.want, " bytes")) {
			t.Errorf("%s in JSON: %+v, want %q", test.name, f, test.want)
		}
	}
	for _, data := range [][]byte{entry(long(1024), long(256<<10)), one("\x0a\x03\x0a\x01k", 128)} {
		if err := new(message).decode(data); err != nil {
			t.Errorf("%.20q: %v", data, err)
		}
	}
}

// The memory of a large request is not kept in a pool.
func TestPoolsKeepNothingLarge(t *testing.T) {
	c := new(Call)
	if err := c.message.decode(one("\x0a\x03\x0a\x01k", 1)); err != nil || !c.KeepsLittle() {
		t.Errorf("a small request is not kept: %v", err)
	}
	if err := c.message.decode(emptyDescriptors(1000)); err != nil || c.KeepsLittle() {
		t.Errorf("1000 descriptors are kept: %v", err)
	}
	d := new(Call)
	data := append(emptyDescriptors(0), strings.Repeat("\x12\x80\x08"+strings.Repeat("\x0a\x06\x0a\x01k\x12\x011", limiter.MaxEntries), 20)...)
	if err := d.message.decode(data); err != nil || d.KeepsLittle() {
		t.Errorf("2560 entries are kept: %v", err)
	}
}
