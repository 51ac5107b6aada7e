package operate

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/goleak"

	"stint/gateway/queue"
	"stint/gateway/queue/file"
	"stint/gateway/queue/seal"
	"stint/gateway/queue/stream"
	"stint/internal/logging"
	"stint/internal/testkit"
	"stint/server/access"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

// run runs the command with arguments and returns its output.
func run(args ...string) (out string, err error) {
	c := &cobra.Command{Use: "queue", SilenceErrors: true}
	Configure(c)
	var b bytes.Buffer
	c.SetOut(&b)
	c.SetErr(&b)
	c.SetArgs(args)
	err = c.Execute()
	return b.String(), err
}

// fill stores a waiting, a dead and a done record, and returns their IDs.
func fill(t *testing.T, s queue.Storage, keys *seal.Keys) (waiting, dead, done string) {
	t.Helper()
	put := func(line, body string) string {
		r := &queue.Record{
			ID: queue.NewID(), Method: "POST", URI: "/orders?a=1", Host: "example.com", Header: http.Header{"X-A": {"b\x1b[31m"}},
			Identity: "alice", Tries: 3, Body: []byte(body),
		}
		data, err := r.Encode()
		testkit.Must(t, err)
		data = keys.Seal(r.ID, "data", data)
		_, err = s.Put(t.Context(), &queue.Entry{
			ID: r.ID, Line: queue.LineOf("r", line), Rule: "api: orders", State: queue.Waiting, At: time.Now(), Made: time.Now(), Keep: time.Hour, Size: len(data), Data: data,
		}, queue.Bounds{Places: 10, Bytes: 1 << 20})
		testkit.Must(t, err)
		return r.ID
	}
	waiting, dead, done = put("a", "two apples"), put("b", "\xff\xfe"), put("c", "x")
	testkit.Must(t, s.Change(t.Context(), dead, func(e *queue.Entry) error {
		e.State, e.Tries, e.Reason, e.Ended = queue.Dead, 3, "the upstream answered 503 Service Unavailable", time.Now()
		return nil
	}))
	answer, err := (&queue.Answer{Status: 201, Header: http.Header{"X-Order": {"7"}}, Body: []byte("made")}).Encode()
	testkit.Must(t, err)
	testkit.Must(t, s.Change(t.Context(), done, func(e *queue.Entry) error {
		e.State, e.At, e.Answer = queue.Done, time.Now().Add(time.Hour), keys.Seal(done, "answer", answer)
		return nil
	}))
	return waiting, dead, done
}

// The commands work on a file, on the running gateway that has the file open, and on Redis.
func TestCommands(t *testing.T) {
	keyFile := filepath.Join(t.TempDir(), "keys")
	testkit.Must(t, os.WriteFile(keyFile, []byte(key), 0o600))
	keys, err := seal.Load(keyFile)
	testkit.Must(t, err)
	for name, open := range map[string]func(t *testing.T) (s queue.Storage, ready func(), args []string){
		"file": func(t *testing.T) (queue.Storage, func(), []string) {
			path := filepath.Join(t.TempDir(), "queue")
			s, err := file.Open(path)
			testkit.Must(t, err)
			return s.Queue(), func() { testkit.Must(t, s.Close()) }, []string{"--queue", path, "--queue-key-file", keyFile}
		},
		"running": func(t *testing.T) (queue.Storage, func(), []string) {
			path := filepath.Join(t.TempDir(), "queue")
			s, err := file.Open(path)
			testkit.Must(t, err)
			server := httptest.NewServer(Handler{&Local{Storage: s, Keys: keys}})
			t.Cleanup(func() {
				server.Close()
				testkit.Must(t, s.Close())
			})
			return s.Queue(), func() {}, []string{"--queue", path, "--address", server.Listener.Addr().String()}
		},
		"redis": func(t *testing.T) (queue.Storage, func(), []string) {
			server := testkit.StartRedis(t)
			s, err := stream.Open(stream.Options{URL: server.URL()})
			testkit.Must(t, err)
			return s.Queue(), func() { testkit.Must(t, s.Close()) }, []string{"--queue", server.URL(), "--queue-key-file", keyFile}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, ready, where := open(t)
			waiting, dead, done := fill(t, s, keys)
			ready()
			check := func(fails bool, args []string, want ...string) string {
				t.Helper()
				out, err := run(append(args, where...)...)
				if err != nil {
					out += "\n" + err.Error()
				}
				if (err != nil) != fails {
					t.Errorf("%v: %s", args, out)
				}
				for _, w := range want {
					if !strings.Contains(out, w) {
						t.Errorf("%v printed\n%s\nwant %q", args, out, w)
					}
				}
				return out
			}
			if out := check(false, []string{"list"}, waiting, dead, "waiting", "503", "api: orders"); strings.Contains(out, done) || strings.Count(out, "\n") != 3 {
				t.Errorf("list printed\n%s", out)
			}
			check(false, []string{"list", "--state", "done", "--json"}, done, `"state":"done"`)
			check(true, []string{"list", "--state", "lost"}, `unknown state "lost"`, "hint: write one of waiting")
			out := check(false, []string{"show", waiting}, "POST /orders?a=1", "two apples", "alice", `b\x1b[31m`)
			if strings.Contains(out, "\x1b") {
				t.Error("show prints control characters")
			}
			check(false, []string{"show", dead}, "no text")
			check(false, []string{"show", done}, "201 Created", "X-Order: 7", "made")
			check(true, []string{"show", "0123"}, `no record "0123"`, "hint:")
			check(true, []string{"retry", done}, "is done", "0 of 1")
			check(true, []string{"retry"}, "which requests?")
			check(false, []string{"retry", "--all-dead"}, "1 of 1 sent again")
			check(false, []string{"list", "--state", "dead", "--json"}, "[]")
			check(false, []string{"drop", waiting, done}, "2 of 2 dropped")
			check(true, []string{"show", waiting}, "no record")
			if out := check(false, []string{"list"}, dead); strings.Count(out, "\n") != 2 {
				t.Errorf("list printed\n%s", out)
			}
		})
	}
}

