package recordapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"stint/internal/logging"
	"stint/internal/testkit"
	"stint/notify"
	"stint/server/access"
)

// openHooks returns the API over a receiver that answers with a status, and a file with an event that was given up.
func openHooks(t *testing.T, status int) (http.Handler, *notify.File, *strings.Builder) {
	t.Helper()
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	t.Cleanup(receiver.Close)
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	testkit.Must(t, os.WriteFile(secret, []byte("whsec_"+strings.Repeat("hunter2X", 4)), 0o600))
	file, err := notify.OpenFile(filepath.Join(dir, "webhooks"))
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, file.Close()) })
	log := new(strings.Builder)
	engine, err := notify.New(notify.Options{
		Queue: file,
		Receivers: []notify.Receiver{
			{Name: "shop", URL: receiver.URL + "/hunter2", SecretFile: secret, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, Rules: []string{"api/*"}, Thresholds: []int{80}},
			{Name: "queue", File: filepath.Join(dir, "events.jsonl")},
		},
	})
	testkit.Must(t, err)
	at := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	for _, name := range []string{"shop", "former"} {
		testkit.Must(t, file.Add(t.Context(), []notify.Delivery{{Receiver: name, State: notify.Waiting, Event: notify.Event{
			ID: "evt_1", Type: "usage.threshold", Rule: "api/user", Subject: "user=42", Plan: "free", Threshold: 80, Used: 80, Of: 100, At: at, PeriodStart: at, PeriodEnd: at,
		}}}))
	}
	claimed, err := file.Claim(t.Context(), notify.Claim{Receiver: "shop", Max: 1, Lease: time.Minute, Keep: 100})
	testkit.Must(t, err)
	d := claimed.Deliveries[0]
	d.State, d.Result = notify.Failed, notify.Result{Tries: 10, Tried: at, Status: 500, Problem: "the receiver answered 500 Internal Server Error"}
	testkit.Must(t, file.Save(t.Context(), &d, notify.Then{Disable: true}))
	return NewWebhooks(engine, slog.New(slog.NewTextHandler(log, nil))), file, log
}

// changing matches what differs in each run.
var changing = regexp.MustCompile(`"(disabled|due)":"[^"]+"|127\.0\.0\.1:\d+|[^"]*events\.jsonl|"took_ms":\d+|test_[0-9a-f]{16}`)

// expectHook compares an answer without what differs in each run.
func expectHook(t *testing.T, api http.Handler, method, path, body string, status int, want string) {
	t.Helper()
	w := call(api, method, path, body, "Content-Type: application/json")
	got := changing.ReplaceAllStringFunc(strings.TrimSuffix(w.Body.String(), "\n"), func(found string) string {
		name, _, _ := strings.Cut(found, `":`)
		return name[:min(len(name), 4)] + "~"
	})
	prefix, begins := strings.CutSuffix(want, "...")
	if w.Code != status || got != want && !(begins && strings.HasPrefix(got, prefix)) {
		t.Errorf("%s %s: status %d, %s\nwant %d, %s", method, path, w.Code, got, status, want)
	}
	if strings.Contains(got, "hunter2") {
		t.Errorf("%s %s shows a secret: %s", method, path, got)
	}
}

