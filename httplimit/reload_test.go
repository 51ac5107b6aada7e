package httplimit_test

import (
	"fmt"
	"net/http"
	"testing"

	"stint/httplimit"
	"stint/limiter"
	"stint/rule"
	"stint/rule/rulefile"
)

// tables returns two tables that deny everything, each with a different key.
func tables(t *testing.T) (old, fresh *rule.Table) {
	t.Helper()
	parse := func(key string) *rule.Table {
		table, err := rulefile.Parse(rulefile.Source{Name: "api.yaml", Data: fmt.Appendf(nil, `
domain: api
descriptors:
  - key: %s
    rate_limit: {requests: 0, per: 1m}
http:
  rate_limits:
    - actions: [{remote_address: {descriptor_key: %s}}]
`, key, key)})
		if err != nil {
			t.Fatal(err)
		}
		return table
	}
	return parse("before"), parse("after")
}

// While tables are replaced, each request is described and decided by the same table; a mixture of
// both would deny nothing.
func TestReload(t *testing.T) {
	old, fresh := tables(t)
	var time clock
	l := limiter.New(time.store(), old, limiter.Options{})
	h := httplimit.New(l, "api", httplimit.Options{})(ok)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				l.Swap(fresh)
				l.Swap(old)
			}
		}
	}()
	for range 20_000 {
		r := request("192.0.2.1:1", "/")
		w := &discard{http.Header{}, new(int)}
		if h.ServeHTTP(w, r); *w.status != http.StatusTooManyRequests {
			t.Errorf("status %d in the middle of a reload, want 429", *w.status)
			break
		}
	}
	close(stop)
	<-stopped
}
