package app

import (
	"context"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"stint"
	"stint/app/settings"
	"stint/internal/testkit"
)

// The most functions of this module that a strict take may pass between the socket and the client
// library of Redis, or the store in memory.
const (
	framesRedis  = 14
	framesMemory = 8
)

// TestFrames bounds the path of a strict take: a layer that it does not need is not on it. It does not
// run beside other tests, because it would find their calls too.
func TestFrames(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, file, busyBucket(""))

	redis := testkit.StartRedis(t)
	t.Run("redis", func(t *testing.T) {
		path := pathToRedis(t, file, redis.URL(), testkit.Race) // with the race detector the server may seem far
		bound(t, path, framesRedis)
	})

	t.Run("far", func(t *testing.T) {
		proxy := testkit.StartProxy(t, redis.Addr, testkit.ProxyOptions{Delay: 5 * time.Millisecond})
		path := pathToRedis(t, file, "redis://"+proxy.Addr(), true)
		bound(t, path, framesRedis)
	})

	t.Run("memory", func(t *testing.T) {
		var path []string
		s := start(t, func(c *settings.Config) {
			c.Rules = []string{file}
			c.Clock = func() stint.Instant {
				stack := make([]byte, 64<<10)
				if text := string(stack[:runtime.Stack(stack, false)]); strings.Contains(text, "stint/server/httpapi.") {
					path = ours(text)
				}
				return stint.At(time.Now())
			}
		})
		s.ask(t, "user=x")
		bound(t, path, framesMemory)
	})
}

// pathToRedis returns the functions that a call passes on its way to Redis. Far from a server another goroutine sends what
// callers wait for: if far is true, the path of a caller that waits for such a one counts too.
func pathToRedis(t *testing.T, rules, url string, far bool) (path []string) {
	t.Helper()
	s := start(t, func(c *settings.Config) {
		c.Rules, c.Store, c.StoreTimeout = []string{rules}, url, patient
	})
	asking, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 1 << 20 {
			if s.ask(t, "user=x"); asking.Err() != nil {
				return
			}
		}
	}()
	defer func() { stop(); <-done }()
	all := make([]byte, 4<<20)
	testkit.Until(t, "somebody waits for Redis", func() bool {
		text := string(all[:runtime.Stack(all, true)])
		byOther := far && strings.Contains(text, "stint/store/redis.(*committer).loop(")
		for stack := range strings.SplitSeq(text, "\n\n") {
			if strings.Contains(stack, "stint/server/httpapi.") &&
				(strings.Contains(stack, "redis/rueidis.") || byOther && strings.Contains(stack, "stint/store/redis.(*committer).exchange(")) {
				path = ours(stack)
			}
		}
		return path != nil
	})
	return path
}

// ours returns the functions of this module in a stack, from the socket to the client library or
// into the store in memory.
func ours(stack string) (path []string) {
	module := strings.TrimSuffix(reflect.TypeFor[App]().PkgPath(), "app")
	for line := range strings.Lines(stack) {
		if name, _, call := strings.Cut(line, "("); call && strings.HasPrefix(name, module) {
			path = append(path, line[:strings.LastIndex(line, "(")])
		}
	}
	slices.Reverse(path)
	if at := slices.IndexFunc(path, func(name string) bool { return strings.HasPrefix(name, "stint/store/memory.") }); at >= 0 {
		path = path[:at+1]
	}
	return path
}

func bound(t *testing.T, path []string, most int) {
	t.Helper()
	t.Logf("%d frames, %d at most:\n%s", len(path), most, strings.Join(path, "\n"))
	if len(path) == 0 || len(path) > most {
		t.Errorf("a strict take passes %d frames of ours, more than %d", len(path), most)
	}
}
