package token

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// issuer is a fake server of key sets. It records each fetch.
type issuer struct {
	mu      sync.Mutex
	answers map[string][]byte // by address; without an answer the address is down
	fetched []string          // times and addresses of the fetches
	reports []string          // errors reported by the fetcher
	began   time.Time
}

func (i *issuer) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-time.After(time.Second): // inside a bubble of synctest
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.fetched = append(i.fetched, fmt.Sprint(time.Since(i.began), " ", r.URL.Host))
	data := i.answers[r.URL.String()]
	if data == nil {
		return nil, errors.New("down")
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(data)), Request: r}, nil
}

func (i *issuer) answer(address string, data []byte) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.answers[address] = data
}

// heard returns the fetches since its last call.
func (i *issuer) heard() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	text := strings.Join(i.fetched, ", ")
	i.fetched = nil
	return text
}

// told returns the reports since its last call.
func (i *issuer) told() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	reports := i.reports
	i.reports = nil
	return reports
}

const at, elsewhere = "https://issuer/keys", "https://other/keys"

func address(t *testing.T, text string) *Address {
	t.Helper()
	a, err := NewAddress(text, false)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func newKey25519(t *testing.T) crypto.Signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// pass sleeps inside a bubble of synctest.
func pass(d time.Duration) {
	time.Sleep(d) // fake time: does not take real time
}

// inBubble runs a test with an issuer and a fetcher in fake time.
func inBubble(t *testing.T, test func(t *testing.T, i *issuer, f *Fetcher)) {
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{answers: map[string][]byte{}, began: time.Now()}
		f := NewFetcher(FetchOptions{Transport: i, Report: func(address string, err error) {
			i.mu.Lock()
			defer i.mu.Unlock()
			i.reports = append(i.reports, fmt.Sprint(address, " ", err))
		}})
		defer f.Close()
		test(t, i, f)
	})
}

// Keys are available once fetched, no caller waits for the fetch, and a removed key is trusted for
// at most 15 minutes.
func TestFetch(t *testing.T) {
	inBubble(t, func(t *testing.T, i *issuer, f *Fetcher) {
		old, fresh := newKey25519(t), newKey25519(t)
		i.answer(at, set(t, entry(t, old, named("old"))))
		a := address(t, at)
		v := New(Config{Source: a})
		knows := func(key crypto.Signer, id string) bool {
			began := time.Now()
			_, ok := v.Claim(signed(t, key, id), "sub")
			if took := time.Since(began); took > 0 {
				t.Errorf("a token waited %v", took)
			}
			return ok
		}
		if knows(old, "old") {
			t.Error("known without anybody who fetches")
		}
		f.Use([]*Address{a})
		if knows(old, "old") {
			t.Error("known before the fetch is over")
		}
		pass(2 * time.Second)
		if !knows(old, "old") {
			t.Error("not known after the fetch")
		}
		i.answer(at, set(t, entry(t, fresh, named("fresh"))))
		pass(every + time.Second)
		if knows(old, "old") || !knows(fresh, "fresh") {
			t.Error("the set is an old one")
		}
		if got := i.heard(); got != "1s issuer, 15m2s issuer" {
			t.Error(got)
		}
		f.Close()
		pass(time.Hour)
		if got := i.heard(); got != "" || !knows(fresh, "fresh") {
			t.Errorf("after Close: %q", got)
		}
		f.Use([]*Address{address(t, elsewhere)})
		pass(time.Hour)
		if got := fmt.Sprint(i.heard(), i.told()); got != "["+at+" <nil> "+at+" <nil>]" {
			t.Error(got)
		}
	})
}

// An unknown key ID causes an early fetch, but many invented IDs cause at most one fetch per
// minute.
func TestUnknownID(t *testing.T) {
	inBubble(t, func(t *testing.T, i *issuer, f *Fetcher) {
		old, fresh := newKey25519(t), newKey25519(t)
		i.answer(at, set(t, entry(t, old, named("old"))))
		a := address(t, at)
		v := New(Config{Source: a})
		f.Use([]*Address{a})
		pass(10 * time.Second)
		i.answer(at, set(t, entry(t, old, named("old")), entry(t, fresh, named("fresh"))))
		if _, ok := v.Claim(signed(t, fresh, "fresh"), "sub"); ok {
			t.Error("known already")
		}
		pass(gap)
		if _, ok := v.Claim(signed(t, fresh, "fresh"), "sub"); !ok {
			t.Error("not known after a minute")
		}
		if got := i.heard(); got != "1s issuer, 1m2s issuer" {
			t.Error(got)
		}
		pass(5 * time.Minute)
		forged := newKey25519(t)
		for n := range 600 {
			v.Claim(signed(t, forged, fmt.Sprint(n)), "sub")
			pass(time.Second)
		}
		if n := strings.Count(i.heard(), "issuer"); n < 9 || n > 11 {
			t.Errorf("%d fetches in ten minutes, want about ten", n)
		}
		for range 100 {
			v.Claim(signed(t, old, "old"), "sub")
			v.Claim(signed(t, forged, "old"), "sub")
			v.Claim(signed(t, forged, nil), "sub")
		}
		pass(2 * gap) // the last invented ID may have caused a fetch
		i.heard()
		pass(10 * time.Minute)
		if got := i.heard(); got != "" {
			t.Errorf("asked by tokens with known ids: %s", got)
		}
	})
}

