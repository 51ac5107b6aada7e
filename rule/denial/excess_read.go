package denial

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"time"

	"stint/internal/strictyaml"
	"stint/internal/text"
)

// The limits of an excess in a rule file.
const (
	leastWait   = time.Millisecond
	longestWait = time.Hour
	mostPlaces  = 1_000_000
	leastKeep   = time.Second
	longestKeep = 30 * 24 * time.Hour
	mostTries   = 1000
)

// ReadExcess reads the word `excess` of a rule file and reports its faults. It is nil for drop, and
// must not be used after a fault.
func ReadExcess(v strictyaml.Value) *Excess {
	e := &excessReader{at: v}
	if v.IsObject() {
		e.readObject(v)
	} else {
		e.readMode(v)
	}
	if e.Mode == Drop {
		return nil
	}
	e.fillIn()
	return &e.Excess
}

// excessReader is an excess that is being read.
type excessReader struct {
	Excess
	at       strictyaml.Value
	said     map[string]strictyaml.Value
	saysMode bool
}

// owners are the modes of words that belong to one mode alone.
var owners = map[string]Mode{
	"max_wait": Wait, "places_per_key": Wait,
	"methods": Queue, "when": Queue, "body": Queue, "bytes": Queue, "keep": Queue, "tries": Queue,
}

func (e *excessReader) readObject(v strictyaml.Value) {
	e.said = map[string]strictyaml.Value{}
	words := strictyaml.Words{
		"mode":           e.readMode,
		"max_wait":       func(v strictyaml.Value) { e.MaxWait = duration(v, leastWait, longestWait) },
		"places":         func(v strictyaml.Value) { e.Places = count(v, mostPlaces) },
		"places_per_key": func(v strictyaml.Value) { e.PlacesPerKey = count(v, mostPlaces) },
		"full":           e.readFull,
		"methods":        e.readMethods,
		"when": func(v strictyaml.Value) {
			i, _ := v.OneOf("always", "asked")
			e.Asked = i == 1
		},
		"body":  func(v strictyaml.Value) { e.Body = size(v) },
		"bytes": func(v strictyaml.Value) { e.Bytes = size(v) },
		"keep":  func(v strictyaml.Value) { e.Keep = duration(v, leastKeep, longestKeep) },
		"tries": func(v strictyaml.Value) { e.Tries = count(v, mostTries) },
	}
	for word, read := range words {
		words[word] = func(v strictyaml.Value) {
			e.said[word] = v
			read(v)
		}
	}
	known := v.Object("excess", words, excessHint)
	if !e.saysMode && known {
		v.Fail("excess without a mode", "add mode: wait, which holds requests, or mode: queue, which stores them")
	}
	for _, f := range v.Fields() {
		owner, owned := owners[f.Name]
		switch {
		case !e.saysMode || !known || f.Name == "mode":
		case e.Mode == Drop:
			f.Value.Fail(f.Name+" beside mode: drop", "leave it out: nothing is held or stored")
		case owned && owner != e.Mode:
			f.Value.Fail(fmt.Sprintf("%s beside mode: %v", f.Name, e.Mode), fmt.Sprintf("leave it out: it belongs to mode: %v", owner))
		}
	}
}

func excessHint(word string) string {
	switch word {
	case "timeout", "wait", "delay", "max_delay":
		return "write max_wait:, how long a request may wait"
	case "size", "length", "depth", "max_length", "burst":
		return "write places:, how many requests may wait or be stored"
	case "status", "code":
		return "write full: 429 or 503, the status where there is no place"
	case "retries", "attempts":
		return "write tries:"
	case "ttl", "expiry":
		return "write keep:"
	case "max_body", "body_size":
		return "write body:"
	}
	return ""
}

func (e *excessReader) readMode(v strictyaml.Value) {
	i, ok := v.OneOf("drop", "wait", "queue")
	e.Mode, e.saysMode = []Mode{Drop, Wait, Queue}[max(i, 0)], ok
}

