package stores

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"stint"
	"stint/internal/transaction"
	"stint/rule"
	"stint/telemetry"
)

// Loss is that takes of a durable rule follow its failure policy, because counts of them were lost.
type Loss struct {
	Rule  string // DOMAIN/NAME
	Place string // where counts were lost: a server, or the state file
	Since time.Time
	Until time.Time // when the period of the loss ends, of all limits of the rule the last
	Of    *rule.Rule
}

// losses are the losses that the places with counts know of. The zero losses are none.
type losses struct {
	mu      sync.Mutex // guards all; not held while Options.LossEnds reads records, or the log is written
	byPlace map[string][]transaction.Loss
	noticed uint64
	rules   []*rule.Rule // durable ones
}

// watchLosses sets the rules of which losses matter.
func (st *Stores) watchLosses(table *rule.Table) {
	st.losses.mu.Lock()
	defer st.losses.mu.Unlock()
	st.losses.rules = table.Durable()
}

// hasDurable reports whether some rule is durable.
func (st *Stores) hasDurable() bool {
	st.losses.mu.Lock()
	defer st.losses.mu.Unlock()
	return len(st.losses.rules) > 0
}

// Losses returns the durable rules that follow their failure policies after a loss, by their names. A rule has the
// loss that ends last.
func (st *Stores) Losses() (all []Loss) {
	l := &st.losses
	l.mu.Lock()
	byPlace, rules := maps.Clone(l.byPlace), l.rules
	l.mu.Unlock()
	for place, found := range byPlace {
		for i := range found {
			all = append(all, st.lossesOfRules(rules, place, &found[i])...)
		}
	}
	slices.SortFunc(all, func(a, b Loss) int { return cmp.Or(cmp.Compare(a.Rule, b.Rule), b.Until.Compare(a.Until)) })
	return slices.CompactFunc(all, func(a, b Loss) bool { return a.Rule == b.Rule })
}

// lossesOfRules returns those of some rules that a loss concerns.
func (st *Stores) lossesOfRules(rules []*rule.Rule, place string, loss *transaction.Loss) (all []Loss) {
	for _, r := range rules {
		name := transaction.RuleName(r.Domain, r.Name)
		if loss.Accepted(name) {
			continue
		}
		if ends := st.lossEnds(r, loss.At); ends.Time().After(time.Now()) {
			all = append(all, Loss{name, place, loss.At.Time().UTC(), ends.Time().UTC(), r})
		}
	}
	return all
}

// lossEnds returns when a loss concerns no take of a rule any more.
func (st *Stores) lossEnds(r *rule.Rule, lost stint.Instant) stint.Instant {
	if st.options.LossEnds == nil {
		return transaction.LossEnds(r.Stored, lost)
	}
	return st.options.LossEnds(r, lost)
}

// lookLosses asks a server for losses, if some rule is durable.
func (st *Stores) lookLosses(ctx context.Context, s *server) {
	if s.redis == nil || !st.hasDurable() {
		return
	}
	found, err := s.redis.Losses(ctx)
	if err != nil {
		st.log.Debug("cannot ask the store for losses", "store", s.name, "error", err)
		return
	}
	if st.noteLosses(s.name, found) && s.denials != nil {
		s.denials.Drop()
	}
}

// noteLosses stores the losses of a place, and logs what is new: that counts were lost, or that somebody accepted it.
// It reports whether there is a new loss.
func (st *Stores) noteLosses(place string, found []transaction.Loss) (lost bool) {
	durable, before := st.losses.put(place, found)
	var rules, accepted []string
	var until time.Time
	for i := range found {
		at := indexOf(before, &found[i])
		for _, one := range st.lossesOfRules(durable, place, &found[i]) {
			if at < 0 {
				rules = append(rules, one.Rule)
			}
			if one.Until.After(until) {
				until = one.Until
			}
		}
		lost = lost || at < 0
		if at >= 0 {
			accepted = append(accepted, newlyAccepted(st.lossesOfRules(durable, place, &before[at]), &found[i])...)
		}
	}
	if rules = compact(rules); len(rules) > 0 {
		st.options.OnLost(place)
		st.log.Error("counts of durable rules were lost: their takes follow on_store_failure until the period ends", "store", place, "rules", rules, "until", until.UTC().Format(time.RFC3339),
			"hint", "stint accept-loss RULE ends that at once, and the rule goes on with the counts that are left")
	}
	if accepted = compact(accepted); len(accepted) > 0 {
		st.log.Info("a loss was accepted: durable rules go on with the counts that are left", "store", place, "rules", accepted)
	}
	return lost
}

// put stores the losses of a place. It returns the durable rules, and the losses that the place had before.
func (l *losses) put(place string, found []transaction.Loss) (durable []*rule.Rule, before []transaction.Loss) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before = l.byPlace[place]
	if l.byPlace == nil {
		l.byPlace = map[string][]transaction.Loss{}
	}
	l.byPlace[place] = found
	for i := range found {
		if indexOf(before, &found[i]) < 0 && !found[i].Accepted("") { // nobody has accepted it for all rules yet
			l.noticed++
			break
		}
	}
	return l.rules, before
}

// indexOf returns the index of a loss in a list, by its time; -1 if it is not there.
func indexOf(all []transaction.Loss, one *transaction.Loss) int {
	return slices.IndexFunc(all, func(o transaction.Loss) bool { return o.At == one.At })
}

// newlyAccepted returns the rules of losses that have accepted the loss meanwhile.
func newlyAccepted(before []Loss, loss *transaction.Loss) (rules []string) {
	for _, one := range before {
		if loss.Accepted(one.Rule) {
			rules = append(rules, one.Rule)
		}
	}
	return rules
}

func compact(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

// AcceptLoss ends that takes of a durable rule, by DOMAIN/NAME, follow its failure policy after a loss; those of all
// rules for "".
func (st *Stores) AcceptLoss(ctx context.Context, rule string) error {
	for _, s := range st.servers {
		if s.redis == nil {
			continue
		}
		if _, err := s.redis.AcceptLoss(ctx, rule); err != nil {
			return err
		}
		st.lookLosses(ctx, s)
	}
	if st.durable == nil {
		return nil
	}
	return st.durable.accept(ctx, rule)
}

// lossText returns the losses for /readyz; "" if there are none.
func (st *Stores) lossText() string {
	var all []string
	for _, one := range st.Losses() {
		all = append(all, one.Rule+" until "+one.Until.UTC().Format(time.RFC3339))
	}
	if len(all) == 0 {
		return ""
	}
	return "counts of durable rules were lost, and these follow on_store_failure: " + strings.Join(all, ", ")
}

// lossStats returns the numbers of losses, for metrics.
func (st *Stores) lossStats() (s telemetry.LossStats) {
	for _, one := range st.Losses() {
		s.Rules = append(s.Rules, telemetry.LostRule{Domain: one.Of.Domain, Rule: one.Of.Name})
	}
	st.losses.mu.Lock()
	defer st.losses.mu.Unlock()
	s.Noticed = st.losses.noticed
	return s
}

// now returns the time by the clock of the stores.
func (st *Stores) now() stint.Instant {
	if st.config.Clock != nil {
		return st.config.Clock()
	}
	return stint.At(time.Now())
}