// While an address is down or sends invalid data, the old keys stay and the retries become rarer.
func TestAddressIsDown(t *testing.T) {
	inBubble(t, func(t *testing.T, i *issuer, f *Fetcher) {
		key := newKey25519(t)
		a := address(t, at)
		v := New(Config{Source: a})
		f.Use([]*Address{a})
		pass(20 * time.Second)
		if got := i.heard(); got != "1s issuer, 7s issuer, 18s issuer" {
			t.Error(got)
		}
		i.answer(at, set(t, entry(t, key, named("1"))))
		pass(time.Minute)
		i.heard()
		for n, bad := range [][]byte{
			nil, []byte("<html>"), []byte(`{"keys":[]}`), bytes.Repeat([]byte(" "), maxSet+1),
			set(t, map[string]any{"kty": "OKP", "crv": "Ed25519", "x": "AA"}),
		} {
			i.answer(at, bad)
			pass(every)
			if _, ok := v.Claim(signed(t, key, "1"), "sub"); !ok {
				t.Errorf("%d: the key is forgotten", n)
			}
		}
		if n := strings.Count(i.heard(), "issuer"); n < 12 || n > 24 {
			t.Errorf("%d fetches in 75 minutes", n)
		}
		// One invalid key does not affect the others.
		i.told()
		i.answer(at, set(t, entry(t, key, named("1")), map[string]any{"kty": "EC", "crv": "P-256"}))
		pass(lastRetry + 2*time.Second)
		if got := fmt.Sprint(i.told()); got != "["+at+" key 2: an EC key without valid x and y]" {
			t.Error(got)
		}
		all := i.heard()
		pass(every / 2)
		if got := i.heard(); got != "" {
			t.Errorf("fetched again after %s: %s", all, got)
		}
	})
}

// A new rule table keeps the keys of the addresses that it still uses and stops fetching the
// others.
func TestUse(t *testing.T) {
	inBubble(t, func(t *testing.T, i *issuer, f *Fetcher) {
		key := newKey25519(t)
		i.answer(at, set(t, entry(t, key, named("1"))))
		i.answer(elsewhere, set(t, entry(t, key, named("1"))))
		knows := func(a *Address) bool {
			_, ok := New(Config{Source: a}).Claim(signed(t, key, "1"), "sub")
			return ok
		}
		f.Use([]*Address{address(t, at), address(t, elsewhere)})
		pass(10 * time.Second)
		if got := i.heard(); !strings.Contains(got, "issuer") || !strings.Contains(got, "other") {
			t.Error(got)
		}
		one, same := address(t, at), address(t, at)
		f.Use([]*Address{one, same})
		if !knows(one) || !knows(same) {
			t.Error("the keys are gone with the table before")
		}
		pass(time.Hour)
		if got := i.heard(); strings.Contains(got, "other") || strings.Count(got, "issuer") != 4 {
			t.Errorf("fetched %s, want the issuer alone each quarter of an hour", got)
		}
		f.Use(nil)
		pass(time.Hour)
		if got := i.heard(); got != "" {
			t.Errorf("fetched %s for a table without addresses", got)
		}
		f.Use([]*Address{address(t, at)})
		pass(time.Second / 2)
		began := time.Now()
		f.Close()
		if took := time.Since(began); took > 0 {
			t.Errorf("a fetch in flight held Close for %v", took)
		}
	})
}

// Over a real connection, the server must have a valid certificate, send no more than maxSet bytes,
// and not redirect to plain http.
func TestServer(t *testing.T) {
	key := newKey25519(t)
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	good := set(t, entry(t, key, named("1")))
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/good":
			_, _ = w.Write(good)
		case "/moved":
			http.Redirect(w, r, "/good", http.StatusFound)
		case "/around":
			http.Redirect(w, r, "/around", http.StatusFound)
		case "/clear":
			http.Redirect(w, r, plain.URL, http.StatusFound)
		case "/large":
			for range maxSet / 1024 {
				_, _ = w.Write(bytes.Repeat([]byte(" "), 1025))
			}
		default:
			http.NotFound(w, r)
		}
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	trusting := server.Client().Transport
	for _, tt := range []struct {
		path      string
		transport http.RoundTripper
		want      string
	}{
		{"/good", trusting, ""},
		{"/moved", trusting, ""},
		{"/good", nil, "certificate"},
		{"/around", trusting, "too many redirects"},
		{"/clear", trusting, "a redirect to http://127.0.0.1"},
		{"/large", trusting, "more than 1048576 bytes"},
		{"/none", trusting, "status 404"},
	} {
		told := make(chan error, 1)
		f := NewFetcher(FetchOptions{Transport: tt.transport, Report: func(_ string, err error) { told <- err }})
		a := address(t, server.URL+tt.path)
		f.Use([]*Address{a})
		err := <-told
		f.Close()
		_, known := New(Config{Source: a}).Claim(signed(t, key, "1"), "sub")
		if known != (tt.want == "") || tt.want == "" && err != nil || tt.want != "" && !strings.Contains(fmt.Sprint(err), tt.want) {
			t.Errorf("%s: %v, known %v, want %q", tt.path, err, known, tt.want)
		}
	}
}
