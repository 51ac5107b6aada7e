package model

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"stint"
)

// TraceStart is the time at which every section starts.
var TraceStart = stint.At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))

// TraceSlack is how much longer than in the table a duration may be.
const TraceSlack = time.Millisecond

// Section is one limit with its takes and decisions, beginning with fresh state, computed with
// exact fractions. Every algorithm and every store must give these decisions:
//
//	# comment
//	limit token_bucket requests=5 per=1s burst=5     opens a section with fresh state
//	200ms a   1  allow remaining=0 reset=1s       time since TraceStart, key, cost, verdict, expectations
//	200ms a   1  deny  remaining=0 retry=200ms reset=1s
//	200ms a   1  force remaining=0                   debited without asking (a denied try of a penalty)
//	200ms a   0  reset remaining=5
//
// Durations in decisions may be longer than in the table by at most TraceSlack, and never shorter;
// everything else is exact.
type Section struct {
	Name  string // file:line of its limit
	Limit *stint.Limit
	Steps []Step
}

// Step is one take and its expected decision. Durations without an expectation are negative.
type Step struct {
	Line      int
	At        stint.Instant
	Key       stint.Key
	Op        stint.Op // Ask, Force, Settle or Reset
	Cost      uint32
	Allow     bool
	Remaining int64 // -1 without an expectation
	Level     int64 // the same
	Retry     time.Duration
	Reset     time.Duration
	Delay     time.Duration
}

// LoadTraces reads all .txt files of a folder.
func LoadTraces(dir string) ([]Section, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no trace files in %s", dir)
	}
	var all []Section
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		sections, err := ReadTrace(filepath.Base(name), bytes.NewReader(text))
		if err != nil {
			return nil, err
		}
		all = append(all, sections...)
	}
	return all, nil
}

// ReadTrace reads one file; name is used in errors.
func ReadTrace(name string, r io.Reader) ([]Section, error) {
	var sections []Section
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		where := fmt.Sprintf("%s:%d", name, n)
		if words[0] == "limit" {
			limit, err := readLimit(words[1:])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", where, err)
			}
			sections = append(sections, Section{Name: where, Limit: limit})
			continue
		}
		if len(sections) == 0 {
			return nil, fmt.Errorf("%s: a step before the first limit", where)
		}
		step, err := readStep(words)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", where, err)
		}
		step.Line = n
		last := &sections[len(sections)-1]
		last.Steps = append(last.Steps, step)
	}
	return sections, lines.Err()
}

func readLimit(words []string) (*stint.Limit, error) {
	if len(words) == 0 {
		return nil, fmt.Errorf("a limit without an algorithm")
	}
	algorithm, err := stint.Penalty, error(nil)
	if words[0] != stint.Penalty.String() {
		algorithm, err = stint.ParseAlgorithm(words[0])
	}
	if err != nil {
		return nil, err
	}
	spec := stint.Spec{Algorithm: algorithm}
	for _, word := range words[1:] {
		name, value, _ := strings.Cut(word, "=")
		if err := setWord(&spec, name, value); err != nil {
			return nil, fmt.Errorf("%s: %w", word, err)
		}
	}
	return stint.NewLimit(spec)
}

func setWord(spec *stint.Spec, name, value string) (err error) {
	switch name {
	case "requests":
		spec.Requests, err = count(value)
	case "burst":
		spec.Burst, err = count(value)
	case "blocks":
		spec.Blocks, err = strconv.Atoi(value)
	case "per":
		spec.Per, err = time.ParseDuration(value)
	case "min_interval":
		spec.MinInterval, err = time.ParseDuration(value)
	case "max_wait":
		spec.MaxWait, err = time.ParseDuration(value)
	case "calendar":
		spec.Calendar, err = period(value)
	case "zone":
		spec.Zone, err = time.LoadLocation(value)
	case "anchor":
		var day uint32
		day, err = count(value)
		spec.Anchor = uint8(day)
	case "ladder":
		spec.Ladder = strings.ReplaceAll(value, ",", " ")
	case "decay":
		spec.Decay, err = time.ParseDuration(value)
	case "jitter":
		spec.Jitter, err = count(value)
	case "count_denied":
		spec.CountDenied, err = strconv.ParseBool(value)
	case "overdraw":
		spec.Overdraw, err = strconv.ParseBool(value)
	case "refill":
		spec.Step, err = either(value, "step", "steady")
	case "carry_debt":
		spec.CarryDebt, err = strconv.ParseBool(value)
	case "start":
		spec.StartUsedUp, err = either(value, "used_up", "unused")
	case "align":
		spec.FromFirst, err = either(value, "first", "epoch")
	default:
		err = fmt.Errorf("unknown word")
	}
	return err
}