func (e *excessReader) readFull(v strictyaml.Value) {
	e.Full = int(v.Uint(mostStatus))
	if v.IsInt() && e.Full != http.StatusTooManyRequests && e.Full != http.StatusServiceUnavailable {
		v.Fail(fmt.Sprintf("full: %s", v.Text()), "write 429 (the default) or 503")
	}
}

// methodName is a method of HTTP.
var methodName = regexp.MustCompile("^[A-Z][A-Z0-9_-]*$")

func (e *excessReader) readMethods(v strictyaml.Value) {
	elements := v.OneOrList()
	e.Methods = []string{}
	for _, element := range elements {
		method := element.Text()
		switch {
		case method == http.MethodConnect:
			element.Fail("methods: CONNECT opens a tunnel", "leave it out: a tunnel cannot be stored")
		case !methodName.MatchString(method):
			element.Fail(fmt.Sprintf("methods: %q is no method of HTTP", method), "write methods in capitals, such as [POST, PUT]")
		case slices.Contains(e.Methods, method):
			element.Fail(fmt.Sprintf("methods: %s stands twice", method), "keep one of the two")
		}
		e.Methods = append(e.Methods, method)
	}
	if len(elements) == 0 {
		v.Fail("methods is empty, so nothing would be stored", "write at least one, such as [POST], or excess: drop")
	}
}

// fillIn sets the defaults of the words that are not there.
func (e *excessReader) fillIn() {
	fill(&e.Full, DefaultFull)
	if e.Mode == Wait {
		fill(&e.MaxWait, DefaultMaxWait)
		fill(&e.Places, DefaultPlaces)
		at, says := e.said["places_per_key"]
		if !says {
			e.PlacesPerKey = min(DefaultPlacesPerKey, e.Places)
		}
		if says && e.PlacesPerKey > e.Places {
			at.Fail(fmt.Sprintf("places_per_key: %d of %d places", e.PlacesPerKey, e.Places), "write at most as many as places")
		}
		return
	}
	if e.Methods == nil {
		e.Methods = []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
	}
	fill(&e.Places, DefaultQueued)
	if _, says := e.said["body"]; !says {
		e.Body = DefaultBody
	}
	fill(&e.Bytes, DefaultBytes)
	fill(&e.Keep, DefaultKeep)
	fill(&e.Tries, DefaultTries)
	if e.Body > e.Bytes {
		at := e.at
		if body, says := e.said["body"]; says {
			at = body
		}
		at.Fail(fmt.Sprintf("body: %s is more than the %s of all requests", text.FormatSize(e.Body), text.FormatSize(e.Bytes)), "lower body, or raise bytes")
	}
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// count reads a whole number from 1 to most.
func count(v strictyaml.Value, most uint64) uint32 {
	n := v.Uint(most)
	if v.IsInt() && n == 0 && v.Text() == "0" {
		v.Fail(v.Word()+": 0", fmt.Sprintf("write 1 to %d", most))
	}
	return uint32(n)
}

// duration reads a length of time between two bounds.
func duration(v strictyaml.Value, least, most time.Duration) time.Duration {
	d, err := text.ParseDuration(v.Text())
	hint := fmt.Sprintf("write a duration from %s to %s, such as 5s, 15m or 1d", text.FormatDuration(least), text.FormatDuration(most))
	if err != nil {
		v.Fail(fmt.Sprintf("%s: %q is %v", v.Word(), v.Text(), err), hint)
	} else if d < least || d > most {
		v.Fail(fmt.Sprintf("%s: %s", v.Word(), v.Text()), hint)
	}
	return d
}

// size reads a number of bytes.
func size(v strictyaml.Value) int64 {
	n, ok := text.ParseSize(v.Text())
	if !ok {
		v.Fail(fmt.Sprintf("%s: %q is not a size", v.Word(), v.Text()), "write bytes, or a whole number with KiB, MiB or GiB, such as 1MiB")
	}
	return n
}
