package factsapi

import (
	"bufio"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"stint/facts"
	"stint/internal/logging"
	"stint/server/access"
)

// fake are facts that say what they were asked.
type fake struct {
	facts.Reader
	summaries atomic.Uint64
	asked     string
}

func (f *fake) Summary(context.Context) facts.Summary {
	n := f.summaries.Add(1)
	return facts.Summary{At: time.Unix(int64(n), 0).UTC(), Nodes: []facts.Node{{Name: "a"}}, Rules: []facts.Rule{
		{Domain: "api", Name: "busy", Counts: facts.Counts{Allowed: n}}, {Domain: "api", Name: "idle"},
	}}
}

func (f *fake) Top(_ context.Context, of facts.Of, by facts.By, n int) []facts.Key {
	f.asked = of.Domain + " " + of.Rule + " " + string(by) + " " + string(rune('0'+n%10))
	return nil
}

func (f *fake) Find(_ context.Context, id string) []facts.Key { return []facts.Key{{ID: id}} }

func (f *fake) History(of facts.Of, step time.Duration) facts.History {
	return facts.History{Domain: of.Domain, Rule: of.Rule, Step: step}
}

func (f *fake) Denials(n int, match func(*facts.Denial) bool) []facts.Denial {
	var found []facts.Denial
	for _, id := range []string{"r1", "r2"} {
		if d := (facts.Denial{RequestID: id, Rule: "busy"}); match(&d) && len(found) < n {
			found = append(found, d)
		}
	}
	return found
}

// Each path answers with its facts, and says what is wrong with a question. Lists are never null.
func TestAnswers(t *testing.T) {
	api := New(Options{Facts: &fake{}})
	for _, tt := range []struct {
		method, target string
		status         int
		has            string
	}{
		{"GET", "/v1/facts", 200, `"rules":[{"domain":"api","name":"busy"`},
		{"GET", "/v1/facts?x=1", 400, "unknown parameter"},
		{"GET", "/v1/facts/keys?rule=busy", 200, `{"keys":[]}`},
		{"GET", "/v1/facts/keys?id=abc", 200, `"id":"abc"`},
		{"GET", "/v1/facts/keys?by=color", 400, "denied, allowed or over"},
		{"GET", "/v1/facts/keys?n=0", 400, "from 1 to 100"},
		{"GET", "/v1/facts/keys?n=1&n=2", 400, "given twice"},
		{"GET", "/v1/facts/history?rule=busy&step=10m", 200, `"step_ns":600000000000,"points":[],"marks":[]`},
		{"GET", "/v1/facts/history?step=5m", 400, "1m for the last 24 hours"},
		{"GET", "/v1/facts/denials?request=r2", 200, `"request_id":"r2"`},
		{"GET", "/v1/facts/denials?request=r3", 200, `{"denials":[]}`},
		{"GET", "/v1/facts/denials?n=1", 200, `"request_id":"r1"`},
		{"POST", "/v1/facts", 405, "use GET, HEAD"},
		{"GET", "/v1/facts/other", 404, "no facts have the path"},
	} {
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), tt.method, tt.target, nil))
		if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.has) {
			t.Errorf("%s %s: %d %s", tt.method, tt.target, w.Code, w.Body)
		}
	}
	f := &fake{}
	w := httptest.NewRecorder()
	New(Options{Facts: f}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/v1/facts/keys?domain=api&rule=busy&by=over&n=7", nil))
	if f.asked != "api busy over 7" {
		t.Errorf("asked for %q", f.asked)
	}
	w = httptest.NewRecorder()
	Off(w, httptest.NewRequestWithContext(t.Context(), "GET", "/v1/facts", nil))
	if w.Code != 404 || !strings.Contains(w.Body.String(), "--facts-off") {
		t.Errorf("without facts: %d %s", w.Code, w.Body)
	}
}

// viewer reads frames of a stream.
type viewer struct {
	*testing.T
	lines *bufio.Scanner
	close func()
}

func watch(t *testing.T, url string) *viewer {
	t.Helper()
	return watchAs(t, url, http.Header{})
}

// watchAs is watch with headers.
func watchAs(t *testing.T, url string, header http.Header) *viewer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if kind := resp.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Fatalf("type %q", kind)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	return &viewer{t, lines, func() { resp.Body.Close() }}
}