func TestWrongTargets(t *testing.T) {
	folder := t.TempDir()
	text := filepath.Join(folder, "text")
	testkit.Must(t, os.WriteFile(text, []byte("abc"), 0o600))
	empty := httptest.NewServer(http.NotFoundHandler())
	defer empty.Close()
	guard := &access.Guard{
		Lists:   []func() *access.List{func() *access.List { return new(access.List) }},
		Refused: &logging.MisuseLog{Log: slog.New(slog.DiscardHandler), Event: "refused"},
	}
	guarded := httptest.NewServer(guard.Require(access.Read, http.NotFound))
	defer guarded.Close()
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"no file":      {[]string{"--queue", filepath.Join(folder, "none")}, "hint: name the file"},
		"another file": {[]string{"--queue", text}, "hint:"},
		"bad URL":      {[]string{"--queue", "redis://"}, "hint:"},
		"bad keys":     {[]string{"--queue", text, "--queue-key-file", text}, "not a key"},
		"nobody":       {[]string{"--address", testkit.Address(t)}, "hint: start it"},
		"no queue":     {[]string{"--address", empty.URL}, "has no queue"},
		"a guard":      {[]string{"--address", guarded.URL}, "hint: give --token-file FILE"},
		"no token":     {[]string{"--token-file", filepath.Join(folder, "none")}, "hint: name a file with the token"},
	} {
		out, err := run(append([]string{"list"}, tt.args...)...)
		if err == nil || !strings.Contains(err.Error(), tt.want) || out != "" {
			t.Errorf("%s: %v, want %s; printed %q", name, err, tt.want, out)
		}
	}
}

// A record that is being sent cannot be dropped or retried; one with another key is shown as far as it goes.
func TestStates(t *testing.T) {
	s, err := file.Open(filepath.Join(t.TempDir(), "queue"))
	testkit.Must(t, err)
	defer s.Close()
	keys, err := seal.Parse([]byte(key))
	testkit.Must(t, err)
	fill(t, s.Queue(), keys)
	changed := 0
	l := &Local{Storage: s, Changed: func() { changed++ }}
	e, _, err := s.Claim(t.Context(), "w", time.Minute)
	testkit.Must(t, err)
	for _, err := range []error{l.Drop(t.Context(), e.ID), l.Retry(t.Context(), e.ID)} {
		if err == nil || !strings.Contains(err.Error(), "is claimed") {
			t.Errorf("a claimed record: %v", err)
		}
	}
	if changed != 0 {
		t.Error("a refused retry woke the worker")
	}
	d, err := l.Show(t.Context(), e.ID)
	testkit.Must(t, err)
	if d.Request != nil || !strings.Contains(d.Problem, "unknown key") {
		t.Errorf("without the key: %+v", d)
	}
	w := httptest.NewRecorder()
	Handler{l}.ServeHTTP(w, httptest.NewRequest(http.MethodPut, Path+"/"+e.ID, nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("PUT: %d %s", w.Code, w.Body)
	}
	w = httptest.NewRecorder()
	Handler{l}.ServeHTTP(w, httptest.NewRequest(http.MethodGet, Path+"?limit=0", nil))
	if w.Code != http.StatusBadRequest {
		t.Errorf("limit=0: %d %s", w.Code, w.Body)
	}
}
