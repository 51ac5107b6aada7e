package httplimit_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"stint/httplimit"
	"stint/internal/testkit"
	"stint/store/memory"
)

// A thousand real connections wait: each costs at most 32 KiB, one more is refused at once, and a client
// that disconnects frees its place, also one whose body nobody reads. Nothing is left of them.
func TestWaitOfRealRequests(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	const places, most = 1000, 32 << 10
	file := strings.Replace(waitRules, "{mode: wait, max_wait: 5s, places: 100, places_per_key: 40}",
		fmt.Sprintf("{mode: wait, max_wait: 1h, places: %d, places_per_key: %d}", places, places), 1)
	file = strings.Replace(file, "requests: 10, per: 1s", "requests: 1, per: 2s", 1)
	l := newLimiter(t, memory.New(memory.Options{}), file)
	server := httptest.NewUnstartedServer(httplimit.New(l, "api", httplimit.Options{})(ok))
	server.Config.ConnContext = httplimit.ConnContext
	server.Start()
	defer server.Close()
	dial := func(request string) net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte(request)); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	waiting := func() int64 {
		stats := l.Lines().Stats()
		if len(stats) == 0 {
			return 0
		}
		return stats[0].Waiting
	}
	const get = "GET / HTTP/1.1\r\nHost: api\r\nX-User: bob\r\n\r\n"
	const post = "POST / HTTP/1.1\r\nHost: api\r\nX-User: bob\r\nContent-Length: 100\r\n\r\nabc"
	var before, after runtime.MemStats
	conns := []net.Conn{dial(get)}
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range places {
		if i%2 == 0 {
			conns = append(conns, dial(get))
		} else {
			conns = append(conns, dial(post))
		}
	}
	testkit.Until(t, "all wait", func() bool { return waiting() >= places-10 })
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := (int64(after.HeapAlloc+after.StackInuse) - int64(before.HeapAlloc+before.StackInuse)) / places
	t.Logf("%d bytes for each of %d requests", each, waiting())
	if each > most && !raceDetector {
		t.Errorf("%d bytes for a request that waits, want at most %d", each, most)
	}
	for waiting() < places {
		conns = append(conns, dial(get))
		time.Sleep(time.Millisecond) // until the server has read it; the loop ends with the last place
	}
	refused := dial(get)
	began := time.Now()
	answer, err := http.ReadResponse(bufio.NewReader(refused), nil)
	if err != nil || answer.StatusCode != http.StatusTooManyRequests {
		t.Fatal(answer, err)
	}
	t.Logf("refused after %v", time.Since(began))
	refused.Close()
	full := waiting()
	for i := range 20 {
		conns[len(conns)/2+i].Close()
	}
	began = time.Now()
	testkit.Until(t, "places are free", func() bool { return waiting() <= full-20 })
	t.Logf("20 places are free after %v", time.Since(began))
	l.Lines().Drain()
	for _, conn := range conns {
		conn.Close()
	}
	testkit.Until(t, "nobody waits", func() bool { return !l.Lines().Any() })
}