// next returns the next frame; false after the end.
func (v *viewer) next() (f Frame, ok bool) {
	v.Helper()
	for v.lines.Scan() {
		text, is := strings.CutPrefix(v.lines.Text(), "data: ")
		if !is {
			continue
		}
		if err := json.Unmarshal([]byte(text), &f); err != nil {
			v.Fatal(err)
		}
		return f, true
	}
	return f, false
}

// Ten viewers see the same frames, each of which is built once. The first frame has all rules, later ones those
// that changed. When the last viewer leaves no frame is built any more.
func TestLive(t *testing.T) {
	f := &fake{}
	done := make(chan struct{})
	s := httptest.NewServer(New(Options{Facts: f, Every: 20 * time.Millisecond, Done: done}))
	defer s.Close()
	var all []*viewer
	for range 10 {
		v := watch(t, s.URL+"/v1/live")
		if first, ok := v.next(); !ok || len(first.Rules) != 2 || len(first.Nodes) != 1 {
			t.Fatalf("first frame %+v", first)
		}
		all = append(all, v)
	}
	before := f.summaries.Load()
	frames := 0
	for range 20 {
		for _, v := range all {
			frame, ok := v.next()
			if !ok {
				t.Fatal("the stream ended")
			}
			frames++
			if len(frame.Rules) == 0 || frame.Rules[0].Name != "busy" {
				t.Fatalf("frame %+v", frame)
			}
		}
	}
	if built := f.summaries.Load() - before; built > uint64(frames)/5 {
		t.Errorf("%d summaries for %d frames", built, frames)
	}
	close(done)
	for _, v := range all {
		for ok := true; ok; {
			_, ok = v.next()
		}
	}
}

// A stream asks only for counts where the facts have these alone.
func TestLiveCounts(t *testing.T) {
	f, done := &fake{}, make(chan struct{})
	s := httptest.NewServer(New(Options{Facts: struct{ facts.Reader }{}, Counts: f.Summary, Every: time.Millisecond, Done: done}))
	defer s.Close()
	defer close(done)
	v := watch(t, s.URL+"/v1/live")
	for range 3 {
		if frame, ok := v.next(); !ok || frame.Rules[0].Allowed == 0 {
			t.Fatalf("frame %+v", frame)
		}
	}
}

// Nothing is built without a viewer.
func TestLiveStops(t *testing.T) {
	f := &fake{}
	h := newHub(Options{Facts: f, Every: time.Millisecond})
	frames := h.join()
	<-frames
	h.leave(frames)
	h.mu.Lock()
	running := h.stop != nil
	h.mu.Unlock()
	if running {
		t.Error("frames are still built")
	}
}

// A stream ends when its caller has logged out, or is not in the list of callers any more.
func TestLiveEndsWithItsCaller(t *testing.T) {
	var list atomic.Pointer[access.List]
	list.Store(access.Single("secret"))
	guard := &access.Guard{
		Lists: []func() *access.List{list.Load}, Sessions: &access.Sessions{},
		Refused: &logging.MisuseLog{Log: slog.New(slog.DiscardHandler)},
	}
	s := httptest.NewServer(guard.Guarded(access.Read, New(Options{Facts: &fake{}, Every: 5 * time.Millisecond}).ServeHTTP))
	defer s.Close()
	login, page := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", nil)
	guard.Login(login, page, "secret", time.Now())
	cookie := login.Result().Cookies()[0].String()
	for _, tt := range []struct {
		name, header, value string
		end                 func()
	}{
		{"logout", "Cookie", cookie, func() {
			page.Header.Set("Cookie", cookie)
			guard.Logout(httptest.NewRecorder(), page)
		}},
		{"removed", "Authorization", "Bearer secret", func() { list.Store(access.Single("other")) }},
	} {
		v := watchAs(t, s.URL+"/v1/live", http.Header{tt.header: {tt.value}})
		for range 3 {
			if _, ok := v.next(); !ok {
				t.Fatalf("%s: the stream ended before", tt.name)
			}
		}
		tt.end()
		frames := 0
		for ok := true; ok && frames < 200; frames++ {
			_, ok = v.next()
		}
		if frames == 200 {
			t.Errorf("%s: the stream goes on", tt.name)
		}
		v.close()
	}
}
