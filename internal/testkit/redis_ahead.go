package testkit

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// ahead is what a server is loaded with whose clock runs ahead.
//
//go:embed testdata/ahead.c
var ahead string

// StartRedisAhead is StartRedis for a server whose clock is ahead of this machine by a duration in
// whole seconds. Without a C compiler the test is skipped, or fails where SkipOrFail fails.
func StartRedisAhead(t testing.TB, by time.Duration, args ...string) *RedisServer {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		SkipOrFail(t, "no "+program+"; scripts/install-test-deps.sh installs it")
	}
	if _, err := exec.LookPath("cc"); err != nil {
		SkipOrFail(t, "no cc; install gcc, which the race detector needs too")
	}
	library := filepath.Join(t.TempDir(), "ahead.so")
	source := filepath.Join(t.TempDir(), "ahead.c")
	Must(t, os.WriteFile(source, []byte(ahead), 0o600))
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-O1", "-o", library, source).CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
	env := []string{"LD_PRELOAD=" + library, "AHEAD=" + strconv.FormatInt(int64(by/time.Second), 10)}
	return run(t, &RedisServer{t: t, args: args, env: env})
}
