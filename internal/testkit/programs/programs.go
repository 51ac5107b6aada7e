package programs

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"stint/internal/testkit"
)

// built has the folder of the service's binary, and the error of building it.
var built struct {
	dir  string
	once sync.Once
	err  error
}

// kept is the folder in this repository where the binary stays for later tests.
const kept = ".cache/test"

// Main runs the tests of a package, and removes the binary of the service.
func Main(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir) // a left over folder is in the temporary folder and does no harm
	}
	os.Exit(code)
}

// Build returns the binary of the service, built from this repository. All test processes share one
// build.
func Build(t testing.TB) string {
	t.Helper()
	built.once.Do(func() { built.dir, built.err = build() })
	if built.err != nil {
		t.Fatalf("building the service: %v", built.err)
	}
	return filepath.Join(built.dir, "stint")
}

// build updates the kept binary, which takes long only if the source has changed. It returns a
// folder with a second link to the binary: a later build by another process replaces only the first
// one. Only one process builds at a time.
func build() (dir string, err error) {
	at := filepath.Join(root(), kept)
	if err := os.MkdirAll(at, 0o755); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(at, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer func() { _ = lock.Close() }() // releases the lock too
	if err := testkit.LockFile(lock); err != nil {
		return "", err
	}
	file := filepath.Join(at, "stint")
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", file, "./cmd/stint")
	cmd.Dir = root()
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w:\n%s", err, out)
	}
	if dir, err = os.MkdirTemp(at, "run"); err != nil {
		return "", err
	}
	return dir, os.Link(file, filepath.Join(dir, "stint"))
}

// Service is a running `stint serve` with its addresses.
type Service struct {
	*Process
	HTTP, GRPC, Admin string // host:port
}

// Stint starts `stint serve` with further flags, on free ports.
func Stint(t testing.TB, flags ...string) *Service {
	t.Helper()
	s := &Service{HTTP: testkit.Address(t), GRPC: testkit.Address(t), Admin: testkit.Address(t)}
	flags = append([]string{"serve", "--http", s.HTTP, "--grpc", s.GRPC, "--admin", s.Admin, "--resp", ""}, flags...)
	s.Process = Run(t, Command{Path: Build(t), Args: flags, Ready: Answers("http://" + s.Admin + "/readyz")})
	return s
}

// Answers returns a function that reports whether a URL is answered with a status below 500.
func Answers(url string) func() bool { return answers(url, http.StatusInternalServerError-1) }

// Passes returns a function that reports whether a URL is answered with 200.
func Passes(url string) func() bool { return answers(url, http.StatusOK) }

func answers(url string, most int) func() bool {
	client := http.Client{Timeout: time.Second}
	return func() bool {
		resp, err := client.Get(url)
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode <= most
	}
}

// Listens returns a function that reports whether an address accepts connections.
func Listens(address string) func() bool {
	return func() bool {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			conn.Close()
		}
		return err == nil
	}
}

// Adapt copies a file and the other files of its folder, replaces words such as addresses, and
// returns the path of the copy. Each word must occur in one of the files.
func Adapt(t testing.TB, file string, words map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	files, err := filepath.Glob(filepath.Join(filepath.Dir(file), "*"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	var pairs []string
	for from, to := range words {
		pairs = append(pairs, from, to)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for from := range words {
			found[from] = found[from] || strings.Contains(string(data), from)
		}
		data = []byte(strings.NewReplacer(pairs...).Replace(string(data)))
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for from := range words {
		if !found[from] {
			t.Fatalf("%s: %q is not there to be replaced", file, from)
		}
	}
	return filepath.Join(dir, filepath.Base(file))
}

// Backend is a small server behind a proxy. It answers every request with its method and path, with
// status 200, or 418 for the path /status/418, and records the requests.
type Backend struct {
	Addr string // host:port

	mu   sync.Mutex
	seen []*http.Request
}

// NewBackend starts a backend.
func NewBackend(t testing.TB) *Backend {
	t.Helper()
	b := &Backend{}
	s := httptest.NewServer(b)
	t.Cleanup(s.Close)
	b.Addr = s.Listener.Addr().String()
	return b
}

// ServeHTTP answers a request.
func (b *Backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kept := r.Clone(context.Background())
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	kept.Body = io.NopCloser(bytes.NewReader(body))
	b.mu.Lock()
	b.seen = append(b.seen, kept)
	b.mu.Unlock()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if status, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/status/")); err == nil {
		w.WriteHeader(status)
	}
	fmt.Fprintf(w, "%s %s", r.Method, r.URL.EscapedPath())
}

// Seen returns the requests since the last call.
func (b *Backend) Seen() []*http.Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	seen := b.seen
	b.seen = nil
	return seen
}

// Client returns an HTTP client whose connections have a loopback source address, for example
// 127.0.0.7, for requests to a proxy at 127.0.0.1.
func Client(t testing.TB, from string) *http.Client {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	transport := &http.Transport{DialContext: dialer.DialContext}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport: transport, Timeout: patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
