package rulefile

import (
	"fmt"
	"strings"

	"stint/internal/strictyaml"
	"stint/rule"
	"stint/rule/rulefile/hints"
)

// mostUpto is the greatest value of `upto`.
const mostUpto = 100 * rule.Whole

// elastic is the word `elastic`, as read. Its pool is looked up after all rules of the domain are
// read.
type elastic struct {
	at   strictyaml.Value
	from *strictyaml.Value
	made rule.Elastic
}

// readElastic reads the words inside `elastic`.
func (l *limit) readElastic(v strictyaml.Value) {
	e := &elastic{at: v}
	said := map[string]strictyaml.Value{}
	words := strictyaml.Words{
		"from":  func(v strictyaml.Value) { e.from = &v },
		"upto":  func(v strictyaml.Value) { e.made.Upto = ratio(v, mostUpto) },
		"below": func(v strictyaml.Value) { e.made.Below = ratio(v, rule.Whole) },
		"gauge": func(v strictyaml.Value) { e.made.Gauge = v.NonEmpty() },
	}
	for word, read := range words {
		words[word] = func(v strictyaml.Value) {
			said[word] = v
			read(v)
		}
	}
	known := v.Object("elastic", words, hints.Elastic)
	upto, saysUpto := said["upto"]
	switch {
	case !known:
	case e.from == nil:
		v.Fail("elastic does not say where the room comes from", "add from: and the name of a rule of this domain, or from: load")
	case e.from.NonEmpty() == "":
	case !saysUpto:
		v.Fail("elastic without upto", "add upto: and how far a key may go at most, such as upto: 300%")
	case e.made.Upto > 0 && e.made.Upto <= rule.Whole:
		upto.Fail(fmt.Sprintf("upto: %s is not more than the limit itself", upto.Text()), "write more than 100%; with 300% a limit of 100 goes up to 300")
	case e.made.Upto > 0 && e.readGauge(said):
		l.elastic = e
		return
	}
	l.wrong = true
}

// readGauge reads the words that belong to `from: load`.
func (e *elastic) readGauge(said map[string]strictyaml.Value) bool {
	if e.fromLoad() {
		if e.made.Below > 0 {
			return true
		}
		if _, ok := said["below"]; !ok {
			e.at.Fail("elastic from load without below", "add below: and the load from which nothing more is lent, such as below: 70%")
		}
		return false
	}
	for _, word := range []string{"below", "gauge"} {
		if v, ok := said[word]; ok {
			v.Fail(fmt.Sprintf("%s beside from: %s", word, e.from.Text()), "it belongs to from: load; leave one of the two out")
			return false
		}
	}
	return true
}

// fromLoad reports whether a gauge decides, rather than a pool.
func (e *elastic) fromLoad() bool { return e.from.Text() == "load" }

// stretch makes the cap of an elastic limit, and refuses settings that do not work with
// `elastic`.
func (l *limit) stretch() bool {
	for _, word := range []struct {
		name, why string
		on        bool
	}{
		{"soft", "both let a key pass its limit", l.soft > 0},
		{"count", "what a request was lent cannot be given back by its answer", l.answers != nil},
		{"count_denied", "it keeps out who keeps trying, and elastic lets them in", l.spec.CountDenied},
		{"overdraw", "a debt is beyond the limit already", l.spec.Overdraw},
	} {
		if v, ok := l.said[word.name]; ok && word.on {
			later(v, l.elastic.at).Fail(fmt.Sprintf("elastic beside %s: %s", word.name, v.Text()), word.why+"; keep one of the two")
			return false
		}
	}
	most, err := rule.Scaled(l.limit, l.elastic.made.Upto)
	if err != nil {
		l.elastic.at.Fail(fmt.Sprintf("upto: the larger limit is refused: %v", err), "lower the percentage or the limit")
		return false
	}
	l.elastic.made.Cap = most
	return true
}

// borrower is a rule with `elastic`.
type borrower struct {
	*rule.Rule
	elastic *elastic
}

// lend looks up the pool or gauge of each elastic rule of the domain.
func (f *fileCompiler) lend() {
	for _, b := range f.borrowers {
		b.Elastic = &b.elastic.made
		name := b.elastic.from.Text()
		pools := f.named(name)
		switch {
		case b.Shadow || b.Quota:
			b.elastic.at.Fail("elastic on a limit in shadow_mode or quota_mode", "such a limit denies nobody by itself, so there is nothing to lend it; leave one of the two out")
		case b.elastic.fromLoad() && len(pools) > 0:
			b.elastic.from.Fail("from: load means a gauge, and a rule has that name as well", "give the rule another name")
		case b.elastic.fromLoad():
			if b.Elastic.Gauge == "" {
				b.Elastic.Gauge = f.domain.Name
			}
		case len(pools) == 0:
			f.noPool(b, name)
		case len(pools) > 1:
			b.elastic.from.Fail(fmt.Sprintf("from: %d rules have the name %q", len(pools), name), "give the one that lends a name of its own")
		case pools[0] == b.Rule:
			b.elastic.from.Fail(fmt.Sprintf("the limit %q leans on itself", name), "name another rule of this domain, whose room may be lent")
		default:
			b.Elastic.Pool = pools[0]
			pools[0].Tally = nil // Envoy's way of counting cannot lend
			f.checkPool(b, pools[0])
		}
	}
}

// named returns the rules with that name, either the one users see or the one in the file.
func (f *fileCompiler) named(name string) []*rule.Rule {
	var rules []*rule.Rule
	for _, r := range f.rules {
		if r.Name == name || r.Given == name {
			rules = append(rules, r)
		}
	}
	return rules
}

// noPool reports that no rule has the name. It reports nothing if a rule with a fault might have
// it.
func (f *fileCompiler) noPool(b borrower, name string) {
	if f.refused {
		return
	}
	var names []string
	for _, r := range f.rules {
		if r != b.Rule {
			names = append(names, r.Name)
		}
	}
	hint := "a limit gets a name with the word name; of others it is domain/key[=value]/..."
	if near := strictyaml.Nearest(name, names); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	} else if len(names) > 0 {
		hint = "the rules here are " + strings.Join(names[:min(len(names), 5)], ", ")
		if len(names) > 5 {
			hint += ", ..."
		}
	}
	b.elastic.from.Fail(fmt.Sprintf("from: no rule of domain %s is named %q", f.domain.Name, name), hint)
}

// checkPool refuses a pool that cannot lend.
func (f *fileCompiler) checkPool(b borrower, pool *rule.Rule) {
	why, hint := pool.LendFault()
	if f.isElastic(pool) {
		why, hint = "is elastic itself", rule.LendHint
	}
	if why != "" {
		b.elastic.from.Fail(fmt.Sprintf("from: the rule %q %s", pool.Name, why), hint)
	}
}

func (f *fileCompiler) isElastic(r *rule.Rule) bool {
	for _, b := range f.borrowers {
		if b.Rule == r {
			return true
		}
	}
	return false
}
