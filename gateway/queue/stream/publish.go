package stream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"stint/gateway/queue"
	"stint/store/redis/connect"
)

// maxAnswer is how many bytes of the body of a reported answer are kept.
const maxAnswer = 64 << 10

// Publisher publishes the records of a storage for other programs, which send them. See docs/queue.md for the
// format.
type Publisher struct {
	*Storage

	// Seal encrypts a reported answer. Nil: it is stored in clear.
	Seal func(id string, answer []byte) []byte
}

// Publish appends records to the stream whose time has come, and stores the results that were reported.
func (p *Publisher) Publish(ctx context.Context) error {
	answer, err := p.run(ctx, "publish records of the queue", publishScript)
	if err != nil {
		return err
	}
	results, err := answer.AsXRange()
	if err != nil {
		return errors.Join(errForm, err)
	}
	var faults error
	for _, r := range results {
		err := p.conclude(ctx, r.FieldValues)
		if err != nil && !errors.Is(err, errResult) {
			return errors.Join(faults, err) // it stays, and is read again
		}
		faults = errors.Join(faults, err)
		if err := p.drop(ctx, r.ID); err != nil {
			return errors.Join(faults, err)
		}
	}
	return faults
}

// errResult is the error about a result that says nothing about a record.
var errResult = errors.New("a result that was reported for a record of the queue was dropped")

// conclude stores a result.
func (p *Publisher) conclude(ctx context.Context, fields map[string]string) error {
	id, result := fields["id"], fields["result"]
	change, err := p.changeOf(id, fields)
	if err != nil {
		return err
	}
	err = p.Change(ctx, id, func(e *queue.Entry) error {
		if !e.State.Unfinished() {
			return fmt.Errorf("%w: record %q is %s already", errResult, id, e.State)
		}
		e.Tries++
		change(e)
		return nil
	})
	if errors.Is(err, queue.ErrUnknown) {
		return fmt.Errorf("%w: result %q for the record %q: %w", errResult, result, id, err)
	}
	return err
}

// changeOf returns what a result changes.
func (p *Publisher) changeOf(id string, fields map[string]string) (func(*queue.Entry), error) {
	now := time.Now()
	if p.now != nil {
		now = p.now()
	}
	end := func(s queue.State, answer []byte) func(*queue.Entry) {
		return func(e *queue.Entry) {
			e.State, e.Ended, e.At, e.Claimer, e.Reason, e.Answer = s, now, now.Add(e.Keep), "", fields["reason"], answer
		}
	}
	switch fields["result"] {
	case "retry":
		ms, err := strconv.ParseInt(fields["after_ms"], 10, 64)
		if err != nil || ms < 0 {
			ms = time.Second.Milliseconds()
		}
		at := now.Add(time.Duration(ms) * time.Millisecond)
		return func(e *queue.Entry) { e.State, e.At, e.Claimer, e.Reason = queue.Waiting, at, "", fields["reason"] }, nil
	case "dead":
		return end(queue.Dead, nil), nil
	case "failed":
		return end(queue.Failed, nil), nil
	case "done":
		answer, err := p.answer(id, fields)
		if err != nil {
			return nil, fmt.Errorf("%w: record %q: %w", errResult, id, err)
		}
		return end(queue.Done, answer), nil
	}
	return nil, fmt.Errorf("%w: record %q: result %q; write done, retry, failed or dead", errResult, id, fields["result"])
}

// answer returns the stored form of a reported answer.
func (p *Publisher) answer(id string, fields map[string]string) ([]byte, error) {
	status, err := strconv.Atoi(fields["status"])
	if err != nil || status < 200 || status > 599 {
		return nil, fmt.Errorf("status %q; write 200 to 599", fields["status"])
	}
	header, err := queue.ParseAnswerHeader(fields["header"])
	if err != nil {
		return nil, err
	}
	body := fields["body"]
	a := &queue.Answer{Status: status, Header: header, Truncated: len(body) > maxAnswer, Body: []byte(body[:min(len(body), maxAnswer)])}
	data, err := a.Encode()
	if err == nil && p.Seal != nil {
		data = p.Seal(id, data)
	}
	return data, err
}

func (p *Publisher) drop(ctx context.Context, entry string) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	client, err := p.link.Client(ctx)
	if err != nil {
		return connect.Explain("connect", err)
	}
	if err := client.Do(ctx, client.B().Xdel().Key(p.prefix+"results").Id(entry).Build()).Error(); err != nil && !rueidis.IsRedisNil(err) {
		return connect.Explain("drop a result of the queue", err)
	}
	return nil
}
