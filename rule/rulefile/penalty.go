package rulefile

import (
	"fmt"

	"stint"
	"stint/internal/strictyaml"
	"stint/rule"
	"stint/rule/penalty"
)

// penalized is a rule with a penalty.
type penalized struct {
	rule    *rule.Rule
	penalty *penalty.Penalty
}

func (l *limit) readPenalty(v strictyaml.Value) {
	l.penalty = penalty.Read(v, ratio)
	l.wrong = l.wrong || l.penalty == nil
}

// penalize makes the limit of the penalty, which needs coordination: strict.
func (l *limit) penalize() bool {
	if l.coordination != rule.Strict {
		l.penalty.At.Fail(fmt.Sprintf("penalty beside coordination: %v", l.coordination), "all nodes must know at once that a step runs; write coordination: strict, or leave out the penalty")
		return false
	}
	l.penalizes = l.penalty.Make(l.limit)
	return l.penalizes != nil
}

// penaltyOf returns the limit of a penalty, and refuses it in a mode in which a limit is not asked
// together with all others.
func (f *fileCompiler) penaltyOf(l *limit, d *descriptor) *stint.Limit {
	switch {
	case l.penalty == nil:
	case d.quota:
		l.penalty.At.Fail("penalty beside quota_mode", "limits in quota mode deny only together, so no one of them can keep a client away; leave one of the two out")
	case !f.domain.Atomic:
		l.penalty.At.Fail("penalty in a domain with atomic: false", "there each limit is charged by itself, also while a client is kept away; leave out atomic: false")
	}
	return l.penalizes
}

// checkPenalties checks the keys of penalties. The http section is read by now.
func (f *fileCompiler) checkPenalties() {
	http := f.domain.HTTP
	if f.first != nil {
		http = f.first.HTTP
	}
	for _, one := range f.penalized {
		one.penalty.CheckKey(one.rule, http)
	}
}