// period reads the name of a calendar period.
func period(value string) (stint.Period, error) {
	for p := stint.Day; p <= stint.Year; p++ {
		if p.String() == value {
			return p, nil
		}
	}
	return 0, fmt.Errorf("neither day, week, month nor year")
}

func count(value string) (uint32, error) {
	n, err := strconv.ParseUint(value, 10, 32)
	return uint32(n), err
}

// either returns whether value is yes. It returns an error if value is neither yes nor no.
func either(value, yes, no string) (bool, error) {
	if value != yes && value != no {
		return false, fmt.Errorf("neither %s nor %s", yes, no)
	}
	return value == yes, nil
}

func readStep(words []string) (Step, error) {
	step := Step{Remaining: -1, Level: -1, Retry: -1, Reset: -1, Delay: -1}
	if len(words) < 4 {
		return step, fmt.Errorf("a step has time, key, cost and verdict")
	}
	after, err := time.ParseDuration(words[0])
	if err != nil {
		return step, err
	}
	if step.Cost, err = count(words[2]); err != nil {
		return step, err
	}
	switch words[3] {
	case "allow", "deny":
	case "force":
		step.Op = stint.Force
	case "settle":
		step.Op = stint.Settle
	case "reset":
		step.Op = stint.Reset
	default:
		return step, fmt.Errorf("verdict %q is none of allow, deny, force, settle, reset", words[3])
	}
	step.At, step.Key, step.Allow = TraceStart.Add(after), stint.Key(words[1]), words[3] != "deny"
	for _, word := range words[4:] {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "remaining":
			step.Remaining, err = strconv.ParseInt(value, 10, 64)
		case "level":
			step.Level, err = strconv.ParseInt(value, 10, 64)
		case "retry":
			step.Retry, err = duration(value)
		case "reset":
			step.Reset, err = duration(value)
		case "delay":
			step.Delay, err = duration(value)
		default:
			err = fmt.Errorf("unknown word")
		}
		if err != nil {
			return step, fmt.Errorf("%s: %w", word, err)
		}
	}
	return step, nil
}

func duration(value string) (time.Duration, error) {
	if value == "never" {
		return stint.Never, nil
	}
	return time.ParseDuration(value)
}

// Take returns the step as a take under a limit.
func (s *Step) Take(limit *stint.Limit) stint.Take {
	t := stint.Take{Key: s.Key, Limit: limit, Cost: s.Cost, Op: s.Op}
	if s.Op == stint.Settle {
		t.Undo = new(stint.Decision)
	}
	return t
}

// Check returns the difference of a decision from the step, "" if there is none.
func (s *Step) Check(d stint.Decision) string {
	switch {
	case d.Allowed != s.Allow:
		return fmt.Sprintf("allowed=%v, want %v", d.Allowed, s.Allow)
	case s.Remaining >= 0 && d.Remaining != s.Remaining:
		return fmt.Sprintf("remaining=%d, want %d", d.Remaining, s.Remaining)
	case s.Level >= 0 && d.Debt != s.Level:
		return fmt.Sprintf("level=%d, want %d", d.Debt, s.Level)
	}
	for _, span := range []struct {
		name      string
		got, want time.Duration
	}{{"retry", d.RetryAfter, s.Retry}, {"reset", d.ResetAfter, s.Reset}, {"delay", d.Delay, s.Delay}} {
		if span.want < 0 {
			continue
		}
		late := span.got - span.want
		if late < 0 || late > TraceSlack || (span.want == stint.Never) != (span.got == stint.Never) {
			return fmt.Sprintf("%s=%v, want %v", span.name, span.got, span.want)
		}
	}
	return ""
}
