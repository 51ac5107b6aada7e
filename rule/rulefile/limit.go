package rulefile

import (
	"errors"
	"fmt"
	"time"
	_ "time/tzdata" // time zones work without those of the system

	"stint"
	"stint/internal/strictyaml"
	"stint/internal/text"
	"stint/rule"
	"stint/rule/denial"
	"stint/rule/penalty"
	"stint/rule/rulefile/hints"
)

// limit is one rate_limit as it is read, and the limits made from it.
type limit struct {
	policy
	at        strictyaml.Value
	said      map[string]strictyaml.Value // the words in the file
	wrong     bool                        // a fault makes the numbers meaningless
	unknown   bool                        // the algorithm is not known
	spec      stint.Spec
	calendar  stint.Period // calendar period of the unit
	unit      string
	zone      *time.Location
	unlimited bool
	name      string
	replaces  []string
	headers   []rule.Preset
	soft      rule.Ratio
	shardBy   []string
	denial    *denial.Denial
	excess    *denial.Excess
	answers   *rule.Answers
	elastic   *elastic
	penalty   *penalty.Penalty
	penalizes *stint.Limit // of the penalty
	usage     *rule.Usage
	durable   bool
	candidate *strictyaml.Value
	tried     *limit // the candidate, as read

	limit   *stint.Limit
	stored  *stint.Limit // limit enlarged by soft
	ignored string       // text of a warning
	letPass [][2]string  // texts of warnings, each with its hint

	inPlan       bool   // it stands in a plan
	outer        *outer // the rule that takes it from the plan
	subscription bool   // anchor: subscription

	noUnit  func() // reports an unknown unit, if the unit is used
	loose   bool   // the file is read as envoyproxy/ratelimit does
	tallies bool   // and the limits of the domain count as they do there
}

// read reads the limit. It returns false if there is a fault.
func (l *limit) read() bool {
	words := l.words()
	l.takeOuter(words)
	if l.inPlan {
		words["name"] = func(strictyaml.Value) {} // it names the place
	}
	known := l.at.Object("a rate_limit", words, hints.Limit)
	l.check()
	l.fits()
	if replaced := l.name; replaced != "" {
		for _, r := range l.replaces {
			if r == replaced {
				l.said["replaces"].Fail(fmt.Sprintf("the limit %q replaces itself", r), "name the limits that it stands for, not its own")
			}
		}
	}
	if l.unlimited {
		return l.readUnlimited()
	}
	l.readPeriod(known && !l.unknown)
	l.readRequests(known && !l.unknown)
	l.readBelonging()
	l.readStatuses()
	l.checkExcess()
	l.checkUsage()
	l.checkDurable()
	if l.wrong || !known {
		return false
	}
	return l.derive()
}

// derive makes the limit and what follows from it. It returns false if there is a fault.
func (l *limit) derive() bool {
	return l.make() && (l.elastic == nil || l.stretch()) && (l.soft == 0 || l.soften()) && (l.penalty == nil || l.penalize()) && (l.candidate == nil || l.try())
}

// make makes the limit of its numbers.
func (l *limit) make() bool {
	l.spec.CarryDebt = l.coordination >= rule.Eventual && l.spec.Algorithm == stint.FixedWindow && !l.spec.FromFirst &&
		l.spec.Calendar == stint.NoPeriod && l.elastic == nil && l.answers == nil
	l.spec.RoundRate = true // stint check warns about rounding
	made, err := stint.NewLimit(l.spec)
	if err != nil {
		l.explain(err)
		return false
	}
	l.limit, l.stored = made, made
	return true
}

// soften makes the larger limit of a rule with `soft`.
func (l *limit) soften() bool {
	stored, err := rule.Scaled(l.limit, rule.Whole+l.soft)
	if err != nil {
		l.said["soft"].Fail(fmt.Sprintf("soft: the larger limit is refused: %v", err), "lower the percentage or the limit")
		return false
	}
	l.stored = stored
	return true
}

