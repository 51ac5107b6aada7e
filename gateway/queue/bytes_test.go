package queue_test

import (
	"net/http"
	"reflect"
	"testing"

	"stint/gateway/queue"
	"stint/internal/testkit"
	"stint/limiter"
	"stint/rule"
)

// What is not UTF-8, such as a name in Latin-1, comes through the queue as it was: in the header of the request
// and of the answer, in the idempotency key, and in the descriptors, which name the bucket to take from.
func TestNotUTF8(t *testing.T) {
	in(t, func(t *testing.T, s *site) {
		const latin = "M\xfcller"
		s.upstream = func(_ int, w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Name", latin) }
		value := ""
		s.gate = func(r *queue.Record) (queue.Admission, error) {
			value = r.Descriptors[0].Entries[0].Value
			return queue.Admission{}, nil
		}
		r := order("x")
		r.Header.Set("X-Name", latin)
		r.Header.Set("Idempotency-Key", "\xff")
		e := excess(1, "")
		e.Descriptors = []limiter.Descriptor{{Entries: []rule.Entry{{Key: "name", Value: latin}}, Cost: 1}}
		_, path := s.accept(r, e)
		s.settle()
		calls := s.calls()
		if len(calls) != 1 || calls[0].header.Get("X-Name") != latin || calls[0].key != "\xff" || value != latin {
			t.Errorf("the upstream got %+v, the gate %q", calls, value)
		}
		if w := s.status("GET", path, queue.Anonymous(alice)); w.Code != http.StatusOK || w.Header().Get("X-Name") != latin {
			t.Errorf("the client got %d %v", w.Code, w.Header())
		}
	})
}

// allBytes is a query with each byte but NUL, such as an old client or a handler before the queue may write.
func allBytes() string {
	var query []byte
	for b := 1; b <= 255; b++ {
		query = append(query, byte(b))
	}
	return "q=" + string(query)
}

// TestQueryOfAnyBytes checks that the upstream gets a query with the bytes of the client, from the storage on disk.
func TestQueryOfAnyBytes(t *testing.T) {
	for _, query := range []string{allBytes(), "name=M\xfcller", "\xff;\xfe&?#%zz%", "a=\ufffd", "a=<&>\u2028"} {
		in(t, func(t *testing.T, s *site) {
			original := ""
			s.gate = func(r *queue.Record) (queue.Admission, error) {
				original = r.Original
				return queue.Admission{}, nil
			}
			r := order("x")
			r.URL.RawQuery = query
			s.accept(r, excess(1, ""))
			s.settle()
			want := "/orders/1%2f2?" + query
			calls := s.calls()
			if len(calls) != 1 {
				t.Fatalf("%q: %d calls", query, len(calls))
			}
			if calls[0].uri != want || original != want {
				t.Errorf("the upstream got %q, the record has %q, want %q", calls[0].uri, original, want)
			}
		})
	}
}

// TestSecretBehindSemicolon checks that a secret parameter is not stored either where a server takes a semicolon as a
// separator, as the rules read it then too.
func TestSecretBehindSemicolon(t *testing.T) {
	for query, want := range map[string]string{
		"a=1;key=secret&b=2": "?a=1&b=2", "k%65y=secret;a=1;b": "?a=1;b", "key=secret;key=secret": "", "a;b=1;&;c": "?a;b=1;&;c",
	} {
		in(t, func(t *testing.T, s *site) {
			r := order("x")
			r.URL.RawQuery = query
			s.accept(r, excess(1, ""))
			s.settle()
			if calls := s.calls(); len(calls) != 1 || calls[0].uri != "/orders/1%2f2"+want {
				t.Errorf("%q: %+v, want %q", query, calls, want)
			}
		})
	}
}

// TestRecordOfAnyBytes checks that no text of a record changes on its way through the storage, and that a record of
// an older version is read.
func TestRecordOfAnyBytes(t *testing.T) {
	for _, text := range []string{"plain", "M\xfcller", allBytes()} {
		r := &queue.Record{
			ID: "1", URI: "/?" + text, Original: "/o?" + text, Host: text, Route: text, Server: text, Identity: text, Credential: text,
			Rule: text, Domain: text, Header: http.Header{}, Body: []byte("body"),
		}
		data, err := r.Encode()
		testkit.Must(t, err)
		got, err := queue.DecodeRecord(data)
		testkit.Must(t, err)
		if !reflect.DeepEqual(got, r) {
			t.Errorf("%+v is read as %+v", r, got)
		}
	}
	old, err := queue.DecodeRecord([]byte(`{"version":1,"id":"1","uri":"/a?b=\ufffd","original":"/a?b"}` + "\nbody"))
	if err != nil || old.URI != "/a?b=\ufffd" || old.Original != "/a?b" || string(old.Body) != "body" {
		t.Errorf("an older record: %+v, %v", old, err)
	}
}
