package stream

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"stint/gateway/queue"
	"stint/store/redis/connect"
)

//go:embed lua/*.lua
var sources embed.FS

// The scripts.
var (
	putScript     = script("put")
	claimScript   = script("claim")
	renewScript   = script("renew")
	changeScript  = script("change")
	publishScript = script("publish")
	listScript    = script("list")
	statsScript   = script("stats")
)

func script(name string) *rueidis.Lua {
	common, err := sources.ReadFile("lua/common.lua")
	if err != nil {
		panic("stint: " + err.Error()) // the files are embedded in the program
	}
	own, err := sources.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic("stint: " + err.Error()) // the files are embedded in the program
	}
	return rueidis.NewLuaScript(string(common) + "\n" + string(own))
}

// defaultTimeout is how long one call may take.
const defaultTimeout = 5 * time.Second

// Options configure a storage.
type Options struct {
	// URL is the address of the server or servers, as for the store.
	URL string

	// Namespace begins all keys, so that several queues share a server. "" means stint.
	Namespace string

	// Timeout is how long one call may take. 0 means 5 s. A call that took longer may have been carried
	// out.
	Timeout time.Duration

	// Now returns the time. Nil means the clock of the server, which all gateways share.
	Now func() time.Time
}

// Storage is a [queue.Storage] in Redis (6.2 and later) or Valkey. It connects at its first call and again
// after a connection was lost.
type Storage struct {
	link    connect.Link
	prefix  string
	timeout time.Duration
	now     func() time.Time
	waiting atomic.Int64 // calls of within that have not ended
}

var (
	_ queue.Lines   = (*Storage)(nil)
	_ queue.Records = (*Storage)(nil)
)

// Queue returns the storage for a queue.
func (s *Storage) Queue() queue.Storage { return queue.Storage{Lines: s, Records: s, Closer: s} }

