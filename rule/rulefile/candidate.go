package rulefile

import (
	"fmt"

	"stint"
	"stint/internal/strictyaml"
	"stint/rule"
	"stint/rule/rulefile/hints"
)

// A candidate has numbers and an algorithm. What it does not say is as in its limit; under another
// algorithm, only how many requests there are in which period.

// candidateWords are the words of a candidate.
var candidateWords = []string{
	"algorithm", "requests", "requests_per_unit", "per", "unit", "time_zone", "anchor", "burst", "refill", "align", "blocks", "start",
	"min_interval", "max_wait", "count_denied",
}

// try reads the candidate of a limit, and returns false if there is a fault.
func (l *limit) try() bool {
	mode := (&rule.Rule{Coordination: l.coordination, Stored: l.stored, Answers: l.answers}).Mode()
	c := &limit{
		at: *l.candidate, said: map[string]strictyaml.Value{}, policy: l.policy, loose: l.loose, tallies: l.tallies,
		soft: l.soft, answers: l.answers, excess: l.excess,
	}
	c.coordination = mode
	if l.elastic != nil {
		c.at.Fail("candidate beside elastic", "what a key is lent depends on the limit in force, so nobody can try another one beside it; leave one of the two out")
		return false
	}
	if l.subscription {
		c.at.Fail("candidate beside anchor: subscription", "leave out the candidate, or write a day for all")
		return false
	}
	all, words := c.words(), strictyaml.Words{}
	for _, word := range candidateWords {
		words[word] = all[word]
	}
	known := c.at.Object("a candidate", words, hints.Candidate)
	if len(c.said) == 0 && known {
		c.at.Fail("candidate says nothing", "write other numbers, such as candidate: {requests: 200}, or another algorithm")
		return false
	}
	c.takeOver(l, all)
	c.readPeriod(known && !c.unknown)
	c.readRequests(known && !c.unknown)
	c.readBelonging()
	if c.answers != nil {
		c.spec.Reserve = c.spec.Algorithm == stint.TokenBucket
		c.readResponses(c.at)
	}
	c.checkExcess()
	if c.wrong || !known || !c.make() || c.soft > 0 && !c.soften() {
		return false
	}
	if own := (&rule.Rule{Coordination: mode, Stored: c.stored, Answers: c.answers}).Mode(); own != mode {
		c.at.Fail(fmt.Sprintf("a candidate that cannot be %v like its limit", mode),
			"steady token_bucket, and fixed_window without align: first and time_zone, can; choose one of these, or write coordination: strict")
		return false
	}
	l.tried = c
	return true
}

// takeOver reads the words of the limit of that the candidate l does not say. all has their readers.
func (l *limit) takeOver(of *limit, all strictyaml.Words) {
	_, per := l.said["per"]
	_, unit := l.said["unit"]
	_, requests := l.said["requests"]
	_, perUnit := l.said["requests_per_unit"]
	_, says := l.said["algorithm"]
	if !says {
		l.spec.Algorithm = of.spec.Algorithm
	}
	same := l.spec.Algorithm == of.spec.Algorithm
	for _, word := range candidateWords {
		said, there := of.said[word]
		if _, own := l.said[word]; own || !there {
			continue
		}
		switch word {
		case "per", "unit":
			there = !per && !unit
		case "requests", "requests_per_unit":
			there = !requests && !perUnit
		case "time_zone", "anchor":
			there = same && !per
		case "burst": // a bucket whose burst is its requests keeps both equal
			there = same && (of.spec.Algorithm != stint.TokenBucket || of.spec.Burst != of.spec.Requests)
		default:
			there = same
		}
		if there {
			all[word](said)
		}
	}
	l.spec.Overdraw = of.spec.Overdraw
	if said, ok := of.said["soft"]; ok {
		l.said["soft"] = said
	}
	if said, ok := of.said["excess"]; ok {
		l.said["excess"] = said
	}
}

// setCandidate gives a rule the candidate of its limit.
func (f *fileCompiler) setCandidate(l *limit, r *rule.Rule) {
	c := l.tried
	if c == nil {
		return
	}
	tried := *r
	tried.Limit, tried.Stored, tried.Tally, tried.Unit, tried.Local = c.limit, c.stored, c.tally(), c.unit, c.localLimit()
	tried.Coordination, tried.KeptAfterLoss, tried.Line = c.coordination, c.keptAfterLoss(), c.at.Line()
	tried.Penalty, tried.Denial, tried.Excess, tried.Replaces = nil, nil, nil, nil
	c.agree(&tried)
	r.SetCandidate(&tried)
	if r.Limit.Spec() == tried.Limit.Spec() {
		f.warn("equal-candidate", tried.Line, r.Name, "the candidate says the same as its limit", "write other numbers or another algorithm, or leave it out")
	}
	if r.Penalty != nil {
		f.warn("candidate-penalty", tried.Line, r.Name, "a candidate beside a penalty, whose steps follow the denials of the limit in force", "expect other steps once the candidate is the limit")
	}
}