// words returns a reader for each word, which also remembers the place of the word.
func (l *limit) words() strictyaml.Words {
	words := strictyaml.Words{
		"unit":              l.readUnit,
		"per":               l.duration(&l.spec.Per),
		"requests_per_unit": l.number(&l.spec.Requests),
		"requests":          l.number(&l.spec.Requests),
		"algorithm":         l.readAlgorithm,
		"burst":             l.number(&l.spec.Burst),
		"refill":            func(v strictyaml.Value) { l.choice(v, &l.spec.Step, "steady", "step") },
		"align":             func(v strictyaml.Value) { l.choice(v, &l.spec.FromFirst, "epoch", "first") },
		"blocks":            l.readBlocks,
		"start":             l.readStart,
		"min_interval":      l.duration(&l.spec.MinInterval),
		"max_wait":          l.duration(&l.spec.MaxWait),
		"count_denied":      func(v strictyaml.Value) { l.spec.CountDenied = v.Bool() },
		"overdraw":          func(v strictyaml.Value) { l.spec.Overdraw = v.Bool() },
		"time_zone":         l.readZone,
		"anchor":            l.readAnchor,
		"unlimited":         func(v strictyaml.Value) { l.unlimited = v.Bool() },
		"name":              func(v strictyaml.Value) { l.name = v.Text() },
		"replaces":          l.readReplaces,
		"headers":           l.readHeaders,
		"denial":            func(v strictyaml.Value) { l.denial = denial.Read(v) },
		"excess":            func(v strictyaml.Value) { l.excess = denial.ReadExcess(v) },
		"count":             l.readCount,
		"statuses":          func(strictyaml.Value) {}, // read after count
		"elastic":           l.readElastic,
		"penalty":           l.readPenalty,
		"usage":             l.readUsage,
		"notify":            l.readNotify,
		"durable":           func(v strictyaml.Value) { l.durable = v.Bool() },
		"rollover":          l.readRollover,
		"soft":              func(v strictyaml.Value) { l.soft = ratio(v, 10*rule.Whole) },
		"shard_by":          l.readShardBy,
		"candidate":         func(v strictyaml.Value) { l.candidate = &v },
	}
	l.policy.words(words)
	for word, read := range words {
		words[word] = func(v strictyaml.Value) {
			l.said[word] = v
			read(v)
		}
	}
	return words
}

func (l *limit) fail(v strictyaml.Value, problem, hint string) {
	v.Fail(problem, hint)
	l.wrong = true
}

func (l *limit) number(n *uint32) func(strictyaml.Value) {
	return func(v strictyaml.Value) {
		if l.loose && v.IsNull() {
			*n = 0 // null counts as absent
			return
		}
		*n = v.Uint32()
		if !v.IsInt() {
			l.wrong = true
		}
	}
}

func (l *limit) duration(d *time.Duration) func(strictyaml.Value) {
	return func(v strictyaml.Value) {
		written := v.Text()
		parsed, err := rule.ParseDuration(written)
		*d = parsed
		if err == nil {
			return
		}
		hint := "write a duration such as 500ms, 1s, 15m, 1h30m, 1d or 2w"
		if near, ok := rule.ParseUnit(hints.Unit(written)); ok {
			hint = fmt.Sprintf("write %s, or the word unit: %s", text.FormatDuration(near.Per), near.Name)
		} else if v.IsInt() && errors.Is(err, text.ErrNoUnit) {
			hint = fmt.Sprintf("write %ss for seconds, or another unit: ms, m, h, d, w", written)
		}
		l.fail(v, fmt.Sprintf("%s: %q is %v", v.Word(), written, err), hint)
	}
}

func (l *limit) choice(v strictyaml.Value, second *bool, known ...string) {
	i, ok := v.OneOf(known...)
	*second = i == 1
	l.wrong = l.wrong || !ok
}

func (l *limit) readStart(v strictyaml.Value) {
	if renamed(v, map[string]string{"empty": "unused", "full": "used_up"}) {
		l.wrong = true
		return
	}
	l.choice(v, &l.spec.StartUsedUp, "unused", "used_up")
}

// renamed refuses a value that earlier releases called by another name.
func renamed(v strictyaml.Value, names map[string]string) bool {
	name, old := names[v.Text()]
	if old {
		v.Fail(fmt.Sprintf("%s: %s is called %s now", v.Word(), v.Text(), name), fmt.Sprintf("write %s: %s", v.Word(), name))
	}
	return old
}