// Open returns the storage of a namespace. It does not connect. The error is a [*connect.URLError].
func Open(o Options) (*Storage, error) {
	target, err := connect.ParseURL(o.URL)
	if err != nil {
		return nil, err
	}
	if o.Namespace == "" {
		o.Namespace = "stint"
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	return &Storage{link: connect.Link{Target: target}, prefix: o.Namespace + ":{queue}:", timeout: o.Timeout, now: o.Now}, nil
}

// Close closes all connections.
func (s *Storage) Close() error {
	s.link.Close()
	return nil
}

// run runs a script. Its errors say what was being done.
func (s *Storage) run(ctx context.Context, doing string, script *rueidis.Lua, args ...string) (answer rueidis.RedisMessage, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	client, err := s.link.Client(ctx)
	if err != nil {
		return answer, connect.Explain("connect", err)
	}
	now := "0"
	if s.now != nil {
		now = micros(s.now())
	}
	args = append([]string{s.prefix, now}, args...)
	answer, err = script.Exec(ctx, client, []string{s.prefix + "stream"}, args).ToMessage()
	if err != nil && !rueidis.IsRedisNil(err) {
		return answer, connect.Explain(doing, err)
	}
	return answer, nil
}

// mostWaiting is how many calls of requests wait for a server.
const mostWaiting = 1000

var errSilent = errors.New("redis: too many calls of the queue wait for the server")

// within returns what call returns, or an error when ctx is done. While the client connects, it does not check
// ctx, so that a call would wait until the client gives up a server that does not answer. Such a call ends in
// the background.
func within[T any](ctx context.Context, s *Storage, doing string, call func() (T, error)) (result T, err error) {
	if s.waiting.Add(1) > mostWaiting {
		s.waiting.Add(-1)
		return result, errSilent
	}
	ended := make(chan struct{})
	var late T
	var failed error
	go func() {
		defer s.waiting.Add(-1)
		defer close(ended)
		late, failed = call()
	}()
	select {
	case <-ended:
		return late, failed
	case <-ctx.Done():
		return result, connect.Explain(doing, ctx.Err())
	}
}

// Put implements queue.Lines. It returns queue.ErrFull also if the server's memory is full.
func (s *Storage) Put(ctx context.Context, e *queue.Entry, b queue.Bounds) (place int, err error) {
	args := []string{
		e.ID, e.Line, e.Rule, strconv.Itoa(b.Places), strconv.FormatInt(b.Bytes, 10), strconv.FormatInt(e.Bytes(), 10), micros(e.At), micros(e.Made),
		"state", string(queue.Waiting), "who", e.Who, "size", strconv.Itoa(e.Size), "rev", "1", "entry", "", "data", string(e.Data),
	}
	const doing = "queue a request"
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	answer, err := within(ctx, s, doing, func() (rueidis.RedisMessage, error) {
		return s.run(ctx, doing, putScript, append(args, fields(e)...)...)
	})
	if err != nil {
		if strings.Contains(err.Error(), "OOM ") {
			err = fmt.Errorf("%w: %w", queue.ErrFull, err)
		}
		return 0, err
	}
	n, err := answer.AsInt64()
	if err == nil && n == 0 {
		err = queue.ErrFull
	}
	return int(n), err
}

// Holds implements queue.Lines.
func (s *Storage) Holds(ctx context.Context, line string) (bool, error) {
	const doing = "look up a line of the queue"
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return within(ctx, s, doing, func() (bool, error) {
		client, err := s.link.Client(ctx)
		if err != nil {
			return false, connect.Explain("connect", err)
		}
		n, err := client.Do(ctx, client.B().Exists().Key(s.prefix+"line:"+line).Build()).AsInt64()
		if err != nil {
			return false, connect.Explain(doing, err)
		}
		return n > 0, nil
	})
}

// Claim implements queue.Lines.
func (s *Storage) Claim(ctx context.Context, worker string, lease time.Duration) (*queue.Entry, time.Duration, error) {
	answer, err := s.run(ctx, "claim a record of the queue", claimScript, worker, strconv.FormatInt(lease.Microseconds(), 10))
	if err != nil {
		return nil, -1, err
	}
	if wait, err := answer.AsInt64(); err == nil {
		if wait < 0 {
			return nil, -1, nil
		}
		return nil, time.Duration(wait) * time.Microsecond, nil
	}
	hash, err := answer.AsStrMap()
	if err != nil {
		return nil, -1, fmt.Errorf("redis: claim a record of the queue: %w", err)
	}
	e, _, err := parse(hash)
	return e, -1, err
}

// Renew implements queue.Lines.
func (s *Storage) Renew(ctx context.Context, id, worker string, lease time.Duration, sending bool) error {
	answer, err := s.run(ctx, "renew a claim of the queue", renewScript, id, worker, strconv.FormatInt(lease.Microseconds(), 10), flag(sending))
	if err != nil {
		return err
	}
	if n, err := answer.AsInt64(); n == 0 {
		return errors.Join(queue.ErrLost, err)
	}
	return nil
}

// Get implements queue.Records.
func (s *Storage) Get(ctx context.Context, id string) (*queue.Entry, error) {
	e, _, err := s.get(ctx, id)
	return e, err
}

func (s *Storage) get(ctx context.Context, id string) (*queue.Entry, string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	client, err := s.link.Client(ctx)
	if err != nil {
		return nil, "", connect.Explain("connect", err)
	}
	hash, err := client.Do(ctx, client.B().Hgetall().Key(s.prefix+"record:"+id).Build()).AsStrMap()
	if err != nil {
		return nil, "", connect.Explain("read a record of the queue", err)
	}
	return parse(hash)
}

// maxChanges is how often Change tries again because somebody else changed the record.
const maxChanges = 20

// Change implements queue.Records.
func (s *Storage) Change(ctx context.Context, id string, change func(e *queue.Entry) error) error {
	for range maxChanges {
		e, revision, err := s.get(ctx, id)
		if err != nil {
			return err
		}
		e.Data, e.Answer = nil, nil
		if err := change(e); err != nil {
			return err
		}
		args := []string{id, revision, string(e.State), micros(e.At), flag(e.Answer != nil), string(e.Answer)}
		answer, err := s.run(ctx, "change a record of the queue", changeScript, append(args, fields(e)...)...)
		if err != nil {
			return err
		}
		switch word, err := answer.ToString(); word {
		case "ok":
			return nil
		case "unknown":
			return queue.ErrUnknown
		case "empty":
			return fmt.Errorf("record %s: its request is not kept any more", id)
		case "changed":
		default:
			return fmt.Errorf("redis: change a record of the queue: answer %q: %w", word, err)
		}
	}
	return fmt.Errorf("record %s: others changed it %d times meanwhile; try again", id, maxChanges)
}

// List implements queue.Records.
func (s *Storage) List(ctx context.Context, state queue.State, after *queue.Entry, limit int) ([]*queue.Entry, error) {
	args := []string{string(state), "", "0", strconv.Itoa(limit)}
	if after != nil {
		args[1], args[2] = after.ID, micros(after.ListTime())
	}
	answer, err := s.run(ctx, "list records of the queue", listScript, append(args, listed...)...)
	if err != nil {
		return nil, err
	}
	rows, err := answer.ToArray()
	if err != nil {
		return nil, fmt.Errorf("redis: list records of the queue: %w", err)
	}
	list := make([]*queue.Entry, 0, len(rows))
	for _, row := range rows {
		values, err := row.AsStrSlice()
		if err != nil || len(values) != len(listed) {
			return nil, errors.Join(errForm, err)
		}
		hash := map[string]string{}
		for i, name := range listed {
			hash[name] = values[i]
		}
		e, _, err := parse(hash)
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

// Stats implements queue.Records. The oldest record of a rule is found among the 1,000 oldest of all.
func (s *Storage) Stats(ctx context.Context) (map[string]queue.Stats, error) {
	answer, err := s.run(ctx, "count the records of the queue", statsScript)
	if err != nil {
		return nil, err
	}
	parts, err := answer.ToArray()
	if err != nil || len(parts) != 2 {
		return nil, errors.Join(errForm, err)
	}
	numbers, err1 := parts[0].AsIntMap()
	oldest, err2 := parts[1].AsStrSlice()
	if err := errors.Join(err1, err2); err != nil {
		return nil, errors.Join(errForm, err)
	}
	stats := map[string]queue.Stats{}
	for field, n := range numbers {
		what, rule, _ := strings.Cut(field, " ")
		one := stats[rule]
		switch what {
		case "waiting":
			one.Waiting = int(n)
		case "dead":
			one.Dead = int(n)
		case "kept":
			one.Kept = int(n)
		case "bytes":
			one.Bytes = n
		}
		stats[rule] = one
	}
	for i := 0; i+1 < len(oldest); i += 2 {
		one, made := stats[oldest[i]], timeOf(oldest[i+1])
		if one.Oldest.IsZero() || made.Before(one.Oldest) {
			one.Oldest = made
			stats[oldest[i]] = one
		}
	}
	return stats, nil
}
