package action

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"stint/internal/strictyaml"
)

// usualMost is the default of the highest cost that a client may name.
const usualMost = 10_000

// ReadCost compiles `cost` and reports its faults. It is a number, or an object with the place of
// the cost in a request. paths is how paths are read.
func ReadCost(v strictyaml.Value, paths Paths) *Cost {
	if !v.IsObject() {
		return readFixed(v)
	}
	r := costReader{paths: paths, said: map[string]strictyaml.Value{}, span: span{silent: 1, least: 1, most: usualMost}}
	keep := func(v strictyaml.Value) { r.kinds = append(r.kinds, v) }
	words := strictyaml.Words{
		"header": keep, "query": keep, "body": keep, "routes": keep,
		"default": func(v strictyaml.Value) { r.silent = v.Uint32() },
		"min":     func(v strictyaml.Value) { r.least = v.Uint32() },
		"max":     func(v strictyaml.Value) { r.most = v.Uint32() },
	}
	for word, read := range words {
		words[word] = func(v strictyaml.Value) {
			r.said[word] = v
			read(v)
		}
	}
	known := v.Object("cost", words, costHint)
	switch {
	case !known:
	case len(r.kinds) == 0:
		v.Fail("cost without a place in the request", "add header: NAME, query: NAME, body: SIZE or routes:, or write a number alone")
	case len(r.kinds) > 1:
		r.kinds[1].Fail(fmt.Sprintf("cost: %s beside %s", r.kinds[1].Word(), r.kinds[0].Word()), "keep one of the two; another element of rate_limits may have another cost")
	default:
		return r.read(v)
	}
	return nil
}

// ReadHitsAddend compiles hits_addend, Envoy's word for a fixed cost.
func ReadHitsAddend(v strictyaml.Value) *Cost {
	var number *strictyaml.Value
	known := v.Object("hits_addend", strictyaml.Words{"number": func(v strictyaml.Value) { number = &v }}, func(word string) string {
		if word == "format" {
			return "write cost: {header: NAME} or cost: {query: NAME}, which read a request"
		}
		return ""
	})
	switch {
	case number != nil:
		return readFixed(*number)
	case known:
		v.Fail("hits_addend without number", "write hits_addend: {number: 5}")
	}
	return nil
}

func readFixed(v strictyaml.Value) *Cost {
	if !v.IsInt() && !v.IsList() {
		v.Fail("cost: a text is not a cost", "write a whole number, or its place in the request, such as {header: x-cost}")
		return nil
	}
	n := v.Uint32()
	if isZero(v) {
		v.Fail("a cost of 0 counts nothing", "write 1 or more; write min: 0 if requests may set a cost of 0")
	}
	return &Cost{text: fmt.Sprint(n), prices: []Price{{"every request", n}}, of: fixed(n)}
}

// isZero reports whether the value is the number 0.
func isZero(v strictyaml.Value) bool {
	if !v.IsInt() {
		return false
	}
	n, err := strconv.ParseUint(v.Text(), 0, 64)
	return err == nil && n == 0
}

func costHint(word string) string {
	switch word {
	case "number", "value", "fixed", "units":
		return "write a fixed cost directly, such as cost: 5"
	case "header_name", "request_header", "request_headers":
		return "write header: NAME"
	case "query_parameter", "query_parameters", "query_parameter_name", "parameter":
		return "write query: NAME"
	case "body_size", "bytes", "size", "content_length":
		return "write body: SIZE, the bytes of one unit, such as body: 1KiB"
	case "route", "paths", "path":
		return `write routes: {"GET /v1/export": 50}`
	}
	return ""
}

// costReader reads an object with the place of a cost.
type costReader struct {
	span
	paths Paths
	kinds []strictyaml.Value
	said  map[string]strictyaml.Value
}

