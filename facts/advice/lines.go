package advice

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"stint"
	"stint/internal/text"
	"stint/rule"
)

// advice returns an advice with its sentence.
func (s *study) advice(cause Cause, number float64, format string, args ...any) *Advice {
	a := &Advice{Cause: cause, Number: number, AtLeast: s.biased(), Text: s.rule.Name + " " + fmt.Sprintf(format, args...) + "."}
	if domain := s.in.Table.Domain(s.rule.Domain); s.in.Command == nil && domain != nil && domain.HasHTTP() {
		a.Command = "stint replay --rules " + s.rule.File + " access.log"
	}
	return a
}

// numbers adds the lines for other numbers or another algorithm.
func (s *study) numbers(a *Advice, spec stint.Spec) {
	a.YAML = s.place(s.rule.Path, spec, nil)
	if s.in.Command != nil { // there is no service that could try it
		a.Command = s.in.Command(spec)
		return
	}
	a.Candidate = s.place(s.rule.Path, plain(&s.spec), &spec)
}

// key is another key of a rule: its path, and the actions that make it.
type key struct {
	path    []rule.Level
	actions []string // "": unknown
	config  string   // lines of the config file instead
}

// addressKey is the entry that most rules count clients by.
const addressKey = "remote_address"

// narrower returns a key that tells clients apart who share one now.
func (s *study) narrower() key {
	domain := s.in.Table.Domain(s.rule.Domain)
	for _, l := range s.rule.Path {
		if domain.HoldsAddress(l.Key) { // the address is that of a proxy
			return key{config: "# in the config file: the addresses of the proxies in front\ntrusted-proxies: [ADDRESS]\n"}
		}
	}
	return key{
		path:    append(append([]rule.Level{}, s.rule.Path...), rule.Level{Key: addressKey}),
		actions: append(s.actions(s.rule.Path), addressAction),
	}
}

// wider returns a key that a client cannot choose anew with each request.
func (s *study) wider() key {
	domain := s.in.Table.Domain(s.rule.Domain)
	var k key
	address := false
	for _, l := range s.rule.Path {
		switch {
		case !l.Varies():
			k.path = append(k.path, l)
		case domain.HoldsAddress(l.Key):
			address = true
		}
	}
	k.actions = s.actions(k.path)
	if address { // one client has many addresses
		k.path = append(k.path, rule.Level{Key: "masked_remote_address"})
		k.actions = append(k.actions, "{masked_remote_address: {v4_prefix_mask_len: 24, v6_prefix_mask_len: 48}}")
		return k
	}
	k.path = append(k.path, rule.Level{Key: addressKey})
	k.actions = append(k.actions, addressAction)
	return k
}

const addressAction = "{" + addressKey + ": {}}"

// actions returns the actions that make the entries of a path, as the http section has them.
func (s *study) actions(path []rule.Level) []string {
	var actions []string
	for _, l := range path {
		actions = append(actions, s.action(l))
	}
	return actions
}

// action returns the action that makes an entry.
func (s *study) action(l rule.Level) string {
	if domain := s.in.Table.Domain(s.rule.Domain); domain != nil {
		for _, element := range domain.HTTP() {
			var h struct{ Actions []map[string]json.RawMessage }
			if json.Unmarshal([]byte(element.Text), &h) != nil {
				continue
			}
			for _, action := range h.Actions {
				for name, words := range action {
					var of struct {
						Key string `json:"descriptor_key"`
					}
					if json.Unmarshal(words, &of) != nil {
						continue
					}
					if of.Key == "" && name == l.Key || of.Key == l.Key {
						return fmt.Sprintf("{%s: %s}", name, words)
					}
				}
			}
		}
	}
	return fmt.Sprintf("{generic_key: {descriptor_key: %s, descriptor_value: %s}}", scalar(l.Key), scalar(l.Value))
}

// keyed adds the lines for another key.
func (s *study) keyed(a *Advice, k key) {
	if k.config != "" {
		a.YAML, a.Command = k.config, ""
		return
	}
	a.YAML = s.place(k.path, plain(&s.spec), nil)
	domain := s.in.Table.Domain(s.rule.Domain)
	if s.in.HTTP != "" || domain != nil && domain.HasHTTP() {
		a.YAML = strings.TrimSuffix(a.YAML, s.in.HTTP)
		a.YAML += "http:\n  rate_limits:\n    - actions: [" + strings.Join(k.actions, ", ") + "]\n"
	}
	if s.in.Command != nil {
		a.Command = "stint replay --rules rules.yaml access.log"
	}
}

