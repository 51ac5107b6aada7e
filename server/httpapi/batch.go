package httpapi

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"stint"
	"stint/internal/jsonbody"
	"stint/limiter"
	"stint/server/httpapi/limitjson"
)

// MaxChecks is the most checks of a batch, and MaxBatchDescriptors the most descriptors of all of them:
// each has its part of the answer, which is longer than the shortest descriptor.
const (
	MaxChecks           = 1000
	MaxBatchDescriptors = 5000
)

// leastCheck is the shortest check in a batch, in bytes.
const leastCheck = len(`{"key":"a","limit":{"unlimited":true}},`)

// check is a check of a batch: a question in little memory.
type check struct {
	domain      string
	descriptors []limiter.Descriptor
	key         string
	limit       *stint.Limit
	op          stint.Op
}

// small returns the question as a check that does not use its memory.
func (q *question) small() check {
	c := check{q.req.Domain, slices.Clone(q.req.Descriptors), q.key, q.limit, q.req.Op}
	for i := range c.descriptors {
		c.descriptors[i].Entries = slices.Clone(c.descriptors[i].Entries)
	}
	return c
}

// put sends the check to l, as part of the call with an ID.
func (c *check) put(ctx context.Context, l *limiter.Limiter, w *work, id string) error {
	w.question.req = limiter.Request{Domain: c.domain, Descriptors: c.descriptors, Op: c.op, ID: id}
	w.question.key, w.question.limit = c.key, c.limit
	err := w.question.put(ctx, l, &w.verdict)
	w.question.req.Descriptors = nil
	return err
}

// many decodes the checks of a batch.
func (q *question) many(s *jsonbody.Scanner, limits *limitjson.Cache, may form) *jsonbody.Fault {
	switch may {
	case oneCheck:
		return jsonbody.BadAt(s.Pos, "a batch", "ask "+CheckPath+" for many at once; here give one check")
	case ofABatch:
		return jsonbody.BadAt(s.Pos, "a batch within a batch", "give all checks in one list")
	}
	var one question
	q.checks = make([]check, 0, min(jsonbody.Objects(s.Data)[3], MaxChecks, len(s.Data)/leastCheck+1))
	descriptors := 0
	n, f := s.Array(func(i int) *jsonbody.Fault {
		if i >= MaxChecks {
			return jsonbody.BadAt(s.Pos, fmt.Sprintf("more than %d checks", MaxChecks), "send several batches")
		}
		f := one.object(s, limits, ofABatch)
		if f != nil {
			return f
		}
		if descriptors += len(one.req.Descriptors); descriptors > MaxBatchDescriptors {
			return jsonbody.BadAt(s.Pos, fmt.Sprintf("more than %d descriptors in all checks", MaxBatchDescriptors), "send several batches")
		}
		q.checks = append(q.checks, one.small())
		return nil
	})
	if f == nil && n == 0 {
		f = jsonbody.BadAt(s.Pos, "empty", "give at least one check")
	}
	return f
}

// serveMany decides the checks of a batch, each by itself: one after another, or all at the same time
// if the store decides calls together that arrive together. A check without a decision has an error
// in its place.
func (t *Traffic) serveMany(ctx context.Context, checks []check, id string, resp *Response) {
	var answers [][]byte
	if t.together {
		answers = t.manyTogether(ctx, checks, id)
	}
	resp.Status = 200
	resp.Fields = append(resp.Fields, Field{"Content-Type", "application/json"})
	resp.Body = append(resp.Body, `{"checks":[`...)
	for i := range checks {
		if i > 0 {
			resp.Body = append(resp.Body, ',')
		}
		if t.together {
			resp.Body = append(resp.Body, answers[i]...)
			answers[i] = nil
		} else {
			resp.Body = t.appendCheck(ctx, resp.Body, &checks[i], id)
		}
		resp.Body = resp.Body[:len(resp.Body)-1] // without the line end
	}
	resp.Body = append(resp.Body, "]}\n"...)
}

// manyTogether decides checks at the same time, and returns their answers.
func (t *Traffic) manyTogether(ctx context.Context, checks []check, id string) [][]byte {
	answers := make([][]byte, len(checks))
	var all sync.WaitGroup
	for i := range checks {
		all.Go(func() { answers[i] = t.appendCheck(ctx, nil, &checks[i], id) })
	}
	all.Wait()
	return answers
}

// appendCheck decides a check of a batch and appends the answer to it, with a line end.
func (t *Traffic) appendCheck(ctx context.Context, dst []byte, c *check, id string) []byte {
	w := t.questions.Get().(*work)
	defer func() {
		if len(c.descriptors) <= keptDescriptors {
			t.questions.Put(w)
		}
	}()
	if err := c.put(ctx, t.limiter, w, id); err != nil {
		return noDecision(err).Append(dst)
	}
	return limitjson.AppendVerdict(dst, &w.verdict, c.op == stint.AskAtMost)
}
