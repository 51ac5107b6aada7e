package stores

import (
	"context"
	"errors"

	"stint"
	"stint/app/settings"
	"stint/store/memcached"
	"stint/store/redis"
)

// network is a store on the network: Redis or memcached.
type network struct {
	redis     *redis.Store     // nil: it is memcached
	memcached *memcached.Store // nil: it is Redis
}

// openNetwork opens the store at the URL of a server.
func openNetwork(url string, c *settings.Config) (n network, err error) {
	if memcached.IsURL(url) {
		n.memcached, err = memcached.Open(url, memcached.Options{Namespace: c.Namespace})
		return n, err
	}
	n.redis, err = redis.Open(url, redis.Options{Namespace: c.Namespace})
	return n, err
}

// store returns the store, and the name of its kind for traces.
func (n network) store() (stint.Store, string) {
	if n.memcached != nil {
		return n.memcached, "memcached"
	}
	return n.redis, "redis"
}

// look is [redis.Store.Look], also for memcached. evicted is how many keys memcached has evicted since
// the last look.
func (n network) look(ctx context.Context, decide bool) (servers []redis.Server, evicted uint64) {
	if n.memcached != nil {
		h := n.memcached.Look(ctx, decide)
		return []redis.Server{{Err: h.Err, Lost: h.Lost}}, h.Evicted
	}
	return n.redis.Look(ctx, decide), 0
}

// warnings is [redis.Store.Warnings], also for memcached.
func (n network) warnings(ctx context.Context) ([]redis.Warning, error) {
	if n.redis != nil {
		return n.redis.Warnings(ctx)
	}
	all, err := n.memcached.Warnings(ctx)
	warnings := make([]redis.Warning, len(all))
	for i, w := range all {
		warnings[i] = redis.Warning{Problem: w.Problem, Hint: w.Hint}
	}
	return warnings, err
}

// keepSecret is [redis.Store.KeepSecret], also for memcached.
func (n network) keepSecret(ctx context.Context, secret string) (kept string, first bool, err error) {
	if n.redis != nil {
		return n.redis.KeepSecret(ctx, secret)
	}
	return n.memcached.KeepSecret(ctx, secret)
}

// serverOf returns the number of the server that has the key of a take, and part that of its
// partition: see the methods of [redis.Store].
func (n network) serverOf(t *stint.Take) int {
	if n.redis != nil {
		return n.redis.Server(t)
	}
	return 0
}

func (n network) part(t *stint.Take) int {
	if n.redis != nil {
		return n.redis.Part(t)
	}
	return 0
}

// serverName returns the name of the server with a number; "" if there is only one.
func (n network) serverName(number int) string {
	if n.redis != nil {
		return n.redis.ServerName(number)
	}
	return ""
}

// close closes the connections.
func (n network) close() {
	if n.redis != nil {
		n.redis.Close()
	}
	if n.memcached != nil {
		n.memcached.Close()
	}
}

// hintOf returns the hint of a store's error, "" if it has none.
func hintOf(err error) string {
	if problem, ok := errors.AsType[*redis.Error](err); ok {
		return problem.Hint
	}
	if problem, ok := errors.AsType[*memcached.Error](err); ok {
		return problem.Hint
	}
	return ""
}
