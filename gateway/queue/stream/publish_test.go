package stream

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"stint/gateway/queue"
	"stint/internal/testkit"
)

// A worker of one's own reads the stream as docs/queue.md says, and reports what became of a record.
func TestOwnWorker(t *testing.T) {
	server := testkit.StartRedis(t)
	s := openFor(t, Options{URL: server.URL()})
	p := &Publisher{Storage: s}
	ids := map[string]string{}
	for _, name := range []string{"a1", "a2", "b1", "c1", "d1"} {
		r := &queue.Record{ID: queue.NewID(), Method: "POST", URI: "/" + name, Client: netip.MustParseAddr("192.0.2.1"), Body: []byte("body\nof " + name)}
		data, err := r.Encode()
		testkit.Must(t, err)
		e := &queue.Entry{
			ID: r.ID, Line: queue.LineOf("r", name[:1]), Rule: "r", State: queue.Waiting, At: time.Now(), Made: time.Now(), Keep: time.Hour, Size: len(data), Data: data,
		}
		if name == "d1" {
			e.At = time.Now().Add(time.Hour)
		}
		_, err = s.Put(t.Context(), e, queue.Bounds{Places: 10, Bytes: 1 << 20})
		testkit.Must(t, err)
		ids[name] = r.ID
	}
	testkit.Must(t, p.Publish(t.Context()))

	target, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr}, DisableCache: true, ForceSingleClient: true})
	testkit.Must(t, err)
	defer target.Close()
	// read claims what is in the stream, and returns the URIs.
	read := func() (uris []string) {
		t.Helper()
		got, err := target.Do(t.Context(), target.B().Arbitrary("XREADGROUP", "GROUP", "gateways", "mine", "COUNT", "10", "STREAMS").
			Keys("stint:{queue}:stream").Args(">").Build()).AsXRead()
		if rueidis.IsRedisNil(err) {
			return nil
		}
		testkit.Must(t, err)
		for _, entry := range got["stint:{queue}:stream"] {
			data := server.Do("HGET", entry.FieldValues["record"], "data")
			head, body, _ := strings.Cut(data, "\n")
			r, err := queue.DecodeRecord([]byte(data))
			testkit.Must(t, err)
			if !strings.Contains(head, `"uri":"`+r.URI+`"`) || body != "body\nof "+r.URI[1:] || r.ID != entry.FieldValues["id"] {
				t.Errorf("record %s: %q", entry.FieldValues["id"], data)
			}
			uris = append(uris, r.URI)
		}
		return uris
	}
	report := func(words ...string) {
		t.Helper()
		server.Do(append([]string{"XADD", "stint:{queue}:results", "*"}, words...)...)
	}
	state := func(name string, want queue.State) *queue.Entry {
		t.Helper()
		e, err := s.Get(t.Context(), ids[name])
		testkit.Must(t, err)
		if e.State != want {
			t.Errorf("%s is %s, want %s", name, e.State, want)
		}
		return e
	}
	if got := strings.Join(read(), " "); got != "/a1 /b1 /c1" {
		t.Errorf("read %s", got)
	}
	report("id", ids["a1"], "result", "done", "status", "201", "header", `{"X-Order":["7"],"Set-Cookie":["a=b"]}`, "body", "made")
	report("id", ids["b1"], "result", "retry", "after_ms", "0", "reason", "busy")
	report("id", ids["c1"], "result", "dead", "reason", "no")
	testkit.Must(t, p.Publish(t.Context()))
	e := state("a1", queue.Done)
	a, err := queue.DecodeAnswer(e.Answer)
	if err != nil || a.Status != http.StatusCreated || a.Header.Get("X-Order") != "7" || a.Header.Get("Set-Cookie") != "" || string(a.Body) != "made" || e.Tries != 1 {
		t.Errorf("the answer is %+v, %v", a, err)
	}
	if e := state("b1", queue.Waiting); e.Reason != "busy" || e.Tries != 1 {
		t.Errorf("b1: %+v", e)
	}
	state("c1", queue.Dead)
	testkit.Must(t, p.Publish(t.Context()))
	if got := strings.Join(read(), " "); got != "/a2 /b1" && got != "/b1 /a2" {
		t.Errorf("then read %s", got)
	}
	if n := server.Do("XLEN", "stint:{queue}:results"); n != "0" {
		t.Errorf("%s results are left", n)
	}

	for name, words := range map[string][]string{
		"another word":   {"id", ids["a2"], "result", "sent"},
		"unknown record": {"id", queue.NewID(), "result", "done", "status", "200"},
		"no status":      {"id", ids["a2"], "result", "done"},
		"bad header":     {"id", ids["a2"], "result", "done", "status", "200", "header", `{"X Y":["1"]}`},
		"no JSON":        {"id", ids["a2"], "result", "done", "status", "200", "header", `X: 1`},
		"twice":          {"id", ids["a1"], "result", "retry"},
	} {
		report(words...)
		if err := p.Publish(t.Context()); err == nil || !strings.Contains(err.Error(), "was dropped") {
			t.Errorf("%s: %v", name, err)
		}
	}
	state("a2", queue.Waiting)
	state("a1", queue.Done)
	report("id", ids["a2"], "result", "failed", "reason", "no such shop")
	testkit.Must(t, p.Publish(t.Context()))
	state("a2", queue.Failed)
}

