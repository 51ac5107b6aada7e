package pacehttp_test

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"stint/pace/pacehttp"
)

// windows is a server of twenty requests in each two seconds, which takes 30 ms for one.
type windows struct {
	begun   time.Time
	tells   bool // what it has left
	mu      sync.Mutex
	used    map[int]int
	refused int
}

func (s *windows) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	const most, per = 20, 2 * time.Second
	s.mu.Lock()
	since := time.Since(s.begun)
	window := int(since / per)
	s.used[window]++
	left, over := most-s.used[window], s.used[window] > most
	if over {
		s.refused++
	}
	s.mu.Unlock()
	// Whole seconds, rounded up, as fields have them.
	reset := (time.Duration(window+1)*per - since + time.Second - 1) / time.Second
	if s.tells {
		w.Header().Set("RateLimit", fmt.Sprintf(`"a";r=%d;t=%d`, max(0, left), reset))
	}
	time.Sleep(30 * time.Millisecond) // synctest
	if over {
		w.Header().Set("Retry-After", fmt.Sprint(int(reset)))
		w.WriteHeader(http.StatusTooManyRequests)
	}
}

// TestProbe has fifty callers at a server of twenty in two seconds, with no limit of
// their own. They rush once, at the beginning, when nobody knows anything. Afterwards one
// of them asks when a pause ends, and as many follow as the server has left; one that
// does not say is asked by twos.
func TestProbe(t *testing.T) {
	for _, test := range []struct {
		name  string
		tells bool
		most  int // that are refused, of 200
	}{{"told what is left", true, 30}, {"not told", false, 130}} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &windows{begun: time.Now(), tells: test.tells, used: map[int]int{}}
				client := serve(t, s.ServeHTTP, nil, pacehttp.Options{MaxRetries: 100})
				var group sync.WaitGroup
				for range 50 {
					group.Go(func() {
						for range 4 {
							if status, err := get(t.Context(), client, "http://a/"); status != 200 {
								t.Error(status, err)
							}
						}
					})
				}
				group.Wait()
				// 200 requests are ten full windows.
				if took := time.Since(s.begun); s.refused > test.most || took > 60*time.Second {
					t.Errorf("%d were refused, want at most %d; it took %v", s.refused, test.most, took)
				}
				t.Logf("%d refused in %v", s.refused, time.Since(s.begun))
			})
		})
	}
}

// TestProbeFails sends the next probe when one gets no answer, and lets nobody by it.
func TestProbeFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var at []time.Duration
		begun := time.Now()
		broken := errors.New("connection reset")
		transport := pacehttp.NewTransport(clockStore(), nil, pacehttp.Options{Base: roundTripper(func(*http.Request) (*http.Response, error) {
			mu.Lock()
			at = append(at, time.Since(begun))
			n := len(at)
			mu.Unlock()
			time.Sleep(time.Second) // synctest
			answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody}
			switch n {
			case 1:
				answer.StatusCode = http.StatusTooManyRequests
				answer.Header.Set("Retry-After", "4")
			case 2, 3:
				return nil, broken
			case 4:
				answer.Header.Set("RateLimit", `"a";r=2;t=10`)
			}
			return answer, nil
		})})
		client := &http.Client{Transport: transport}
		if status, err := get(t.Context(), client, "http://a/"); status != 429 {
			t.Fatal(status, err)
		}
		var group sync.WaitGroup
		var failed atomic.Int32
		for range 7 {
			group.Go(func() {
				if _, err := get(t.Context(), client, "http://a/"); errors.Is(err, broken) {
					failed.Add(1)
				}
			})
		}
		group.Wait()
		// 1 s and a pause of 4, two probes that fail, one that says: two more within
		// ten seconds. Then a probe again, and one that it lets go.
		want := []int{0, 5, 6, 7, 8, 8, 18, 19}
		if len(at) != len(want) || failed.Load() != 2 {
			t.Fatalf("sent at %v, %d failed", at, failed.Load())
		}
		for i, s := range want {
			if at[i] != time.Duration(s)*time.Second {
				t.Fatalf("sent at %v, want %v s", at, want)
			}
		}
	})
}

// TestLateAnswers hears of a time before the pause when the pause is over: that opens
// nothing.
func TestLateAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int32
		transport := pacehttp.NewTransport(clockStore(), nil, pacehttp.Options{Base: roundTripper(func(r *http.Request) (*http.Response, error) {
			sent.Add(1)
			answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody}
			switch r.URL.Path {
			case "/slow":
				time.Sleep(6 * time.Second) // synctest
				answer.Header.Set("RateLimit", `"a";r=100;t=60`)
			case "/refused":
				answer.StatusCode = http.StatusTooManyRequests
				answer.Header.Set("Retry-After", "4")
			default:
				time.Sleep(10 * time.Second) // synctest
			}
			return answer, nil
		})})
		client := &http.Client{Transport: transport}
		var group sync.WaitGroup
		ask := func(path string) {
			group.Go(func() {
				if _, err := get(t.Context(), client, "http://a/"+path); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		ask("slow")
		ask("refused")
		for range 20 {
			ask("")
		}
		time.Sleep(8 * time.Second) // synctest: the slow answer came, that of the probe did not
		synctest.Wait()
		if n := sent.Load(); n != 3 {
			t.Errorf("%d were sent, want the first two and a probe", n)
		}
		group.Wait()
	})
}
