package proof_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/websocket"

	"stint/internal/testkit"
)

// lasting is how long streams last.
func lasting() time.Duration {
	if *long {
		return time.Minute
	}
	return 5 * time.Second
}

// beat is the time between two messages of a stream.
const beat = 100 * time.Millisecond

func upstream(t testing.TB, handler http.HandlerFunc) (site string) {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return "%s\n\treverse_proxy " + s.Listener.Addr().String()
}

// A websocket echoes each message at once for the whole time.
func TestWebsocket(t *testing.T) {
	t.Parallel()
	echo := websocket.Handler(func(c *websocket.Conn) { _, _ = io.Copy(c, c) })
	both(t, upstream(t, echo.ServeHTTP), func(t *testing.T, g *gateway) {
		config, err := websocket.NewConfig("wss://localhost:"+port(g.https)+"/ws", g.url("/"))
		testkit.Must(t, err)
		config.TlsConfig = g.tls()
		c, err := config.DialContext(t.Context())
		testkit.Must(t, err)
		defer c.Close()
		testkit.Must(t, c.SetDeadline(time.Now().Add(lasting()+30*time.Second)))
		for n, end := 0, time.Now().Add(lasting()); time.Now().Before(end); n++ {
			sent, got := fmt.Sprint("message ", n), ""
			testkit.Must(t, websocket.Message.Send(c, sent))
			testkit.Must(t, websocket.Message.Receive(c, &got))
			if got != sent {
				t.Fatalf("%q after %q", got, sent)
			}
			time.Sleep(beat) // the stream has to last
		}
	})
}

// Each event of a stream reaches the client before the upstream sends the next.
func TestEventStream(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	site := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for n, end := 0, time.Now().Add(lasting()); time.Now().Before(end); n++ {
			fmt.Fprintf(w, "data: %d\n\n", n)
			if f, ok := w.(http.Flusher); ok {
				f.Flush()
			}
			select {
			case <-arrived:
			case <-r.Context().Done():
				return
			case <-time.After(20 * time.Second):
				return // the client misses the end
			}
			time.Sleep(beat) // the stream has to last
		}
		fmt.Fprint(w, "data: end\n\n")
	})
	both(t, site, func(t *testing.T, g *gateway) {
		for _, version := range []int{1, 2} {
			answer, err := g.client(t, version).Get(g.url("/events"))
			testkit.Must(t, err)
			lines, last := bufio.NewScanner(answer.Body), ""
			for lines.Scan() {
				if event, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
					if last = event; event != "end" {
						arrived <- struct{}{}
					}
				}
			}
			answer.Body.Close()
			if last != "end" || answer.ProtoMajor != version {
				t.Errorf("%s: the last event is %q: %v", answer.Proto, last, lines.Err())
			}
		}
	})
}

// pattern is an endless body whose bytes depend on their place.
type pattern struct{ at int64 }

func (p *pattern) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte((p.at + int64(i)) * 31 >> 3)
	}
	p.at += int64(len(b))
	return len(b), nil
}

// flat fails if the process grew by more than 64 MiB above its size before.
func flat(t *testing.T, g *gateway, before int64) {
	t.Helper()
	grown := g.rss(t) - before
	t.Logf("resident memory: %d MiB before, %+d MiB now", before>>20, grown>>20)
	if grown > 64<<20 {
		t.Errorf("the process grew by %d MiB", grown>>20)
	}
}

// size is the number of bytes of an upload.
func size() int64 {
	if *long {
		return 2 << 30
	}
	return 192 << 20
}