// place returns the lines of a rule file with the rule at a path, with a limit and a candidate.
func (s *study) place(path []rule.Level, spec stint.Spec, candidate *stint.Spec) string {
	var b strings.Builder
	if s.in.Command == nil {
		fmt.Fprintf(&b, "# %s:%d\n", s.rule.File, s.rule.Line)
	}
	fmt.Fprintf(&b, "domain: %s\n", scalar(s.rule.Domain))
	indent := ""
	for _, l := range path {
		fmt.Fprintf(&b, "%sdescriptors:\n%s  - key: %s\n", indent, indent, scalar(l.Key))
		indent += "    "
		if l.Value != "" {
			fmt.Fprintf(&b, "%svalue: %s\n", indent, scalar(l.Value))
		}
		if l.Shared {
			fmt.Fprintf(&b, "%sshare_threshold: true\n", indent)
		}
	}
	fmt.Fprintf(&b, "%srate_limit:\n", indent)
	for _, word := range words(&spec) {
		fmt.Fprintf(&b, "%s  %s\n", indent, word)
	}
	if s.rule.Given != "" {
		fmt.Fprintf(&b, "%s  name: %s\n", indent, scalar(s.rule.Given))
	}
	if candidate != nil {
		numbers := *candidate
		numbers.Overdraw = false // no word of a candidate: it is as in its limit
		fmt.Fprintf(&b, "%s  candidate: {%s}\n", indent, strings.Join(words(&numbers), ", "))
	}
	b.WriteString(s.in.HTTP)
	return b.String()
}

// words returns the words of a limit in rule files.
func words(spec *stint.Spec) []string {
	list := []string{fmt.Sprintf("requests: %d", spec.Requests)}
	add := func(on bool, format string, args ...any) {
		if on {
			list = append(list, fmt.Sprintf(format, args...))
		}
	}
	if spec.Calendar == stint.NoPeriod {
		add(true, "per: %s", text.FormatDuration(spec.Per))
	} else {
		zone := time.UTC
		if spec.Zone != nil {
			zone = spec.Zone
		}
		add(true, "unit: %s", spec.Calendar)
		add(true, "time_zone: %s", scalar(zone.String()))
		add(spec.Anchor > 0, "anchor: %d", spec.Anchor)
	}
	add(true, "algorithm: %s", spec.Algorithm)
	add(spec.Burst > 0, "burst: %d", spec.Burst)
	add(spec.Step, "refill: step")
	add(spec.FromFirst, "align: first")
	add(spec.Blocks > 1, "blocks: %d", spec.Blocks)
	add(spec.MinInterval > 0, "min_interval: %s", text.FormatDuration(spec.MinInterval))
	add(spec.MaxWait > 0, "max_wait: %s", text.FormatDuration(spec.MaxWait))
	add(spec.CountDenied, "count_denied: true")
	add(spec.Overdraw, "overdraw: true")
	return list
}

var plainScalar = regexp.MustCompile(`^[A-Za-z_/][A-Za-z0-9_./-]*$`)

// scalar returns a text as a value of YAML.
func scalar(s string) string {
	switch strings.ToLower(s) {
	case "true", "false", "yes", "no", "on", "off", "null", "y", "n":
	default:
		if plainScalar.MatchString(s) {
			return s
		}
	}
	b, _ := json.Marshal(s) // cannot fail: a text
	return string(b)
}

// commented returns lines as comments of YAML.
func commented(lines string) string {
	var b strings.Builder
	b.WriteString("# remove these lines, or send requests that they match\n")
	for line := range strings.Lines(lines) {
		b.WriteString("# " + strings.TrimPrefix(line, "# "))
	}
	return b.String()
}

// period returns the period of a limit in words.
func period(spec *stint.Spec) string {
	if spec.Calendar != stint.NoPeriod {
		return "a " + spec.Calendar.String()
	}
	return text.FormatDuration(spec.Per)
}

// share returns a share as a percentage.
func share(f float64) string {
	const whole = 1e6
	return text.Percent(int64(math.Round(f*whole)), whole)
}

// times returns a multiple in words.
func times(f float64) string {
	if f >= 10 {
		return strconv.FormatFloat(math.Floor(f), 'f', 0, 64) + " times"
	}
	return strconv.FormatFloat(math.Floor(f*10)/10, 'f', 1, 64) + " times"
}

func count(n float64, noun string) string { return text.Count(int(n), noun) }

// hours returns a time in hours or days.
func hours(d time.Duration) string {
	if d < 48*time.Hour {
		return text.Count(int(d.Hours()), "hour")
	}
	return text.Count(int(d.Hours()/24), "day")
}
