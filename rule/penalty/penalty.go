// Package penalty reads the penalties of rules, and tells whom the open entries of a rule name.
package penalty

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

// Penalty is the word `penalty` of a rate_limit, as read. It becomes a limit when the period is
// known, see Make.
type Penalty struct {
	At     strictyaml.Value
	Shared bool // it may be by address alone

	said  map[string]strictyaml.Value
	spec  stint.Spec
	wrong bool
}

// Read reads the words inside `penalty`. It returns nil after a fault, which it reports. ratio reads a
// percentage of at most `most`.
func Read(v strictyaml.Value, ratio func(v strictyaml.Value, most rule.Ratio) rule.Ratio) *Penalty {
	p := &Penalty{At: v, said: map[string]strictyaml.Value{}, spec: stint.Spec{Algorithm: stint.Penalty}}
	words := strictyaml.Words{
		"after": func(v strictyaml.Value) {
			p.spec.Requests = v.Count32("a key would be kept away that was never denied", "write 1 or more; the try after that many starts a step")
			p.wrong = p.wrong || p.spec.Requests == 0
		},
		"ladder": func(v strictyaml.Value) {
			var steps []string
			for _, element := range v.OneOrList() {
				steps = append(steps, p.duration(element, "ladder").String())
			}
			p.spec.Ladder = strings.Join(steps, " ")
		},
		"decay":  func(v strictyaml.Value) { p.spec.Decay = p.duration(v, "decay") },
		"jitter": func(v strictyaml.Value) { p.spec.Jitter = uint32(ratio(v, rule.Whole)) },
		"shared": func(v strictyaml.Value) { p.Shared = v.Bool() },
	}
	for word, read := range words {
		words[word] = func(v strictyaml.Value) {
			p.said[word] = v
			read(v)
		}
	}
	known := v.Object("penalty", words, hint)
	_, saysAfter := p.said["after"]
	_, saysLadder := p.said["ladder"]
	switch {
	case !known || p.wrong:
	case !saysAfter:
		v.Fail("penalty does not say how many denied tries it forgives", "add after: such as after: 3; the try after that many starts a step")
	case !saysLadder:
		v.Fail("penalty without a ladder", "add ladder: [1m, 10m, 1h, 24h], how long each step lasts; the last one is repeated")
	default:
		return p
	}
	return nil
}

func hint(word string) string {
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

func (p *Penalty) duration(v strictyaml.Value, word string) time.Duration {
	d, err := rule.ParseDuration(v.Text())
	if err != nil {
		v.Fail(fmt.Sprintf("%s: %q is %v", word, v.Text(), err), "write a duration such as 1m, 10m, 1h or 1d")
		p.wrong = true
	}
	return d
}

// Make returns the limit that counts denied tries beside another limit. It reports why there is
// none, and returns nil then.
func (p *Penalty) Make(beside *stint.Limit) *stint.Limit {
	p.spec.Per = limits.LongestPeriod(beside)
	if _, says := p.said["decay"]; !says {
		p.spec.Decay = max(defaultDecay, p.spec.Per)
	}
	made, err := stint.NewLimit(p.spec)
	var wrong *stint.SpecError
	switch {
	case err == nil:
		return made
	case !errors.As(err, &wrong):
		p.At.Fail("penalty: "+err.Error(), "check its numbers")
	default:
		at, ok := p.said[wrong.Field]
		if !ok {
			at = p.At
		}
		at.Fail(wrong.Error(), wrong.Hint)
	}
	return nil
}

// CheckKey refuses a penalty of a rule by address whose file does not say that many people may share
// one. http are the elements that describe requests of its domain.
func (p *Penalty) CheckKey(r *rule.Rule, http []rule.HTTPLimit) {
	id := IdentityOf(r, http)
	byAddress := id.Address && !id.Account && !id.Device && !id.Other
	switch {
	case byAddress && !p.Shared:
		p.At.Fail("penalty by address keeps everybody behind that address away",
			"an office or a mobile network has one address; count by the pair of account and address, or write shared: true if you mean it")
	case !byAddress && p.Shared:
		p.said["shared"].Fail("shared: true on a penalty that is not by address alone", "leave it out; it only allows penalties by address")
	}
}
