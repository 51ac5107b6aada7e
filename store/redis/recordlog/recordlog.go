package recordlog

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"stint"
	"stint/records/replication"
	"stint/store/redis/connect"
)

//go:embed lua/*.lua
var sources embed.FS

// The scripts.
var (
	readScript    = script("read")
	appendScript  = script("append")
	restoreScript = script("restore")
	beatScript    = script("beat")

	// appendLarge is appendScript for large entries: it is always sent with its text. A server that does not know
	// a script would have to be sent the entry twice.
	appendLarge = rueidis.NewLuaScriptNoSha(source("append"))
)

func script(name string) *rueidis.Lua { return rueidis.NewLuaScript(source(name)) }

func source(name string) string {
	text, err := sources.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic("stint: " + err.Error()) // the files are embedded in the program
	}
	return string(text)
}

const (
	// callTimeout is how long one call may take, beside the time that it waits for an entry, and largeTimeout a
	// call that sends a large entry, or reads one.
	callTimeout  = time.Second
	largeTimeout = callTimeout + replication.MaxSendTime

	// large is from how many bytes on an entry is large.
	large = 64 << 10

	// readMost is the most entries that Read returns, and readBytes the most bytes of data, but for the
	// last entry. So the server is not busy for long, and nodes need little memory.
	readMost  = 64
	readBytes = 1 << 20

	// pageSize is about how many keys of the state one call reads or writes.
	pageSize = 200

	// lease is after how long without a page another node may restore.
	lease = 10 * time.Second

	// forgetAfter is after how long without a sign of life a node is forgotten.
	forgetAfter = 24 * time.Hour
)

// The bounds of the log. A node that was away for more entries reads the whole state.
const (
	maxEntries = 10_000
	maxBytes   = 64 << 20 // data of all entries
)

// Log is a [replication.Log] in Redis (6.2 and later) or Valkey. It is safe for concurrent use. It connects
// at its first call and again after a connection was lost, so it can be opened before its server
// starts. No call takes much longer than a second, except Read, State, and Append of a large entry.
type Log struct {
	link connect.Link

	// largeLink is for what takes long: a connection of link counts as lost after two seconds without an answer.
	largeLink connect.Link

	// tooLarge means that the last read took long, so that the next one is over largeLink at once.
	tooLarge atomic.Bool

	head, entries, state, nodes, lock, restored string // keys

	maxEntries, maxBytes int
}

var _ replication.Log = (*Log)(nil)

// Open returns the log of a namespace on the server or servers of a URL, as in redis.Open. It does not
// connect. The error is a [*connect.URLError].
func Open(url, namespace string) (*Log, error) {
	target, err := connect.ParseURL(url)
	if err != nil {
		return nil, err
	}
	key := func(name string) string { return namespace + ":{records}:" + name }
	patient := target
	patient.ConnWriteTimeout = largeTimeout
	return &Log{
		link: connect.Link{Target: target}, largeLink: connect.Link{Target: patient},
		head: key("head"), entries: key("log"), state: key("state"), nodes: key("nodes"), lock: key("restore"), restored: key("restored"),
		maxEntries: maxEntries, maxBytes: maxBytes,
	}, nil
}

// Close closes all connections. Calls in flight fail.
func (l *Log) Close() {
	l.link.Close()
	l.largeLink.Close()
}

// slow is what to do about a call that took too long. How long it may take is no setting.
const slow = "check the server's load and the network"

