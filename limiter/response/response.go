// Package response turns a verdict into what a client gets: the limits in header fields, the
// delay of a request, and the body of a refusal. Middleware and servers of all protocols share it.
package response

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

// Namer names limits.
type Namer interface {
	// Name returns the name that clients see of a limit, and the limit as it is configured.
	Name(a *limiter.Asked) (string, *stint.Limit)
}

// Presets returns a list of header presets as a set.
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

// Policies lists the limits that took part in a verdict, as clients see them, in the memory of
// list, and returns the index of the one that denied, -1 if none did. silent are the presets of
// rules that name none.
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

// Policy returns the name that clients see of what decided: the list that matched the request, the
// limit that denied it, or the limit nearest to denying; "" if none applied.
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

// Delay waits as long as the verdict delays the request, and returns 0. If ctx ends earlier, Delay
// gives the units back and returns the rest of the delay. If the deadline of ctx is before the end
// of the delay, it does so at once. The error is that of giving back.
func Delay(ctx context.Context, l *limiter.Limiter, v *limiter.Verdict) (left time.Duration, err error) {
	if v.Delay <= 0 {
		return 0, nil
	}
	ready := time.Now().Add(v.Delay)
	if deadline, ok := ctx.Deadline(); (!ok || ready.Before(deadline)) && system.Wait(ctx, v.Delay) {
		return 0, nil
	}
	undo, cancel := Afterwards(ctx)
	defer cancel()
	err = l.Undo(undo, v)
	return max(time.Until(ready), 1), err
}

// Settle charges the limits that count responses of this status, and gives the units reserved in
// the others back. It does so even if ctx has ended.
func Settle(ctx context.Context, l *limiter.Limiter, v *limiter.Verdict, status int) error {
	return l.Settle(ctx, v, status)
}

// Afterwards returns a context for work after a request, even if the request was canceled. It ends
// after one second.
func Afterwards(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), time.Second)
}

// DenyDelayed turns the verdict of a delayed request that cannot wait to the end into a denial by
// the limit that delayed it. left is the rest of the delay. It returns the index of that limit in
// policies.
func DenyDelayed(policies []web.Policy, v *limiter.Verdict, left time.Duration) (denied int) {
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

// DenialNumbers returns the numbers that the template of a denial may contain: those of the policy
// that denied.
func DenialNumbers(p *web.Policy) denial.Numbers {
	n := denial.Numbers{
		Rule: p.Name, Limit: p.Limit, Remaining: p.Remaining, RetryAfter: p.RetryAfter, ResetAfter: p.ResetAfter,
	}
	if p.RetryAfter != stint.Never {
		n.Renewal = p.At.Time().Add(p.RetryAfter)
	}
	return n
}

// StoreUnavailable reports whether a failure policy denied the request since the store could not
// decide. A denial by a limit, or by this node's share of one, is none.
func StoreUnavailable(v *limiter.Verdict) bool { return v.Reason() == limiter.ReasonUnavailable }
