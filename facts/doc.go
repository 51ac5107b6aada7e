// Package facts keeps bounded facts about decisions: how many by rule, which keys are hit most, how
// close keys come to their limits, a history, and a log of denials. It observes the verdicts of a
// limiter.
package facts