// do calls a function with the client of a link, and returns what it returns. It returns when ctx is done, even if
// the client still connects or waits; the function then ends later, and the error wraps stint.ErrUnknown. So the
// function must write nothing of its caller, who may have left.
func do[T any](ctx context.Context, link *connect.Link, doing string, timeout time.Duration, call func(context.Context, rueidis.Client) (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, &connect.Error{Doing: doing, Problem: "not sent: no time was left", Hint: slow, Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	client, err := link.Client(ctx)
	if err != nil {
		cancel()
		return none, connect.Explain("connect", err)
	}
	type answer struct {
		value T
		err   error
	}
	done := make(chan answer, 1)
	go func() {
		defer cancel()
		value, err := call(ctx, client)
		done <- answer{value, err}
	}()
	var got answer
	select {
	case got = <-done:
	case <-ctx.Done():
		select {
		case got = <-done: // both at once
		default:
			got.err = ctx.Err()
		}
	}
	if got.err == nil {
		return got.value, nil
	}
	if errors.Is(got.err, rueidis.ErrClosing) { // the answer also to what was sent already
		return none, &connect.Error{Doing: doing, Problem: "closed while it was under way", Err: errors.Join(stint.ErrUnknown, got.err)}
	}
	err = connect.Explain(doing, got.err)
	if fault, ok := errors.AsType[*connect.Error](err); ok && (errors.Is(fault, context.DeadlineExceeded) || errors.Is(fault, context.Canceled)) {
		fault.Hint = slow
	}
	return none, err
}

// doLarge is do for a call that may take largeTimeout. It makes it only if the server answers at once.
func doLarge[T any](ctx context.Context, l *Log, doing string, call func(context.Context, rueidis.Client) (T, error)) (T, error) {
	_, err := do(ctx, &l.largeLink, doing, callTimeout, func(ctx context.Context, c rueidis.Client) (none struct{}, err error) {
		if err = c.Do(ctx, c.B().Xread().Count(1).Streams().Key(l.entries).Id("$").Build()).Error(); rueidis.IsRedisNil(err) {
			err = nil
		}
		return none, err
	})
	if errors.Is(err, stint.ErrUnknown) {
		err = &connect.Error{Doing: doing, Problem: "not sent: the server does not answer", Hint: slow, Err: context.DeadlineExceeded}
	}
	if err != nil {
		var none T
		return none, err
	}
	return do(ctx, &l.largeLink, doing, largeTimeout, call)
}

// doSend is do for a call that sends so many bytes.
func doSend[T any](ctx context.Context, l *Log, doing string, size int, call func(context.Context, rueidis.Client) (T, error)) (T, error) {
	if size < large {
		return do(ctx, &l.link, doing, callTimeout, call)
	}
	return doLarge(ctx, l, doing, call)
}

// doRead is do for a call with an answer of unknown size: one that takes too long is repeated as a large one. So a
// server that does not answer is noticed after two seconds, and a large answer arrives nevertheless.
func doRead[T any](ctx context.Context, l *Log, doing string, call func(context.Context, rueidis.Client) (T, error)) (T, error) {
	if !l.tooLarge.Load() {
		began := time.Now()
		if answer, err := do(ctx, &l.link, doing, callTimeout, call); !tookTooLong(ctx, err, began, callTimeout) {
			return answer, err
		}
	}
	began := time.Now()
	answer, err := doLarge(ctx, l, doing, call)
	l.tooLarge.Store(err == nil && time.Since(began) >= callTimeout)
	return answer, err
}

// tookTooLong reports whether a call failed because it took too long, and not because the time of its caller ended.
func tookTooLong(ctx context.Context, err error, began time.Time, timeout time.Duration) bool {
	return err != nil && ctx.Err() == nil && time.Since(began) >= timeout
}

// Read implements replication.Log.
func (l *Log) Read(ctx context.Context, after uint64, wait time.Duration) (entries []replication.Entry, head replication.Head, err error) {
	if wait > 0 && !l.tooLarge.Load() {
		began := time.Now()
		_, err := do(ctx, &l.link, "wait for changes of records", wait+callTimeout, func(ctx context.Context, c rueidis.Client) (none struct{}, err error) {
			err = c.Do(ctx, c.B().Xread().Count(1).Block(wait.Milliseconds()).Streams().Key(l.entries).Id(number(after)+"-0").Build()).Error()
			if rueidis.IsRedisNil(err) {
				err = nil
			}
			return none, err
		})
		switch {
		case tookTooLong(ctx, err, began, wait+callTimeout): // the answer has an entry
			l.tooLarge.Store(true)
		case err != nil:
			return nil, head, err
		}
	}
	answer, err := doRead(ctx, l, "read changes of records", func(ctx context.Context, c rueidis.Client) ([]rueidis.RedisMessage, error) {
		return readScript.Exec(ctx, c, []string{l.head, l.entries, l.state}, []string{number(after), strconv.Itoa(readMost), strconv.Itoa(readBytes)}).ToArray()
	})
	if err == nil {
		entries, head, err = parseRead(answer)
	}
	return entries, head, err
}

// parseRead parses the answer of read.lua.
func parseRead(answer []rueidis.RedisMessage) (entries []replication.Entry, head replication.Head, err error) {
	if len(answer) != 3 {
		return nil, head, foreign("the head", errors.New("it has another form"))
	}
	if head, err = parseHead(answer[0], answer[1]); err != nil {
		return nil, head, err
	}
	list, err := answer[2].AsXRange()
	if err != nil {
		return nil, head, foreign("the log", err)
	}
	for _, one := range list {
		hash, err := replication.ParseHash(one.FieldValues["hash"])
		n, wrong := parseID(one.ID)
		if err = errors.Join(err, wrong); err != nil {
			return nil, head, foreign("entry "+one.ID, err)
		}
		entries = append(entries, replication.Entry{Number: n, Hash: hash, Data: []byte(one.FieldValues["data"])})
	}
	return entries, head, nil
}

// Append implements replication.Log.
func (l *Log) Append(ctx context.Context, after replication.Head, e *replication.Entry, writes []replication.Write, forget bool) (head replication.Head, err error) {
	args := make([]string, 0, 8+3*len(writes))
	drop := "0"
	if forget {
		drop = "1"
	}
	args = append(args, number(after.Number), hashOf(after), number(e.Number), e.Hash.String(), string(e.Data), drop, strconv.Itoa(l.maxEntries), strconv.Itoa(l.maxBytes))
	for i := range writes {
		there := "1"
		if writes[i].Deleted {
			there = "0"
		}
		args = append(args, string(writes[i].Key), there, string(writes[i].Value))
	}
	script := appendScript
	if len(e.Data) >= large {
		script = appendLarge
	}
	call := func(ctx context.Context, c rueidis.Client) ([]rueidis.RedisMessage, error) {
		// A connection that is made only now would delay the call beyond its end.
		return script.Exec(connect.NoDialContext{Context: ctx}, c, []string{l.head, l.entries, l.state, l.lock}, args).ToArray()
	}
	answer, err := doSend(ctx, l, "append a change of records", len(e.Data), call)
	if err != nil {
		return head, err
	}
	code := int64(-1)
	if len(answer) > 0 {
		code, _ = answer[0].AsInt64() // -1 if it is none
	}
	switch {
	case code == 1:
		return e.Head(), nil
	case code == 2:
		return head, &connect.Error{Doing: "append a change of records", Problem: replication.ErrRestoring.Error(), Hint: "try again in a moment", Err: replication.ErrRestoring}
	case code == 0 && len(answer) == 3:
		return parseHead(answer[1], answer[2])
	}
	return head, fmt.Errorf("%w: %w", stint.ErrUnknown, foreign("the answer", errors.New("it has another form")))
}

// State implements replication.Log.
func (l *Log) State(ctx context.Context, page func([]replication.Write) error) error {
	for cursor := uint64(0); ; {
		found, err := doRead(ctx, l, "read the records", func(ctx context.Context, c rueidis.Client) (rueidis.ScanEntry, error) {
			return c.Do(ctx, c.B().Hscan().Key(l.state).Cursor(cursor).Count(pageSize).Build()).AsScanEntry()
		})
		if err != nil {
			return err
		}
		writes := make([]replication.Write, 0, len(found.Elements)/2)
		for i := 0; i+1 < len(found.Elements); i += 2 {
			writes = append(writes, replication.Write{Key: []byte(found.Elements[i]), Value: []byte(found.Elements[i+1])})
		}
		if err := page(writes); err != nil {
			return err
		}
		if cursor = found.Cursor; cursor == 0 {
			return nil
		}
	}
}

// Restore implements replication.Log.
func (l *Log) Restore(ctx context.Context, instead, head replication.Head, pages iter.Seq2[[]replication.Write, error]) (done bool, err error) {
	token := rand()
	step := func(ctx context.Context, name string, args ...string) (bool, error) {
		all := append([]string{name, token, strconv.FormatInt(lease.Milliseconds(), 10)}, args...)
		size := 0
		for _, arg := range args {
			size += len(arg)
		}
		return doSend(ctx, l, "restore the records", size, func(ctx context.Context, c rueidis.Client) (bool, error) {
			return restoreScript.Exec(ctx, c, []string{l.head, l.entries, l.state, l.lock, l.restored}, all).AsBool()
		})
	}
	if ok, err := step(ctx, "begin"); err != nil || !ok {
		return false, err
	}
	defer func() {
		if !done { // the lease ends it otherwise
			_, _ = step(context.WithoutCancel(ctx), "cancel")
		}
	}()
	for page, err := range pages {
		if err != nil {
			return false, err
		}
		for len(page) > 0 {
			n := min(len(page), pageSize)
			args := make([]string, 0, 2*n)
			for i := range page[:n] {
				args = append(args, string(page[i].Key), string(page[i].Value))
			}
			if ok, err := step(ctx, "add", args...); err != nil || !ok {
				return false, err
			}
			page = page[n:]
		}
	}
	return step(ctx, "finish", number(instead.Number), hashOf(instead), number(head.Number), hashOf(head))
}

// Beat implements replication.Log.
func (l *Log) Beat(ctx context.Context, own replication.Node) (nodes []replication.Node, server time.Time, err error) {
	answer, err := do(ctx, &l.link, "compare the nodes", callTimeout, func(ctx context.Context, c rueidis.Client) ([]string, error) {
		return beatScript.Exec(ctx, c, []string{l.nodes}, []string{own.Name, number(own.Revision), strconv.FormatInt(forgetAfter.Milliseconds(), 10)}).AsStrSlice()
	})
	if err != nil {
		return nil, server, err
	}
	now := time.Now()
	if len(answer) == 0 {
		return nil, server, foreign("the list of nodes", errors.New("it has another form"))
	}
	ms, err := strconv.ParseInt(answer[0], 10, 64)
	if err != nil {
		return nil, server, foreign("the time", err)
	}
	for i := 1; i+2 < len(answer); i += 3 {
		revision, err := strconv.ParseUint(answer[i+1], 10, 64)
		age, wrong := strconv.ParseInt(answer[i+2], 10, 64)
		if err = errors.Join(err, wrong); err != nil {
			return nil, server, foreign("the list of nodes", err)
		}
		nodes = append(nodes, replication.Node{Name: answer[i], Revision: revision, Seen: now.Add(-time.Duration(age) * time.Millisecond)})
	}
	return nodes, time.UnixMilli(ms), nil
}
