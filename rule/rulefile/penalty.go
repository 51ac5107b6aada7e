package rulefile

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"stint"
	"stint/internal/limits"
	"stint/internal/strictyaml"
	"stint/rule"
)

// defaultDecay is the decay of a penalty that names none, unless the period of its limit is longer.
const defaultDecay = 24 * time.Hour

// penalty is the word `penalty`, as read. It becomes a limit when the period is known.
type penalty struct {
	at     strictyaml.Value
	said   map[string]strictyaml.Value
	spec   stint.Spec
	shared bool
	made   *stint.Limit
}

// readPenalty reads the words inside `penalty`.
func (l *limit) readPenalty(v strictyaml.Value) {
	p := &penalty{at: v, said: map[string]strictyaml.Value{}, spec: stint.Spec{Algorithm: stint.Penalty}}
	words := strictyaml.Words{
		"after": func(v strictyaml.Value) {
			p.spec.Requests = v.Count32("a key would be kept away that was never denied", "write 1 or more; the try after that many starts a step")
			l.wrong = l.wrong || p.spec.Requests == 0
		},
		"ladder": func(v strictyaml.Value) { p.spec.Ladder = l.ladder(v) },
		"decay":  l.duration(&p.spec.Decay),
		"jitter": func(v strictyaml.Value) { p.spec.Jitter = uint32(ratio(v, rule.Whole)) },
		"shared": func(v strictyaml.Value) { p.shared = v.Bool() },
	}
	for word, read := range words {
		words[word] = func(v strictyaml.Value) {
			p.said[word] = v
			read(v)
		}
	}
	known := v.Object("penalty", words, penaltyHint)
	_, saysAfter := p.said["after"]
	_, saysLadder := p.said["ladder"]
	switch {
	case !known:
	case !saysAfter:
		v.Fail("penalty does not say how many denied tries it forgives", "add after: such as after: 3; the try after that many starts a step")
	case !saysLadder:
		v.Fail("penalty without a ladder", "add ladder: [1m, 10m, 1h, 24h], how long each step lasts; the last one is repeated")
	default:
		l.penalty = p
		return
	}
	l.wrong = true
}

func penaltyHint(word string) string {
	switch word {
	case "tries", "max_retry", "maxretry", "threshold", "limit":
		return "write after:, how many denied tries it forgives"
	case "steps", "bantime", "ban", "duration", "durations", "time":
		return "write ladder: [1m, 10m, 1h, 24h]"
	case "findtime", "per", "window":
		return "tries count in the period of the limit; there is no other"
	case "forget", "cooldown":
		return "write decay:, after how long without a denied try a key steps one level down"
	}
	return ""
}

// ladder reads the lengths of the steps.
func (l *limit) ladder(v strictyaml.Value) string {
	var steps []string
	for _, element := range v.OneOrList() {
		step, err := rule.ParseDuration(element.Text())
		if err != nil {
			l.fail(element, fmt.Sprintf("ladder: %q is %v", element.Text(), err), "write durations such as [1m, 10m, 1h, 1d]")
		}
		steps = append(steps, step.String())
	}
	return strings.Join(steps, " ")
}

// penalize makes the limit of the penalty, and refuses it beside settings that do not work with it.
func (l *limit) penalize() bool {
	p := l.penalty
	if l.coordination != rule.Strict {
		p.at.Fail(fmt.Sprintf("penalty beside coordination: %v", l.coordination), "all nodes must know at once that a step runs; write coordination: strict, or leave out the penalty")
		return false
	}
	p.spec.Per = limits.LongestPeriod(l.limit)
	if _, says := p.said["decay"]; !says {
		p.spec.Decay = max(defaultDecay, p.spec.Per)
	}
	made, err := stint.NewLimit(p.spec)
	if err == nil {
		p.made = made
		return true
	}
	at, problem := p.at, "penalty: "+err.Error()
	var wrong *stint.SpecError
	if errors.As(err, &wrong) {
		if v, ok := p.said[wrong.Field]; ok {
			at, problem = v, wrong.Error()
		}
		at.Fail(problem, wrong.Hint)
	} else {
		at.Fail(problem, "check its numbers")
	}
	return false
}

// penalty reports a penalty in a mode in which a limit is not asked with all others, and returns
// its limit.
func (f *fileCompiler) penalty(l *limit, d *descriptor) *stint.Limit {
	if l.penalty == nil {
		return nil
	}
	switch p := l.penalty; {
	case d.quota:
		p.at.Fail("penalty beside quota_mode", "limits in quota mode deny only together, so no one of them can keep a client away; leave one of the two out")
	case !f.domain.Atomic:
		p.at.Fail("penalty in a domain with atomic: false", "there each limit is charged by itself, also while a client is kept away; leave out atomic: false")
	}
	return l.penalty.made
}

// penalties refuses penalties by address whose file does not say that many people may share one.
// The http section is read by now.
func (f *fileCompiler) penalties() {
	http := f.domain.HTTP
	if f.first != nil {
		http = f.first.HTTP
	}
	for _, one := range f.penalized {
		id := rule.IdentityOf(one.rule, http)
		byAddress := id.Address && !id.Account && !id.Device && !id.Other
		switch {
		case byAddress && !one.penalty.shared:
			one.penalty.at.Fail("penalty by address keeps everybody behind that address away",
				"an office or a mobile network has one address; count by the pair of account and address, or write shared: true if you mean it")
		case !byAddress && one.penalty.shared:
			one.penalty.said["shared"].Fail("shared: true on a penalty that is not by address alone", "leave it out; it only allows penalties by address")
		}
	}
}

// penalized is a rule with a penalty.
type penalized struct {
	rule    *rule.Rule
	penalty *penalty
}
