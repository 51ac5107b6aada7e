package httplimit_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
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
	took := time.Since(began)
	if t.Logf("20 places are free after %v", took); took > 2*time.Second { // 0.1 s on a machine with time
		t.Errorf("clients that disconnected had their places for %v more", took)
	}
	l.Lines().Drain()
	for _, conn := range conns {
		conn.Close()
	}
	testkit.Until(t, "nobody waits", func() bool { return !l.Lines().Any() })
}

// BenchmarkWaitRate reports how much longer than by the rate of the limit a line needs to leave, in percent.
func BenchmarkWaitRate(b *testing.B) {
	for _, limit := range []struct{ rate, burst int }{{100, 1}, {100, 100}, {500, 1}, {500, 500}} {
		b.Run(fmt.Sprintf("%d_burst_%d", limit.rate, limit.burst), func(b *testing.B) {
			file := strings.Replace(waitRules, "places: 100, places_per_key: 40", "places: 5000, places_per_key: 5000", 1)
			file = strings.Replace(file, "requests: 10, per: 1s, algorithm: token_bucket, burst: 1,", fmt.Sprintf("requests: %d, per: 1s, algorithm: token_bucket, burst: %d,", limit.rate, limit.burst), 1)
			late := 0.0
			for b.Loop() {
				h := byRules(b, memory.New(memory.Options{}), file, httplimit.Options{})
				var group sync.WaitGroup
				began := time.Now()
				for range limit.burst + 2*limit.rate {
					group.Go(func() { get(h, "192.0.2.1:1", "/", "X-User", "bob") })
				}
				group.Wait()
				late += time.Since(began).Seconds()/2 - 1
			}
			b.ReportMetric(100*late/float64(b.N), "%late")
		})
	}
}
