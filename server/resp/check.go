package resp

import (
	"fmt"
	"unsafe"

	"stint"
	"stint/limiter"
	"stint/rule"
	"stint/server/access"
)

// Faults of the commands that ask by rules.
const (
	errDomain  = "ERR the domain is empty or too long: name a domain of the rule file"
	errPairs   = "ERR the number of pairs is not right: write STINT.CHECK domain n key value ... [COST c], with n pairs of key and value"
	errMany    = "ERR the number of descriptors is not right: write STINT.MCHECK domain m n key value ... [COST c] n key value ... [COST c], with m descriptors"
	errCost    = "ERR the cost is not a number from 0 to 4294967295"
	errTooLong = "ERR a key or a value is too long"
)

// asking is a request by rules that is being read from arguments.
type asking struct {
	c    *desk
	args [][]byte
}

// begin begins a request of a domain. It returns an error for the client, "" if there is none.
func (c *desk) begin(args [][]byte) (a asking, fault string) {
	c.req = limiter.Request{Domain: text(args[1]), Descriptors: c.req.Descriptors[:0]}
	c.entries = c.entries[:0]
	if n := len(args[1]); n == 0 || n > limiter.MaxKey {
		return a, errDomain
	}
	return asking{c, args[2:]}, ""
}

// text returns b as a string that is valid as long as b.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// descriptor reads n key value ... [COST c], and adds the descriptor to the request.
func (a *asking) descriptor() (fault string) {
	if len(a.args) == 0 {
		return errPairs
	}
	n, valid := parseInt(a.args[0])
	if !valid || n < 1 || n > limiter.MaxEntries || int64(len(a.args)) < 1+2*n {
		return errPairs
	}
	from := len(a.c.entries)
	for i := range int(n) {
		key, value := a.args[1+2*i], a.args[2+2*i]
		if len(key) > limiter.MaxKey || len(value) > limiter.MaxValue {
			return errTooLong
		}
		a.c.entries = append(a.c.entries, rule.Entry{Key: text(key), Value: text(value)})
	}
	d := limiter.Descriptor{Entries: a.c.entries[from:len(a.c.entries):len(a.c.entries)], Cost: 1}
	a.args = a.args[1+2*n:]
	if len(a.args) >= 2 && equal(a.args[0], "COST") {
		cost, valid := parseInt(a.args[1])
		if !valid || cost < 0 || cost > 1<<32-1 {
			return errCost
		}
		d.Cost = uint32(cost)
		a.args = a.args[2:]
	}
	a.c.req.Descriptors = append(a.c.req.Descriptors, d)
	return ""
}

// one reads a request of one descriptor. It reports whether there is one, else it has answered.
func (c *desk) one(args [][]byte) bool {
	a, fault := c.begin(args)
	if fault == "" {
		fault = a.descriptor()
	}
	if fault == "" && len(a.args) > 0 {
		fault = errPairs
	}
	if fault != "" {
		c.out.fail(fault)
	}
	return fault == ""
}

// decide decides the request, or answers why it cannot.
func (c *desk) decide() bool {
	if err := c.server.limiter.Decide(c.server.ctx, &c.req, &c.verdict); err != nil {
		c.out.fail(noDecision(err))
		return false
	}
	return true
}

// check is STINT.CHECK domain n key value ... [COST c].
func (c *desk) check(args [][]byte) {
	if c.one(args) {
		c.answer()
	}
}

// answer decides a request of one descriptor, and answers it.
func (c *desk) answer() {
	if c.decide() {
		v := &c.verdict
		c.out.object(decisionFields)
		c.decision(c.nameOf(v.Rule), &v.Decision, v.Unmatched, v.Reason())
	}
}

// peek is STINT.PEEK domain n key value ...: what STINT.CHECK would see, without taking anything.
func (c *desk) peek(args [][]byte) {
	if !c.one(args) {
		return
	}
	c.req.Descriptors[0].Cost = 0
	c.answer()
}

// checkMany is STINT.MCHECK domain m n key value ... [COST c] ...: m descriptors that are decided as
// one.
func (c *desk) checkMany(args [][]byte) {
	a, fault := c.begin(args)
	m, valid := parseInt(args[2])
	if fault == "" && (!valid || m < 1 || m > limiter.MaxDescriptors) {
		fault = errMany
	}
	if fault == "" {
		a.args = a.args[1:]
		for i := int64(0); i < m && fault == ""; i++ {
			fault = a.descriptor()
		}
	}
	if fault == errPairs || fault == "" && len(a.args) > 0 {
		fault = errMany
	}
	if fault != "" {
		c.out.fail(fault)
		return
	}
	if !c.decide() {
		return
	}
	v := &c.verdict
	c.out.object(decisionFields + 1)
	c.decision(c.nameOf(v.Rule), &v.Decision, v.Unmatched, v.Reason())
	c.out.text("results")
	c.out.array(len(v.Results))
	for i := range v.Results {
		r := &v.Results[i]
		c.out.object(decisionFields)
		c.decision(c.nameOf(r.Rule), &r.Decision, r.Unmatched, v.ReasonOf(i))
	}
}

// nameOf returns the name of the rule or list that decided; "" if none did.
func (c *desk) nameOf(r *rule.Rule) string {
	switch {
	case r != nil:
		return r.Name
	case c.verdict.Listed != nil:
		return c.verdict.Listed.Name
	}
	return ""
}