// A reported answer is encrypted.
func TestSealedResult(t *testing.T) {
	server := testkit.StartRedis(t)
	s := openFor(t, Options{URL: server.URL(), Namespace: "other"})
	p := &Publisher{Storage: s, Seal: func(id string, answer []byte) []byte { return append([]byte(id+" sealed "), answer...) }}
	e := &queue.Entry{ID: queue.NewID(), Line: "l", Rule: "r", At: time.Now(), Made: time.Now(), Keep: time.Hour, Data: []byte("x")}
	_, err := s.Put(t.Context(), e, queue.Bounds{Places: 1, Bytes: 1 << 20})
	testkit.Must(t, err)
	server.Do("XADD", "other:{queue}:results", "*", "id", e.ID, "result", "done", "status", "200")
	testkit.Must(t, p.Publish(t.Context()))
	got, err := s.Get(t.Context(), e.ID)
	if err != nil || !strings.HasPrefix(string(got.Answer), e.ID+" sealed {") {
		t.Errorf("%+v, %v", got, err)
	}
}

// Faults say what was being done, and end in time.
func TestServerFaults(t *testing.T) {
	if _, err := Open(Options{URL: "http://127.0.0.1"}); err == nil {
		t.Error("a URL of another kind")
	}
	s := openFor(t, Options{URL: "redis://" + testkit.Address(t), Timeout: 200 * time.Millisecond})
	e := &queue.Entry{ID: queue.NewID(), Line: "l", Rule: "r"}
	wide := queue.Bounds{Places: 1, Bytes: 1 << 20}
	if _, err := s.Put(t.Context(), e, wide); err == nil {
		t.Error("put without a server")
	}
	server := testkit.StartRedis(t)
	frozen := openFor(t, Options{URL: server.URL(), Timeout: 200 * time.Millisecond})
	_, err := frozen.Holds(t.Context(), "l")
	testkit.Must(t, err)
	server.Freeze()
	defer server.Thaw()
	began := time.Now()
	if _, err := frozen.Put(t.Context(), e, wide); err == nil || !strings.Contains(err.Error(), "queue a request") {
		t.Errorf("put into a frozen server: %v", err)
	}
	if _, err := frozen.Holds(t.Context(), "l"); err == nil {
		t.Error("looked up a line in a frozen server")
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := frozen.Claim(ended, "w", time.Second); err == nil {
		t.Error("claimed after the context ended")
	}
}

// A server without memory refuses requests as full.
func TestServerIsFull(t *testing.T) {
	server := testkit.StartRedis(t, "--maxmemory", "100kb", "--maxmemory-policy", "noeviction")
	s := openFor(t, Options{URL: server.URL()})
	e := &queue.Entry{ID: queue.NewID(), Line: "l", Rule: "r", Data: make([]byte, 100)}
	if _, err := s.Put(t.Context(), e, queue.Bounds{Places: 1, Bytes: 1 << 20}); err == nil || !strings.Contains(err.Error(), queue.ErrFull.Error()) {
		t.Errorf("put: %v", err)
	}
}
