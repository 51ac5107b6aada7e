package facts

import (
	"time"

	"stint"
	"stint/facts/denials"
)

// Denial is a line of the log of denials.
type Denial = denials.Line

// DenialOptions are the settings of the log of denials.
type DenialOptions = denials.Options

// noteDenialLocked adds the denials of a note to the log.
func (f *Facts) noteDenialLocked(k *keyNote, now time.Time) {
	n := &k.denial
	line := Denial{
		At: n.at.Time(), RequestID: n.id.String(), Domain: n.domain, Rule: n.refusal, Reason: string(n.reason),
		Limit: n.limit, RetryAfter: time.Duration(n.retryAfter), Degraded: n.degraded,
	}
	if n.at <= 1 { // the decision had no time
		line.At = now.UTC()
	}
	if line.RetryAfter == stint.Never {
		line.RetryAfter = -1
	}
	if line.Limit == stint.NoLimit {
		line.Limit = 0
	}
	if k.rule != nil {
		line.Domain, line.Rule = k.rule.name.domain, k.rule.name.name
	}
	counts, _ := k.scaled()
	f.denials.Note(denials.Key{Domain: line.Domain, Rule: line.Rule, Hash: k.hash}, max(counts[denied], 1), func() Denial {
		if k.rule != nil {
			line.Key = f.id(k.key[:k.keyLen])
		}
		return line
	})
}

// Denials returns the newest n lines of the log of denials of this node that match, newest first: from
// memory, and then from the files.
func (f *Facts) Denials(n int, match func(*Denial) bool) []Denial {
	f.Flush()
	f.mu.Lock()
	lines, files := f.denials.Recent()
	f.mu.Unlock()
	found := []Denial{}
	for i := range lines {
		if len(found) < n && (match == nil || match(&lines[i])) {
			found = append(found, lines[i])
		}
	}
	if files && len(found) < n {
		found = append(found, f.denials.Older(len(lines), n-len(found), match)...)
	}
	return found
}
