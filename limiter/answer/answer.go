// Package answer is what the middlewares of all protocols make of a verdict: the
// limits that a client is told of, and the wait of a request that is delayed.
package answer

import (
	"context"
	"time"

	"stint"
	"stint/internal/system"
	"stint/internal/web"
	"stint/limiter"
	"stint/rule"
	"stint/rule/denial"
)

// Namer knows how users call a limit that was asked, and its plain numbers.
type Namer interface {
	Name(a *limiter.Asked) (string, *stint.Limit)
}

// Presets returns the set of a list of presets.
func Presets(list []rule.Preset) web.Presets {
	var set web.Presets
	for _, p := range list {
		switch p {
		case rule.IETF:
			set |= web.IETF
		case rule.Legacy:
			set |= web.Legacy
		case rule.Draft03:
			set |= web.Draft03
		case rule.None:
		}
	}
	return set
}

// Policies lists the limits that have a part in the verdict as the outside sees
// them, in the memory of list, and returns which one denied; -1 if none did. silent
// are the presets of rules that name none.
func Policies(list []web.Policy, v *limiter.Verdict, silent web.Presets, names Namer) (policies []web.Policy, denied int) {
	list, denied = list[:0], -1
	for i := range v.Asked {
		a := &v.Asked[i]
		set := silent
		if a.Rule != nil {
			// One of several quotas denies only with all the others.
			if a.Rule.Shadow || a.Rule.Quota && a.Rule != v.Rule {
				continue
			}
			if a.Rule.Headers != nil {
				set = Presets(a.Rule.Headers)
			}
		}
		name, limit := names.Name(a)
		list = append(list, web.PolicyOf(name, set, limit, &a.Decision))
		if denied < 0 && !v.Allowed && !a.Allowed && a.Rule == v.Rule && a.RetryAfter == v.RetryAfter {
			denied = len(list) - 1
		}
	}
	return list, denied
}

// Policy returns how users call what decided: the list that the request is in, the
// limit that denied it, or the one nearest to denying; "" where none applied.
func Policy(v *limiter.Verdict, names Namer) string {
	switch {
	case v.Listed != nil:
		return v.Listed.Name
	case v.Rule != nil:
		return v.Rule.Name
	case len(v.Asked) > 0 && v.Asked[0].Rule == nil:
		name, _ := names.Name(&v.Asked[0])
		return name
	}
	return ""
}

// Hold waits for as long as the verdict delays the request. It returns how much of
// that is left: nothing, or, where ctx ends before, more, and then what was taken is
// given back. A deadline that comes before the end of the wait is not waited for.
// The error says that giving back failed.
func Hold(ctx context.Context, l *limiter.Limiter, v *limiter.Verdict) (left time.Duration, err error) {
	if v.Delay <= 0 {
		return 0, nil
	}
	ready := time.Now().Add(v.Delay)
	if deadline, ok := ctx.Deadline(); (!ok || ready.Before(deadline)) && system.Wait(ctx, v.Delay) {
		return 0, nil
	}
	undo, cancel := after(ctx)
	defer cancel()
	err = l.Undo(undo, v)
	return max(time.Until(ready), 1), err
}

// Settle charges the limits that count answers of that status, and gives the others
// back what the request reserved. It does so even if ctx has ended, and the error says
// that it failed.
func Settle(ctx context.Context, l *limiter.Limiter, v *limiter.Verdict, status int) error {
	settle, cancel := after(ctx)
	defer cancel()
	return l.Settle(settle, v, status)
}

// after returns a context for what has to be done after a request, whether or not it
// has ended: one second.
func after(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), time.Second)
}

// TurnAway makes a refusal of a request that could not be held to the end, by the
// limit that held it, and returns which of the policies that is.
func TurnAway(policies []web.Policy, v *limiter.Verdict, left time.Duration) (denied int) {
	for i := range v.Asked {
		if a := &v.Asked[i]; a.Delay == v.Delay && (a.Rule == nil || !a.Rule.Shadow) {
			v.Rule = a.Rule
			break
		}
	}
	for i := range policies {
		if policies[i].Delay == v.Delay {
			denied = i
			break
		}
	}
	p := &policies[denied]
	p.Allowed, p.RetryAfter, p.More = false, left, left
	v.Allowed, v.RetryAfter, v.Delay = false, left, 0
	return denied
}

// Numbers returns what the body of a rule's own denial may say: the numbers of the
// policy that denied.
func Numbers(p *web.Policy) denial.Numbers {
	n := denial.Numbers{
		Rule: p.Name, Limit: p.Limit, Remaining: p.Remaining, RetryAfter: p.RetryAfter, ResetAfter: p.ResetAfter,
	}
	if p.RetryAfter != stint.Never {
		n.Renewal = p.At.Time().Add(p.RetryAfter)
	}
	return n
}

// Unavailable says whether a failure policy denied the request because its limit could
// not be asked, rather than a limit or the share of one.
func Unavailable(v *limiter.Verdict) bool {
	if v.Allowed || !v.Degraded {
		return false
	}
	for i := range v.Asked {
		if a := &v.Asked[i]; a.Rule == v.Rule && a.Degraded && !a.Allowed {
			return a.Rule == nil || a.Rule.Local == nil
		}
	}
	return false
}
