package meta_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stint/internal/testkit"
	"stint/store/memcached/meta"
)

// client returns a client of an address that is closed when the test ends.
func client(t testing.TB, o meta.Options) *meta.Client {
	t.Helper()
	if o.Network == "" {
		o.Network = "tcp"
	}
	c := meta.New(o)
	t.Cleanup(c.Close)
	return c
}

// do sends commands, and ends the test if that fails.
func do(t testing.TB, c *meta.Client, commands ...meta.Command) []meta.Reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	replies, err := c.Do(ctx, 0, commands...)
	testkit.Must(t, err)
	return replies
}

// Each command gets the answer that the server's documentation promises.
func TestCommands(t *testing.T) {
	c := client(t, meta.Options{Address: testkit.StartMemcached(t).Addr})
	r := do(t, c, meta.Get("a"), meta.Increase("n", 5, 100), meta.Increase("n", 7, 100), meta.Decrease("n", 2), meta.Decrease("n", 99), meta.Decrease("none", 1))
	if r[0].Status != meta.Missing || r[5].Status != meta.Missing {
		t.Errorf("what is not there: %+v, %+v", r[0], r[5])
	}
	for i, want := range []uint64{5, 12, 10, 0} { // a new counter has the cost itself, and none falls below 0
		if n, ok := r[1+i].Number(); !ok || n != want {
			t.Errorf("count %d: %+v, want %d", i, r[1+i], want)
		}
	}
	value := []byte("any \r\n bytes \x00\xff")
	first := do(t, c, meta.Set("a", value, 100, 0), meta.Set("a", value, 100, 0), meta.Get("a"))
	if first[0].Status != meta.Done || first[0].CAS == 0 || first[1].Status != meta.Exists || string(first[2].Value) != string(value) || first[2].CAS != first[0].CAS {
		t.Fatalf("a new item: %+v", first)
	}
	second := do(t, c, meta.Set("a", []byte("2"), 100, first[0].CAS), meta.Set("a", []byte("3"), 100, first[0].CAS), meta.Delete("a", first[0].CAS), meta.Get("a"))
	if second[0].Status != meta.Done || second[1].Status != meta.Changed || second[2].Status != meta.Changed || string(second[3].Value) != "2" {
		t.Errorf("an item of another version: %+v", second)
	}
	third := do(t, c, meta.Increase(strings.Repeat("k", meta.MaxKey+1), 1, 100), meta.Delete("a", second[0].CAS), meta.Get("a"), meta.Stats("settings"))
	if third[0].Status != meta.Rejected || third[1].Status != meta.Done || third[2].Status != meta.Missing || third[3].Numbers["evictions"] != "off" {
		t.Errorf("%+v", third)
	}
	if r := do(t, c, meta.Set("text", []byte("no number"), 100, 0), meta.Increase("text", 1, 100)); r[1].Status != meta.Rejected {
		t.Errorf("counting a text: %+v", r[1])
	}
}

// A pipeline of a thousand commands is answered in order, also that of many callers at once.
func TestOrder(t *testing.T) {
	c := client(t, meta.Options{Address: testkit.StartMemcached(t).Addr, Connections: 1})
	commands := make([]meta.Command, 1000)
	for i := range commands {
		commands[i] = meta.Increase(fmt.Sprint("k", i), uint64(i+1), 100)
	}
	done := make(chan error, 8)
	for range cap(done) {
		go func() {
			replies, err := c.Do(t.Context(), 0, commands...)
			for i := range replies {
				if n, ok := replies[i].Number(); !ok || n%uint64(i+1) != 0 {
					err = fmt.Errorf("answer %d is %d", i, n)
				}
			}
			done <- err
		}()
	}
	for range cap(done) {
		testkit.Must(t, <-done)
	}
}

// Times to live up to 30 days are sent as they are, longer ones as the time of their end.
func TestTTL(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	const day = 24 * time.Hour
	for _, test := range []struct {
		life time.Duration
		want int64
	}{
		{0, 1},
		{time.Millisecond, 1},
		{time.Second, 1},
		{time.Second + 1, 2},
		{30 * day, 30 * 86400},
		{30*day + 1, 1_800_000_000 + 30*86400 + 1},
		{366 * day, 1_800_000_000 + 366*86400},
		{30 * 366 * day, 0}, // after 2038
	} {
		if got := meta.TTL(test.life, now); got != test.want {
			t.Errorf("%v: %d, want %d", test.life, got, test.want)
		}
	}
	server := testkit.StartMemcached(t)
	c := client(t, meta.Options{Address: server.Addr})
	for _, life := range []time.Duration{time.Minute, 29 * day, 31 * day, 366 * day} { // by the server's own clock
		do(t, c, meta.Increase("n", 1, meta.TTL(life, time.Now())))
		var left int64
		if _, err := fmt.Sscanf(server.Do("mg n t"), "HD t%d", &left); err != nil || left > int64(life/time.Second)+1 || left < int64(life/time.Second)-2 {
			t.Errorf("%v: %d seconds left, %v", life, left, err)
		}
		do(t, c, meta.Delete("n", 0))
	}
}