func (l *limit) readUnit(v strictyaml.Value) {
	text := v.Text()
	if u, ok := rule.ParseUnit(text); ok {
		l.unit, l.calendar = u.Name, u.Calendar
		return
	}
	hint := "write second, minute, hour, day, week, month or year; any other length goes with the word per, such as per: 15m"
	if near := hints.Unit(text); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	} else if d, err := rule.ParseDuration(text); err == nil && d > 0 {
		hint = fmt.Sprintf("write per: %s", text)
	}
	if l.loose { // the unit has no meaning beside `unlimited`
		l.noUnit = func() { l.fail(v, fmt.Sprintf("unknown unit %q", text), hint) }
		return
	}
	l.fail(v, fmt.Sprintf("unknown unit %q", text), hint)
}

func (l *limit) readAlgorithm(v strictyaml.Value) {
	text := v.Text()
	a, err := stint.ParseAlgorithm(text)
	l.spec.Algorithm, l.unknown = a, err != nil || a == stint.Unlimited
	switch {
	case text == "concurrency":
		l.fail(v, "algorithm: concurrency is not in this version", "choose a limit of a rate, such as token_bucket")
	case err == nil && a == stint.Unlimited:
		l.fail(v, "unlimited is no algorithm", "write unlimited: true instead of the algorithm and its numbers")
	case err != nil:
		l.fail(v, fmt.Sprintf("unknown algorithm %q", text), hints.Algorithm(text))
	}
}

func (l *limit) readBlocks(v strictyaml.Value) {
	n := v.Uint(stint.MaxBlocks)
	l.spec.Blocks = int(n)
	if !v.IsInt() || n == 0 {
		l.wrong = true
		if v.IsInt() && v.Text() == "0" {
			v.Fail("blocks: 0 blocks count nothing", "write 1 or more; more are more exact")
		}
	}
}

func (l *limit) readZone(v strictyaml.Value) {
	text := v.Text()
	zone, err := time.LoadLocation(text)
	if err != nil || text == "" || text == "Local" {
		l.fail(v, fmt.Sprintf("unknown time zone %q", text), "write a name of the IANA database, such as Europe/Madrid or UTC")
		return
	}
	l.zone = zone
}

func (l *limit) readAnchor(v strictyaml.Value) {
	if v.Text() == "subscription" {
		if l.subscription = l.inPlan; !l.inPlan {
			l.fail(v, "anchor: subscription outside of a plan", "write a day from 1 to 31; only limits of plans know when a subscription began")
		}
		return
	}
	l.spec.Anchor = uint8(v.Count(31, "0 is no day", "write a day from 1 to 31, or leave it out for the first of the month"))
	l.wrong = l.wrong || l.spec.Anchor == 0
}

func (l *limit) readReplaces(v strictyaml.Value) {
	for _, element := range v.List() {
		if !element.IsObject() {
			element.Fail("replaces holds something that is no object", "write a list such as `replaces: [{name: other}]`")
			continue
		}
		name := ""
		element.Object("an element of replaces", strictyaml.Words{"name": func(v strictyaml.Value) { name = v.Text() }})
		if name == "" {
			element.Fail("an element of replaces without a name", "write {name: NAME}, the name of the limit that is replaced")
			continue
		}
		l.replaces = append(l.replaces, name)
	}
}

func (l *limit) readHeaders(v strictyaml.Value) {
	l.headers = []rule.Preset{}
	for _, element := range v.OneOrList() {
		i, ok := element.OneOf(rule.PresetNames()...)
		if !ok {
			continue
		}
		for _, p := range l.headers {
			if p == rule.Preset(i) || p == rule.None || rule.Preset(i) == rule.None {
				element.Fail(fmt.Sprintf("headers: %s beside %s", rule.Preset(i), p), "name each preset once; none stands alone")
			}
		}
		l.headers = append(l.headers, rule.Preset(i))
	}
	if len(l.headers) == 0 {
		l.headers = nil
		if v.IsNull() || v.IsList() && len(v.List()) == 0 {
			v.Fail("headers says nothing", "write ietf, legacy, draft03 or none, or leave it out")
		}
	}
}

// explain reports why the numbers make no limit, at the word with the wrong number.
func (l *limit) explain(err error) {
	var spec *stint.SpecError
	if !errors.As(err, &spec) {
		l.at.Fail(err.Error(), "check the numbers of this limit")
		return
	}
	at, word := l.at, spec.Field
	for _, name := range []string{spec.Field, map[string]string{"requests": "requests_per_unit", "per": "unit"}[spec.Field]} {
		if v, ok := l.said[name]; ok {
			at, word = v, name
			break
		}
	}
	at.Fail(word+": "+spec.Problem, spec.Hint)
}
