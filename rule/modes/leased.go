package modes

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"stint"
	"stint/internal/limits"
	"stint/internal/text"
	"stint/rule"
	"stint/rule/audit"
)

// Leased returns for each leased rule how much may pass beyond its limit, and how much while the
// store is away.
func Leased(table *rule.Table) []audit.Finding {
	return each(table, rule.Leased, "leased", func(r *rule.Rule, f *audit.Finding) {
		stored := ofStore(r)
		away := map[rule.Failure]string{
			rule.Allow: "then everything passes, uncounted", rule.Deny: "then nothing passes",
			rule.Local: "then nothing passes, as the share is less than one request on each node",
		}[r.OnStoreFailure]
		if r.Terms.Own != nil {
			away = "then what each has to itself passes, however long; " + divided(r)
		}
		switch {
		case r.Mode() != rule.Leased:
			f.Text = "leased is decided strict here: every take asks the store, and nothing passes beyond the limit (E = 0); while the store is away " + awayByPolicy(r)
			f.Hint = "steady token_bucket and fixed_window of 8 and more can be leased, without overdraw, elastic and count: responses"
		case !stored.ForStores().Leasable():
			f.Text = fmt.Sprintf("leased: nothing passes beyond the limit (E = 0); what the store has is too little to lend, so after_loss does nothing: a restart of the store that loses no data changes nothing, and what a failover or a flush loses may pass once more, at most %d of each key; while the store is away %s", stored.Capacity(), strings.TrimPrefix(away, "then "))
			f.Hint = "lower local_share so that the store has 8 or more"
		case r.KeptAfterLoss:
			f.Text = fmt.Sprintf("leased: nothing passes beyond the limit (E = 0); %s; after_loss is kept: a restart of the store that loses no data changes nothing, and what a failover or a flush loses may pass once more, at most %d of each key; while the store is away nodes use up what they hold, %s", decidedStrict(stored), stored.Capacity(), away)
			f.Hint = "write after_loss: used_up if nothing may pass: then a restart, failover or flush counts every key as used up, " + whole(stored)
		default:
			f.Text = fmt.Sprintf("leased: nothing passes beyond the limit (E = 0); %s; after_loss is used_up: a restart, failover or flush of the store counts every key as used up, %s; while the store is away nodes use up what they hold, %s", decidedStrict(stored), whole(stored), away)
			f.Hint = "write after_loss: kept if a restart that loses no data must deny nobody: then what a failover or a flush loses may pass once more"
		}
	})
}

// ofStore returns the limit that the store has: without what each node has to itself.
func ofStore(r *rule.Rule) *stint.Limit {
	if r.Terms.Own != nil {
		return r.Terms.Rest
	}
	return r.Stored
}

// decidedStrict returns when the store decides takes of a leased limit as in strict mode, because
// messages about lent units would cost it more.
func decidedStrict(l *stint.Limit) string {
	if !l.ForStores().Lends() {
		return fmt.Sprintf("the store decides every take, as half of a quarter of %d is less than the %d units that are worth lending", l.Capacity(), stint.LeaseLeast)
	}
	few := fmt.Sprintf("the store decides takes of keys with fewer than %d takes a second on a node, and of keys whose lendable quarter, %d, is too little for all nodes that ask: a node that saves fewer than %d calls with each message stops asking for some time", stint.LeaseRate, l.Capacity()/stint.LeasePart, stint.LeaseSavings)
	if nodes, pause := limits.SharedBy(l, 1); nodes > 0 {
		few += fmt.Sprintf("; up to %d nodes share a key that is used up: each asks once in %s", nodes, text.ShortDuration(pause.Round(time.Millisecond)))
	}
	return few
}

// whole returns the time after which a key that counts as used up is full again.
func whole(l *stint.Limit) string {
	spec := l.Spec()
	if spec.Algorithm == stint.FixedWindow {
		return "until its window of " + period(&spec) + " ends"
	}
	return "whole again after " + text.ShortDuration(limits.RefillTime(l).Round(time.Millisecond))
}

// Strict returns for each strict rule how much may pass beyond its limit, and how much while the
// store is away.
func Strict(table *rule.Table) []audit.Finding {
	return each(table, rule.Strict, "strict", func(r *rule.Rule, f *audit.Finding) {
		f.Text = "strict: every take asks the store, and nothing passes beyond the limit (E = 0); while the store is away " + awayByPolicy(r)
		f.Hint = "on_store_failure says what then, and coordination how else nodes may agree"
	})
}

// divided returns how the units of a leased limit are divided between each process and the store.
func divided(r *rule.Rule) string {
	own, rest := r.Terms.Own, r.Terms.Rest
	whole := r.Limit.Spec()
	if whole.Algorithm == stint.FixedWindow {
		return fmt.Sprintf("each of %s has %d in any %s to itself at all times, and the store %d for all of them; no request of more than %d passes",
			text.Count(int(r.Nodes), "node"), own.Capacity(), period(&whole), rest.Capacity(), max(own.Capacity(), rest.Capacity()))
	}
	each := func(l *stint.Limit) string {
		s := l.Spec()
		return strconv.FormatFloat(math.Floor(float64(s.Requests)*float64(whole.Per)/float64(s.Per)*100+1e-6)/100, 'f', -1, 64)
	}
	return fmt.Sprintf("each of %s has %d at once and %s in each %s to itself at all times, and the store %d and %s for all of them; no request of more than %d passes",
		text.Count(int(r.Nodes), "node"), own.Capacity(), each(own), period(&whole), rest.Capacity(), each(rest), max(own.Capacity(), rest.Capacity()))
}

// StoreAway returns how much may pass beyond each limit that uses a local share while the store is
// away; the store does not count those units.
func StoreAway(table *rule.Table) []audit.Finding {
	return findings(table, "while-away", func(r *rule.Rule, f *audit.Finding) {
		if r.OnStoreFailure == rule.Local && r.Mode() != rule.Leased {
			f.Text, f.Hint = "while the store is away "+extra(r), "lower local_share for less, or write on_store_failure: deny for none"
		}
	})
}

// extra returns how much may pass beyond the limit of a rule while the store is away.
func extra(r *rule.Rule) string {
	nodes := text.Count(int(r.Nodes), "node")
	if r.Local == nil {
		return fmt.Sprintf("nothing passes: %v of the limit is less than one request on each of %s", r.LocalShare, nodes)
	}
	plain, share := r.Limit.Spec(), r.Local.Spec()
	atOnce := r.Local.Capacity() * int64(r.Nodes)
	beyond := fmt.Sprintf("%d in each %s", atOnce, period(&plain))
	switch plain.Algorithm {
	case stint.TokenBucket, stint.LeakyBucket:
		rate := float64(share.Requests) * float64(r.Nodes) * float64(plain.Per) / float64(share.Per)
		beyond = fmt.Sprintf("%d at once and %.0f in each %s", atOnce, math.Ceil(rate), period(&plain))
	}
	return fmt.Sprintf("at most %s pass beyond the limit, %d at once on each of %s", beyond, r.Local.Capacity(), nodes)
}

// period returns the period of a limit, without parts that are zero.
func period(spec *stint.Spec) string {
	if spec.Calendar != stint.NoPeriod {
		return spec.Calendar.String()
	}
	return text.ShortDuration(spec.Per)
}
