package redis_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/store/redis"
)

// cutter passes a number of bytes of a connection on to a server, and then cuts the connection.
type cutter struct {
	net.Listener
	server string
	all    sync.WaitGroup

	mu    sync.Mutex
	left  int // bytes to the server; negative: no limit
	conns []net.Conn
}

func startCutter(t *testing.T, server string) *cutter {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{Listener: listener, server: server, left: -1}
	c.all.Go(c.accept)
	t.Cleanup(func() {
		c.Close()
		c.cut()
		c.all.Wait()
	})
	return c
}

func (c *cutter) accept() {
	for {
		from, err := c.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", c.server)
		if err != nil {
			from.Close()
			continue
		}
		c.mu.Lock()
		c.conns = append(c.conns, from, to)
		c.mu.Unlock()
		c.all.Go(func() {
			io.Copy(from, to) //nolint:errcheck // the connection was cut
			from.Close()
		})
		c.all.Go(func() { c.pass(from, to) })
	}
}

// pass passes bytes to the server until none is left.
func (c *cutter) pass(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	buffer := make([]byte, 4096)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		c.mu.Lock()
		if c.left >= 0 {
			n = min(n, c.left)
			c.left -= n
		}
		over := c.left == 0
		c.mu.Unlock()
		if _, err := to.Write(buffer[:n]); err != nil || over {
			return
		}
	}
}

// allow sets how many more bytes pass.
func (c *cutter) allow(left int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = left
}

func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		conn.Close()
	}
	c.conns = nil
}

// Wherever the connection is cut within a decision, no key without an expiry stays, and the caller
// gets ErrUnknown for everything that may have been charged.
func TestCutAnywhere(t *testing.T) {
	server := testkit.StartRedis(t)
	proxy := startCutter(t, server.Addr)
	direct := openIn(t, server, "cut")
	step := 1
	if testing.Short() {
		step = 16
	}
	for i, limit := range []*stint.Limit{forms[0], forms[4], forms[7], forms[8], forms[0]} {
		key := stint.Key(fmt.Sprint("key", i))
		takes := []stint.Take{{Key: key, Limit: limit, Cost: 50}}
		if i == 4 { // by few.lua
			takes = append(takes, stint.Take{Key: "beside", Limit: limit, Cost: 1})
		}
		decide(t, direct, takes...) // the server loads the script
		s, err := redis.Open("redis://"+proxy.Addr().String(), redis.Options{Namespace: "cut"})
		if err != nil {
			t.Fatal(err)
		}
		at := noon
		if limit == forms[0] {
			at = 0 // otherwise one.lua and few.lua do not decide it
		}
		used := int64(0)
		for cut := 1; cut < 500; cut += step {
			proxy.allow(-1)
			untilDecided(t, s) // now it is connected
			for _, take := range takes {
				decideAt(t, direct, at, stint.Take{Key: take.Key, Limit: limit, Op: stint.Reset})
			}
			proxy.allow(cut)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			call := stint.Call{At: at, Takes: takes}
			err := s.Decide(ctx, &call)
			cancel()
			charged := takeAt(t, direct, at, key, limit, 0).Remaining < 100
			if err == nil && !charged && limit != forms[0] || err != nil && charged && !errors.Is(err, stint.ErrUnknown) {
				t.Fatalf("%v, cut after %d bytes: error %v, charged %v", limit.Algorithm(), cut, err, charged)
			}
			if err == nil {
				used++
			}
		}
		if used == 0 {
			t.Errorf("%v: no call passed, the cuts were too early", limit.Algorithm())
		}
		s.Close()
	}
	for name := range strings.SplitSeq(server.Do("KEYS", "*"), "\n") {
		if ttl := server.Do("PTTL", name); ttl == "-1" {
			t.Errorf("%s lives for ever", name)
		}
	}
}
