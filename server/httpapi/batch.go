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

// MaxChecks is the most checks of a batch.
const MaxChecks = 1000

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
	n, f := s.Array(func(i int) *jsonbody.Fault {
		if i >= MaxChecks {
			return jsonbody.BadAt(s.Pos, fmt.Sprintf("more than %d checks", MaxChecks), "send several batches")
		}
		f := one.object(s, limits, ofABatch)
		if f == nil {
			q.checks = append(q.checks, one.small())
		}
		return f
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
	answers := make([][]byte, len(checks))
	decide := func(i int) {
		w := t.questions.Get().(*work)
		defer func() {
			if len(checks[i].descriptors) <= keptDescriptors {
				t.questions.Put(w)
			}
		}()
		if err := checks[i].put(ctx, t.limiter, w, id); err != nil {
			answers[i] = noDecision(err).Append(nil)
			return
		}
		answers[i] = appendVerdict(nil, &w.verdict, checks[i].op == stint.AskAtMost)
	}
	var all sync.WaitGroup
	for i := range checks {
		if t.together {
			all.Go(func() { decide(i) })
			continue
		}
		decide(i)
	}
	all.Wait()
	resp.Status = 200
	resp.Fields = append(resp.Fields, Field{"Content-Type", "application/json"})
	resp.Body = append(resp.Body, `{"checks":[`...)
	for i, a := range answers {
		if i > 0 {
			resp.Body = append(resp.Body, ',')
		}
		resp.Body = append(resp.Body, a[:len(a)-1]...) // without the line end
	}
	resp.Body = append(resp.Body, "]}\n"...)
}
