package stream

import (
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"stint/gateway/queue/queuetest"
	"stint/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openFor(t testing.TB, o Options) *Storage {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { testkit.Must(t, s.Close()) })
	return s
}

func TestSuite(t *testing.T) {
	server := testkit.StartRedis(t)
	queuetest.Suite(t, func(t *testing.T, test func(*testing.T, queuetest.Env)) {
		server.Do("FLUSHALL")
		var ahead atomic.Int64
		began := time.Now()
		now := func() time.Time { return began.Add(time.Duration(ahead.Load())) }
		s := openFor(t, Options{URL: server.URL(), Now: now})
		test(t, queuetest.Env{Storage: s.Queue(), Now: now, Advance: func(d time.Duration) { ahead.Add(int64(d)) }})
	})
}
