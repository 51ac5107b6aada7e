package redis_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"stint"
	"stint/internal/testkit"
	"stint/store/redis"
)

// untilProblem calls the store until the error names the problem. It checks that nothing is charged
// and that the error has a hint.
func untilProblem(t *testing.T, s *redis.Store, problem string) {
	t.Helper()
	testkit.Until(t, "an error with "+problem, func() bool {
		_, err := attempt(t.Context(), s, "busy")
		if err == nil || !strings.Contains(err.Error(), problem) {
			return false
		}
		var e *redis.Error
		if !errors.As(err, &e) || e.Hint == "" || errors.Is(err, stint.ErrUnknown) {
			t.Errorf("%v: not known as such", err)
		}
		return true
	})
}

// A server that is busy with another client's script, or that loads its data, decides again
// afterwards.
func TestServerIsBusy(t *testing.T) {
	problems := map[string][]string{"BUSY": {"EVAL", "while true do end", "0"}}
	args := []string{"--lua-time-limit", "50", "--key-load-delay", "0"}
	if testkit.RedisVersion(t) >= 7 { // older releases load so little data without answering between
		problems["LOADING"] = []string{"DEBUG", "RELOAD", "NOSAVE"}
		args = append(args, "--loading-process-events-interval-bytes", "1024", "--enable-debug-command", "yes")
	}
	server := testkit.StartRedis(t, args...)
	s := openIn(t, server, "busy")
	for i := range 300 {
		take(t, s, stint.Key(fmt.Sprint("key", i)), forms[5], 1)
	}
	var other sync.WaitGroup
	for problem, command := range problems {
		server.Do("SAVE")
		server.Do("CONFIG", "SET", "key-load-delay", "10000")
		other.Go(func() { server.Do(command...) })
		untilProblem(t, s, problem)
		server.Do("CONFIG", "SET", "key-load-delay", "0")
		server.Do("SCRIPT", "KILL")
		other.Wait()
		if d := take(t, s, "key7", forms[5], 1); d.Remaining > 98 {
			t.Errorf("after %s: %+v", problem, d)
		}
	}
}
