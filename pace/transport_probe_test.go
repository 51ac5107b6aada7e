package pace_test

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"stint/pace"
)

// windows is a server that allows twenty requests in each two seconds and takes 30 ms for one.
type windows struct {
	begun   time.Time
	tells   bool // whether it reports its remaining requests
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
	// Whole seconds, rounded up, as in the header fields.
	reset := (time.Duration(window+1)*per - since + time.Second - 1) / time.Second
	if s.tells {
		w.Header().Set("RateLimit", fmt.Sprintf(`"a";r=%d;t=%d`, max(0, left), reset))
	}
	time.Sleep(30 * time.Millisecond) // fake time
	if over {
		w.Header().Set("Retry-After", fmt.Sprint(int(reset)))
		w.WriteHeader(http.StatusTooManyRequests)
	}
}

// TestTransportProbes has fifty clients of a server that allows twenty requests in two seconds, without a
// limit of their own. At the beginning all send at once, because nothing is known. Afterwards one
// probe is sent at the end of each pause, and then as many requests as the server has left; if it
// does not report them, two for each answer.
func TestTransportProbes(t *testing.T) {
	for _, test := range []struct {
		name  string
		tells bool
		most  int // refused requests, of 200
	}{{"told what is left", true, 30}, {"not told", false, 130}} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &windows{begun: time.Now(), tells: test.tells, used: map[int]int{}}
				client := serve(t, s.ServeHTTP, nil, pace.TransportOptions{MaxRetries: 100})
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

// TestProbeFails checks that a new probe is sent if one gets no answer, and that no other request
// passes meanwhile.
func TestProbeFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var at []time.Duration
		begun := time.Now()
		broken := errors.New("connection reset")
		transport := pace.NewTransport(clockStore(), nil, pace.TransportOptions{Base: roundTripper(func(*http.Request) (*http.Response, error) {
			mu.Lock()
			at = append(at, time.Since(begun))
			n := len(at)
			mu.Unlock()
			time.Sleep(time.Second) // fake time
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
		// 1 s and a pause of 4 s, two failed probes, one with a report: two more within ten
		// seconds. Then a probe again, and one more request.
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

// TestLateAnswers checks that an answer from before a pause, which arrives after the pause, does
// not allow requests.
func TestLateAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int32
		transport := pace.NewTransport(clockStore(), nil, pace.TransportOptions{Base: roundTripper(func(r *http.Request) (*http.Response, error) {
			sent.Add(1)
			answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody}
			switch r.URL.Path {
			case "/slow":
				time.Sleep(6 * time.Second) // fake time
				answer.Header.Set("RateLimit", `"a";r=100;t=60`)
			case "/refused":
				answer.StatusCode = http.StatusTooManyRequests
				answer.Header.Set("Retry-After", "4")
			default:
				time.Sleep(10 * time.Second) // fake time
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
		time.Sleep(8 * time.Second) // fake time: the slow answer arrived, that of the probe did not
		synctest.Wait()
		if n := sent.Load(); n != 3 {
			t.Errorf("%d were sent, want the first two and a probe", n)
		}
		group.Wait()
	})
}