func (r *costReader) read(v strictyaml.Value) *Cost {
	at := r.kinds[0]
	if _, says := r.said["max"]; !says && at.Word() == "body" {
		r.most = math.MaxUint32 // the client does not choose the size freely
	}
	c := new(Cost)
	switch at.Word() {
	case "routes":
		r.readRoutes(at, c)
		return c
	case "header":
		name := HeaderName(at)
		c.text, c.of = "header "+name, headerCost(name, r.span)
	case "query":
		name := at.NonEmpty()
		c.text, c.of = "query "+name, queryCost(name, r.span)
	case "body":
		each := readSize(at)
		c.text, c.of = fmt.Sprintf("body in %d bytes", each), bodyCost(max(each, 1), r.span)
	}
	c.prices = []Price{{"a request that names no cost", r.silent}, {"every request", r.least}}
	r.checkSpan(v)
	c.text += fmt.Sprintf(" from %d to %d else %d", r.least, r.most, r.silent)
	return c
}

// checkSpan reports bounds without a number between them, and a default outside the bounds.
func (r *costReader) checkSpan(v strictyaml.Value) {
	least, saysLeast := r.said["min"]
	most, saysMost := r.said["max"]
	silent, saysSilent := r.said["default"]
	for word, n := range map[string]uint32{"min": r.least, "max": r.most, "default": r.silent} {
		if v, ok := r.said[word]; ok && n == 0 && !isZero(v) {
			return // reported already
		}
	}
	switch at := v; {
	case r.least > r.most, r.most == 0:
		if saysMost {
			at = most
		} else if saysLeast {
			at = least
		}
		at.Fail(fmt.Sprintf("cost: there is not a number from %d to %d", r.least, r.most), fmt.Sprintf("write a max above 0 and not below min; the default is %d", usualMost))
	case r.silent < r.least || r.silent > r.most:
		if saysSilent {
			at = silent
		}
		at.Fail(fmt.Sprintf("cost: the default %d is not from %d to %d", r.silent, r.least, r.most), "write default: and the cost of a request that names none")
	}
}

var headerName = regexp.MustCompile("^[-!#$%&'*+.^_`|~0-9A-Za-z]+$")

// badPattern is the hint for patterns that make no set.
const badPattern = "write [METHOD ]/PATH, with {name} for one segment and {name...} for all that follow; of two patterns that overlap one must be the more specific"

// readRoutes reads a cost for each of some routes.
func (r *costReader) readRoutes(v strictyaml.Value, c *Cost) {
	for _, word := range []string{"min", "max"} {
		if at, ok := r.said[word]; ok {
			at.Fail(fmt.Sprintf("cost: %s beside routes", word), "with routes no request names its own cost; remove it")
		}
	}
	if at, ok := r.said["default"]; ok && isZero(at) {
		at.Fail("a cost of 0 counts nothing", "write 1 or more")
	}
	fields := v.Fields()
	if len(fields) == 0 && (v.IsObject() || v.IsNull()) {
		v.Fail("routes is empty", `write routes: {"GET /v1/export": 50}`)
	}
	patterns := make([]string, len(fields))
	costs := map[string]uint32{}
	for i, f := range fields {
		patterns[i], costs[f.Name] = f.Name, f.Value.Uint32()
		c.prices = append(c.prices, Price{f.Name, costs[f.Name]})
		if isZero(f.Value) {
			f.Value.Fail(fmt.Sprintf("routes: a cost of 0 for %s counts nothing", f.Name), "write 1 or more")
		}
	}
	set, ok := readPatterns(patterns, r.paths, func(i int) strictyaml.Value { return fields[i].Value })
	if !ok {
		return
	}
	c.prices = append(c.prices, Price{"any other request", r.silent})
	c.text = fmt.Sprintf("by %d routes else %d", len(fields), r.silent)
	c.ofPath = routeCost(set, costs, r.span)
}

// sizes are the units of sizes.
var sizes = []struct {
	name  string
	bytes uint64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"", 1}}

// readSize reads a number of bytes, such as 512 or 64KiB.
func readSize(v strictyaml.Value) uint64 {
	text := v.NonEmpty()
	if text == "" {
		return 0
	}
	for _, unit := range sizes {
		number, ok := strings.CutSuffix(text, unit.name)
		if !ok {
			continue
		}
		if n, err := strconv.ParseUint(number, 10, 63); err == nil && n > 0 && n <= math.MaxInt64/unit.bytes {
			return n * unit.bytes
		}
		break
	}
	v.Fail(fmt.Sprintf("%s: %q is not a size", v.Word(), text), "write bytes, or a whole number with KiB, MiB or GiB, such as 64KiB")
	return 0
}
