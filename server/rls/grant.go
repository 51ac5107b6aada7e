package rls

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"time"

	"stint"
	"stint/limiter"
	"stint/rule"
)

// grant charges the limits of an allowed request for up to Options.Grant-1 further requests, and
// sets the grant of each status. It does nothing if a descriptor has a cost other than 1 or gives
// units back, because then it is unclear what one more request costs.
func (h *Handler) grant(ctx context.Context, c *Call) {
	most := int64(h.options.Grant - 1)
	for i := range c.request.Descriptors {
		d := &c.request.Descriptors[i]
		if d.Cost != 1 || d.Refund {
			return
		}
		if r := &c.verdict.Results[i]; r.Limit != stint.NoLimit {
			most = min(most, r.Remaining)
		}
	}
	if c.verdict.Delay > 0 || c.verdict.Degraded || c.verdict.Limit == stint.NoLimit {
		return
	}
	if c.more == nil {
		c.more = new(limiter.Verdict)
	}
	granted := &c.verdict
	if most > 0 {
		for i := range c.request.Descriptors {
			c.request.Descriptors[i].Cost = uint32(most)
		}
		if err := h.limiter.Decide(ctx, &c.request, c.more); err != nil || !c.more.Allowed {
			most = 0 // other requests used the units first
		} else {
			granted = c.more
		}
	}
	for i := range granted.Results {
		r := &granted.Results[i]
		if r.Limit == stint.NoLimit || !r.Allowed {
			continue
		}
		s := &c.response.statuses[i]
		s.remaining = uint32(min(r.Remaining, math.MaxUint32))
		s.grant = grant{
			requests: uint32(most) + 1,
			until:    r.At.Add(max(r.ResetAfter, time.Millisecond)),
			id:       c.bucket(i),
		}
	}
}

// bucket returns an ID for the bucket of a descriptor. Descriptors that share a bucket have the
// same ID, and the ID does not reveal values of the request.
func (c *Call) bucket(i int) string {
	d := &c.request.Descriptors[i]
	sum := sha256.New()
	switch r := c.verdict.Results[i].Rule; {
	case r == nil:
		sum.Write(limiter.AppendOwnKey(nil, c.request.Domain, d))
	case len(r.Path) > 0:
		sum.Write(r.AppendKey(nil, d.Entries))
	default: // a rule per API: which entries select its bucket is unknown here
		sum.Write(rule.AppendEntry(nil, r.Domain, r.Name))
		for _, e := range d.Entries {
			sum.Write(rule.AppendEntry(nil, e.Key, e.Value))
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:12])
}