func TestWebhooks(t *testing.T) {
	api, file, log := openHooks(t, http.StatusNoContent)
	const failed = `{"deliveries":[{"receiver":"shop","id":"evt_1","state":"failed","type":"usage.threshold","timestamp":"2026-11-26T12:00:00Z","rule":"api/user","limit":"","subject":"user=42","plan":"free","threshold":80,"tries":10,"tried":"2026-11-26T12:00:00Z","due":null,"status":500,"problem":"the receiver answered 500 Internal Server Error"}]}`
	for _, step := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "", "", 200, `{"receivers":[{"name":"shop","to":"http://127.~","rules":["api/*"],"thresholds":[80],"configured":true,"waiting":0,"failed":1,"delivered":0,"dis~,"paused":null},` +
			`{"name":"queue","to":"...`},
		{"GET", "/deliveries", "", 200, failed},
		{"GET", "/deliveries?state=failed&receiver=shop&limit=1", "", 200, failed},
		{"GET", "/deliveries?state=delivered", "", 200, `{"deliveries":[]}`},
		{"GET", "/deliveries?state=waiting", "", 200, `{"deliveries":[{"receiver":"former","id":"evt_1","state":"waiting",...`},
		{"GET", "/deliveries?receiver=queue", "", 200, `{"deliveries":[]}`},
		{"GET", "/deliveries?state=lost", "", 400, `{"error":{"code":"bad_request","message":"state: \"lost\" is no state; write waiting, failed or delivered","context":{"field":"state"}}}`},
		{"GET", "/deliveries?limit=0", "", 400, `{"error":...`},
		{"POST", "/retry", `{}`, 400, `{"error":{"code":"bad_request","message":"receiver: missing; ...`},
		{"POST", "/retry", `{"receiver":"shop","id":"evt_2"}`, 404, `{"error":{"code":"not_found","message":"no failed or delivered event of \"shop\" has this id; ...`},
		{"POST", "/retry", `{"receiver":"nobody"}`, 404, `{"error":{"code":"not_found","message":"no receiver has this name; GET /v1/webhooks lists them","context":{}}}`},
		{"POST", "/retry", `{"receiver":"shop","id":"evt_1"}`, 200, `{"retried":1}`},
		{"POST", "/retry", `{"receiver":"shop"}`, 200, `{"retried":0}`},
		{"POST", "/test", `{"receiver":"shop"}`, 200, `{"id":"test~","delivered":true,"status":204,"problem":"","too~}`},
		{"POST", "/test", `{"receiver":"shop","id":"evt_1"}`, 400, `{"error":...`},
		{"POST", "/test", `{"receiver":"nobody"}`, 404, `{"error":...`},
		{"GET", "/test", "", 405, `{"error":...`},
		{"GET", "/elsewhere", "", 404, `{"error":...`},
	} {
		expectHook(t, api, step.method, WebhooksPath+step.path, step.body, step.status, step.want)
	}
	if !strings.Contains(log.String(), `msg="deliveries retried" receiver=shop events=1`) || !strings.Contains(log.String(), `msg="receiver tested" receiver=shop`) {
		t.Errorf("the log is\n%s", log)
	}
	testkit.Must(t, file.Close())
	expectHook(t, api, "GET", WebhooksPath, "", 503, `{"error":{"code":"unavailable","message":"the deliveries cannot be read or changed: ...`)
}

// listing has other receivers than the config file.
type listing struct {
	Webhooks
	list notify.List
}

// List implements Webhooks.
func (l listing) List(context.Context, notify.Query) (notify.List, error) { return l.list, nil }

// A former receiver is shown while something of it is kept.
func TestFormerReceivers(t *testing.T) {
	engine, err := notify.New(notify.Options{})
	testkit.Must(t, err)
	api := NewWebhooks(listing{engine, notify.List{Receivers: map[string]notify.ReceiverStatus{"b": {Failed: 1}, "a": {Waiting: 2}, "empty": {}}}}, slog.New(slog.DiscardHandler))
	const one = `{"name":%q,"to":"","rules":[],"thresholds":[],"configured":false,"waiting":%d,"failed":%d,"delivered":0,"disabled":null,"paused":null}`
	expectHook(t, api, "GET", WebhooksPath, "", 200, `{"receivers":[`+fmt.Sprintf(one, "a", 2, 0)+","+fmt.Sprintf(one, "b", 0, 1)+`]}`)
}

// A receiver that refuses is told in the answer of a test.
func TestWebhookRefused(t *testing.T) {
	api, _, _ := openHooks(t, http.StatusForbidden)
	expectHook(t, api, "POST", WebhooksPath+"/test", `{"receiver":"shop"}`, 200, `{"id":"test~","delivered":false,"status":403,"problem":"the receiver answered 403 Forbidden","too~}`)
}

// Reading needs the role read, the rest support.
func TestWebhookRoles(t *testing.T) {
	api, _, _ := openHooks(t, http.StatusNoContent)
	token, credential := access.NewToken()
	list, err := access.Parse("callers", []byte("grafana read "+credential+"\n"))
	testkit.Must(t, err)
	guard := &access.Guard{Lists: access.Lists("", func() *access.List { return list }), Refused: &logging.MisuseLog{Log: slog.New(slog.DiscardHandler)}}
	guarded := guard.Require(access.Read, api.ServeHTTP)
	for path, want := range map[string]int{"GET ": 200, "GET /deliveries": 200, "POST /retry": 403, "POST /test": 403} {
		method, path, _ := strings.Cut(path, " ")
		r := httptest.NewRequestWithContext(context.Background(), method, WebhooksPath+path, strings.NewReader(`{"receiver":"shop"}`))
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		if guarded(w, r); w.Code != want {
			t.Errorf("%s %s: %d, want %d", method, path, w.Code, want)
		}
	}
}