// An upload reaches the upstream while the client sends it, unchanged, and costs no memory.
func TestUpload(t *testing.T) {
	begun := make(chan struct{}, 1)
	site := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		sum, first := sha256.New(), make([]byte, 64<<10)
		n, err := io.ReadFull(r.Body, first)
		sum.Write(first[:n])
		begun <- struct{}{}
		rest, err2 := io.Copy(sum, r.Body)
		fmt.Fprintf(w, "%d %x %v %v", int64(n)+rest, sum.Sum(nil), err, err2)
	})
	want := sha256.New()
	_, err := io.CopyN(want, &pattern{}, size())
	testkit.Must(t, err)
	both(t, site, func(t *testing.T, g *gateway) {
		for _, version := range []int{1, 2} {
			before := g.rss(t)
			body, pipe := io.Pipe()
			go func() {
				p := &pattern{}
				_, err := io.CopyN(pipe, p, 1<<20)
				if err == nil {
					select {
					case <-begun: // the upstream reads before the client has sent all
						_, err = io.CopyN(pipe, p, size()-1<<20)
					case <-time.After(20 * time.Second):
						err = fmt.Errorf("the upstream got nothing of the first MiB")
					}
				}
				pipe.CloseWithError(err)
			}()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url("/upload"), body)
			testkit.Must(t, err)
			r.ContentLength = size()
			answer, err := g.client(t, version).Do(r)
			testkit.Must(t, err)
			text, _ := io.ReadAll(answer.Body)
			answer.Body.Close()
			if got, want := string(text), fmt.Sprintf("%d %x <nil> <nil>", size(), want.Sum(nil)); got != want {
				t.Errorf("HTTP/%d: %s, want %s", version, got, want)
			}
			flat(t, g, before)
		}
	})
}

// A download reaches the client while the upstream sends it, unchanged, and costs no memory; so does
// a file.
func TestDownload(t *testing.T) {
	begun := make(chan struct{}, 1)
	folder := t.TempDir()
	file, err := os.Create(filepath.Join(folder, "large.bin"))
	testkit.Must(t, err)
	sum := sha256.New()
	_, err = io.CopyN(io.MultiWriter(sum, file), &pattern{}, size())
	testkit.Must(t, err)
	testkit.Must(t, file.Close())
	want := hex.EncodeToString(sum.Sum(nil))

	site := upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		p := &pattern{}
		_, _ = io.CopyN(w, p, 1<<20)
		select {
		case <-begun: // the client reads before the upstream has sent all
			_, _ = io.CopyN(w, p, size()-1<<20)
		case <-time.After(20 * time.Second):
		}
	})
	site = "root * " + folder + "\n\tfile_server /large.bin\n\t" + strings.Replace(site, "reverse_proxy ", "reverse_proxy /proxied ", 1)
	both(t, site, func(t *testing.T, g *gateway) {
		for _, version := range []int{1, 2} {
			for _, path := range []string{"/proxied", "/large.bin"} {
				before := g.rss(t)
				answer, err := g.client(t, version).Get(g.url(path))
				testkit.Must(t, err)
				sum := sha256.New()
				_, err = io.CopyN(sum, answer.Body, 64<<10)
				testkit.Must(t, err)
				if path == "/proxied" {
					begun <- struct{}{}
				}
				n, err := io.Copy(sum, answer.Body)
				answer.Body.Close()
				if got := hex.EncodeToString(sum.Sum(nil)); got != want || err != nil {
					t.Errorf("HTTP/%d %s: %d bytes, %v, hash %s, want %s", version, path, n, err, got, want)
				}
				flat(t, g, before)
			}
		}
	})
}

// A slow upstream and a slow client get the whole answer.
func TestSlow(t *testing.T) {
	t.Parallel()
	const parts = 20
	site := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(time.Second) // a slow upstream
		w.Header().Set("Content-Length", fmt.Sprint(parts*1000))
		for range parts {
			_, _ = io.WriteString(w, strings.Repeat("x", 1000))
			w.(http.Flusher).Flush()
			time.Sleep(50 * time.Millisecond) // and a slow body
		}
		_ = r
	})
	both(t, site, func(t *testing.T, g *gateway) {
		c, err := net.Dial("tcp", g.http)
		testkit.Must(t, err)
		defer c.Close()
		testkit.Must(t, c.SetDeadline(time.Now().Add(time.Minute)))
		for _, b := range []byte("GET / HTTP/1.1\r\nHost: localhost:" + port(g.http) + "\r\nConnection: close\r\n\r\n") {
			_, err := c.Write([]byte{b})
			testkit.Must(t, err)
			time.Sleep(5 * time.Millisecond) // a slow client
		}
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		testkit.Must(t, err)
		got, err := io.ReadAll(answer.Body)
		if len(got) != parts*1000 || err != nil || answer.StatusCode != http.StatusOK {
			t.Errorf("%s, %d bytes, %v", answer.Status, len(got), err)
		}
	})
}