// decisionFields is how many fields decision appends.
const decisionFields = 11

// decision appends the fields of a decision, by the names that /v1/check has.
func (c *desk) decision(rule string, d *stint.Decision, unmatched bool, reason limiter.Reason) {
	out := &c.out
	if f := &c.front; f.version != out.version || f.allowed != d.Allowed || f.limit != d.Limit || string(f.text[f.from:f.to]) != rule {
		f.set(out.version, rule, d)
	}
	out.buf = append(out.buf, c.front.text...)
	out.units(d.Remaining)
	if d.RetryAfter == 0 {
		out.buf = append(out.buf, "$14\r\nretry_after_ms\r\n:0\r\n$14\r\nreset_after_ms\r\n"...)
	} else {
		out.text("retry_after_ms")
		out.millis(d.RetryAfter)
		out.text("reset_after_ms")
	}
	out.millis(d.ResetAfter)
	if d.Delay == 0 && !d.Degraded && !d.Over && !unmatched {
		out.buf = append(out.buf, usual[out.version-2]...)
	} else {
		out.rest(d, unmatched)
	}
	if reason == "" {
		out.null()
		return
	}
	out.text(string(reason))
}

// rest appends the fields of a decision from the delay on, up to the name of the reason.
func (r *reply) rest(d *stint.Decision, unmatched bool) {
	r.text("delay_ms")
	r.millis(d.Delay)
	r.text("degraded")
	r.truth(d.Degraded)
	r.text("over")
	r.truth(d.Over)
	r.text("matched")
	r.truth(!unmatched)
	r.text("reason")
}

// usual is the rest of most decisions, in version 2 and 3 of the protocol.
var usual [2]string

func init() {
	for i := range usual {
		r := reply{version: 2 + i}
		r.rest(new(stint.Decision), false)
		usual[i] = string(r.buf)
	}
}

// front is the beginning of the fields of a decision, up to the name of remaining. It is the same for most decisions that a client
// gets one after another.
type front struct {
	version  int // 0: nothing is set
	allowed  bool
	limit    int64
	text     []byte
	from, to int // where text has the name of the rule
}

// set sets the front of a decision.
func (f *front) set(version int, rule string, d *stint.Decision) {
	r := reply{f.text[:0], version}
	r.text("allowed")
	r.truth(d.Allowed)
	r.text("rule")
	r.text(rule)
	f.to = len(r.buf) - 2
	r.text("limit")
	r.units(d.Limit)
	r.text("remaining")
	*f = front{version, d.Allowed, d.Limit, r.buf, f.to - len(rule), f.to}
}

// inspect is STINT.INSPECT domain n key value ...: the state of every limit that applies.
func (c *conn) inspect(args [][]byte) {
	if !c.may(access.Read, "STINT.INSPECT") || !c.one(args) {
		return
	}
	c.req.Descriptors[0].Cost = 0
	if !c.decide() {
		return
	}
	c.out.array(len(c.verdict.Asked))
	for i := range c.verdict.Asked {
		a := &c.verdict.Asked[i]
		c.out.object(7)
		c.out.text("rule")
		c.out.text(ruleName(a))
		c.out.text("shadow")
		c.out.truth(a.Rule != nil && a.Rule.Shadow)
		c.out.text("limit")
		c.out.units(a.Limit)
		c.out.text("used")
		c.out.units(used(a))
		c.out.text("remaining")
		c.out.units(a.Remaining)
		c.out.text("reset_after_ms")
		c.out.millis(a.ResetAfter)
		c.out.text("degraded")
		c.out.truth(a.Degraded)
	}
}

func ruleName(a *limiter.Asked) string {
	if a.Rule == nil {
		return ""
	}
	return a.Rule.Name
}

// used returns how many units of a limit are used; NoLimit if it is unlimited.
func used(a *limiter.Asked) int64 {
	if a.Limit == stint.NoLimit {
		return stint.NoLimit
	}
	return a.Limit - a.Remaining
}

// resetLimits is STINT.RESET domain n key value ...: every limit that applies begins anew for the
// key. It answers how many there are.
func (c *conn) resetLimits(args [][]byte) {
	if !c.may(access.Support, "STINT.RESET") || !c.one(args) {
		return
	}
	c.req.Descriptors[0].Cost = 0
	if !c.decide() {
		return
	}
	for i := range c.verdict.Asked {
		if err := c.noteReset(&c.verdict.Asked[i]); err != nil {
			c.out.fail(fmt.Sprintf("ERR nothing was reset: %s", err))
			return
		}
	}
	c.req.Op = stint.Reset
	if c.decide() {
		c.out.number(int64(len(c.verdict.Asked)))
	}
}

func (c *conn) noteReset(a *limiter.Asked) error {
	if c.server.options.OnReset == nil {
		return nil
	}
	r := Reset{Context: c.server.ctx, Caller: c.caller, Peer: c.peer, Rule: ruleName(a), Key: c.req.Descriptors[0].Entries}
	if units := used(a); units != stint.NoLimit {
		limit, remaining := a.Limit, a.Remaining
		r.Before = State{&limit, &units, &remaining}
	}
	return c.server.options.OnReset(r)
}
