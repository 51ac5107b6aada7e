package file

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"stint/gateway/queue/queuetest"
	"stint/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openFor(t testing.TB, path string) *Storage {
	t.Helper()
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { testkit.Must(t, s.Close()) })
	return s
}

func TestSuite(t *testing.T) {
	queuetest.Suite(t, func(t *testing.T, test func(*testing.T, queuetest.Env)) {
		synctest.Test(t, func(t *testing.T) {
			s := openFor(t, filepath.Join(t.TempDir(), "queue"))
			test(t, queuetest.Env{Storage: s.Queue(), Now: time.Now, Advance: time.Sleep})
		})
	})
}