// With -Y the server asks for a user and a password.
func TestLogin(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users")
	testkit.Must(t, os.WriteFile(file, []byte("stint:secret-word\n"), 0o600))
	server := testkit.StartMemcached(t, "-Y", file)
	login := func(password string) func() (string, string, error) {
		return func() (string, string, error) { return "stint", password, nil }
	}
	if r := do(t, client(t, meta.Options{Address: server.Addr, Login: login("secret-word")}), meta.Increase("n", 1, 100)); r[0].Status != meta.Value {
		t.Errorf("with the password: %+v", r[0])
	}
	_, err := client(t, meta.Options{Address: server.Addr, Login: login("wrong")}).Do(t.Context(), 0, meta.Get("n"))
	if !errors.Is(err, meta.ErrRejected) || !errors.Is(err, meta.ErrNotSent) {
		t.Errorf("with another password: %v", err)
	}
	replies, err := client(t, meta.Options{Address: server.Addr}).Do(t.Context(), 0, meta.Get("n"))
	if err == nil && replies[0].Status != meta.Rejected {
		t.Errorf("without a password: %+v", replies)
	}
}

// A connection is encrypted, and only a server with the right certificate is used.
func TestTLS(t *testing.T) {
	authority, other := testkit.NewAuthority(t), testkit.NewAuthority(t)
	dir := t.TempDir()
	cert, key := authority.Sign(t, time.Hour, "localhost")
	for name, text := range map[string][]byte{"cert.pem": cert, "key.pem": key} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	server := testkit.StartMemcached(t, "-Z", "-o", "ssl_chain_cert="+filepath.Join(dir, "cert.pem")+",ssl_key="+filepath.Join(dir, "key.pem"))
	encrypted := func(a *testkit.Authority) meta.Options {
		return meta.Options{Address: server.Addr, TLS: &tls.Config{RootCAs: a.Pool(), ServerName: "localhost"}}
	}
	if r := do(t, client(t, encrypted(authority)), meta.Increase("n", 1, 100)); r[0].Status != meta.Value {
		t.Errorf("%+v", r[0])
	}
	if _, err := client(t, encrypted(other)).Do(t.Context(), 0, meta.Get("n")); !errors.Is(err, meta.ErrNotSent) || !strings.Contains(fmt.Sprint(err), "certificate") {
		t.Errorf("a certificate of somebody else: %v", err)
	}
}

// script is a server that answers the first command on each connection with a text, and ends.
func script(t *testing.T, text string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = bufio.NewReader(c).ReadString('\n')
			_, _ = io.WriteString(c, text)
			c.Close()
		}
	}()
	return l.Addr().String()
}

// Bytes that are no answer, and lengths that no value has, close the connection, and are an error after
// which nobody knows what the server did. The next command connects again.
func TestBadAnswers(t *testing.T) {
	for _, text := range []string{
		"", "H", "hello\r\n", "VA 1073741824 c1\r\n", "VA x\r\n", "VA -1\r\n\r\n", "VA 2 c1\r\nabc\r\n", "VA 5 c1\r\nab", "HD cx\r\n", strings.Repeat("x", 20_000),
	} {
		c := client(t, meta.Options{Address: script(t, text)})
		for range 2 {
			if _, err := c.Do(t.Context(), 0, meta.Get("a")); !errors.Is(err, meta.ErrLost) && !errors.Is(err, meta.ErrNotSent) {
				t.Errorf("%.40q: %v", text, err)
			}
		}
	}
	numbers := client(t, meta.Options{Address: script(t, strings.Repeat("STAT a 1\r\n", 20_000))})
	if _, err := numbers.Do(t.Context(), 0, meta.Stats("")); !errors.Is(err, meta.ErrLost) {
		t.Errorf("stats without an end: %v", err)
	}
}

// A caller that stops waiting does not disturb the others, whose answers are still theirs.
func TestStopsWaiting(t *testing.T) {
	server := testkit.StartMemcached(t)
	c := client(t, meta.Options{Address: server.Addr, Connections: 1})
	do(t, c, meta.Increase("a", 1, 100))
	server.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := c.Do(ctx, 0, meta.Increase("a", 10, 100))
	if !errors.Is(err, meta.ErrLost) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while the server is frozen: %v", err)
	}
	server.Thaw()
	if n, _ := do(t, c, meta.Increase("a", 100, 100))[0].Number(); n != 111 {
		t.Errorf("%d, want 111: the answer of another command", n)
	}
}

// A server that ends is connected again when it is back. What was not sent is told apart from what may
// have been done.
func TestServerEnds(t *testing.T) {
	server := testkit.StartMemcached(t)
	c := client(t, meta.Options{Address: server.Addr, Connections: 1})
	do(t, c, meta.Increase("a", 1, 100))
	server.Stop()
	for range 3 {
		if _, err := c.Do(t.Context(), 0, meta.Increase("a", 1, 100)); !errors.Is(err, meta.ErrNotSent) && !errors.Is(err, meta.ErrLost) {
			t.Fatalf("without a server: %v", err)
		}
	}
	server.Restart()
	if n, _ := do(t, c, meta.Increase("a", 3, 100))[0].Number(); n != 3 {
		t.Errorf("%d after the restart, want 3", n)
	}
	c.Close()
	if _, err := c.Do(t.Context(), 0, meta.Get("a")); !errors.Is(err, meta.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}
