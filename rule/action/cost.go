package action

import (
	"fmt"
	"strconv"

	"stint/internal/urlpath"
)

// Sizer is implemented by Attributes that know the size of the request body.
type Sizer interface {
	// BodySize returns the size; false if it is unknown before the body is read.
	BodySize() (bytes int64, known bool)
}

// Parameters is implemented by Attributes that know all values of a query parameter. Without it a
// parameter has one value.
type Parameters interface {
	// QueryValues returns the values of a parameter in order; none if it is missing.
	QueryValues(name string) []string
}

// CostError is an invalid cost in a request. The request is refused, because its sender made a
// mistake.
type CostError struct {
	Where   string // source of the cost, such as "header x-cost"
	Value   string // the invalid value, shortened if long
	Problem string // why the value is invalid
}

// Error returns the source, the value and the problem.
func (e *CostError) Error() string { return fmt.Sprintf("%s: %q %s", e.Where, e.Value, e.Problem) }

// Cost computes how many units a request costs. It is immutable; nil is one unit.
type Cost struct {
	text   string // description for String
	prices []Price
	of     func(a Attributes) (uint32, error)
	ofPath func(a Attributes, path string) uint32 // cost that depends on one reading of the path; of is nil then
}

// Price is a cost that the rule file sets for some requests.
type Price struct {
	Of    string // the requests, such as "GET /export"
	Units uint32
}

// Prices returns the costs that the rule file sets; costs that a request names are left out.
func (c *Cost) Prices() []Price {
	if c == nil {
		return []Price{{"every request", 1}}
	}
	return c.prices
}

// Of returns the cost of a request with one reading of its path, see [Paths]. The error is a
// [*CostError].
func (c *Cost) Of(a Attributes, path string) (uint32, error) {
	switch {
	case c == nil:
		return 1, nil
	case c.ofPath != nil:
		return c.ofPath(a, path), nil
	}
	return c.of(a)
}

// ReadsPath reports whether the cost depends on how the path is read.
func (c *Cost) ReadsPath() bool { return c != nil && c.ofPath != nil }

// String returns what the cost depends on, for output and tests.
func (c *Cost) String() string {
	if c == nil {
		return "1"
	}
	return c.text
}

// span is the range of costs that a request may name; silent is the cost of a request that names
// none.
type span struct{ silent, least, most uint32 }

// fixed returns a function with the same cost for every request.
func fixed(n uint32) func(Attributes) (uint32, error) {
	return func(Attributes) (uint32, error) { return n, nil }
}

// parse returns the cost in the values that a request sent.
func (s span) parse(where string, values []string) (uint32, error) {
	switch len(values) {
	case 0:
		return s.silent, nil
	case 1:
	default:
		return 0, &CostError{where, cut(values[1]), "is a second cost of one request"}
	}
	n, err := strconv.ParseUint(values[0], 10, 32)
	if err != nil || n < uint64(s.least) || n > uint64(s.most) {
		return 0, &CostError{where, cut(values[0]), fmt.Sprintf("is not a whole number from %d to %d", s.least, s.most)}
	}
	return uint32(n), nil
}

func cut(value string) string {
	const most = 40
	if len(value) > most {
		return value[:most] + "..."
	}
	return value
}

// headerCost returns a function that reads the cost from a header.
func headerCost(name string, s span) func(Attributes) (uint32, error) {
	where := "header " + name
	return func(a Attributes) (uint32, error) {
		if c, ok := a.(Connection); ok {
			return s.parse(where, c.Values(name))
		}
		value, ok := a.Header(name)
		return s.parse(where, one(value, ok))
	}
}

// queryCost returns a function that reads the cost from a query parameter.
func queryCost(name string, s span) func(Attributes) (uint32, error) {
	where := "query parameter " + name
	return func(a Attributes) (uint32, error) {
		if p, ok := a.(Parameters); ok {
			return s.parse(where, p.QueryValues(name))
		}
		value, ok := a.Query(name)
		return s.parse(where, one(value, ok))
	}
}

func one(value string, ok bool) []string {
	if !ok {
		return nil
	}
	return []string{value}
}

// bodyCost returns a function that counts one unit for each started block of `each` bytes of the
// body.
func bodyCost(each uint64, s span) func(Attributes) (uint32, error) {
	return func(a Attributes) (uint32, error) {
		sizer, ok := a.(Sizer)
		if !ok {
			return s.silent, nil
		}
		size, known := sizer.BodySize()
		if !known || size < 0 {
			return s.silent, nil
		}
		n := uint64(size) / each
		if uint64(size)%each > 0 {
			n++
		}
		if n > uint64(s.most) {
			return 0, &CostError{"body", strconv.FormatInt(size, 10), fmt.Sprintf("bytes cost more than %d", s.most)}
		}
		return max(uint32(n), s.least), nil
	}
}

// routeCost returns a function that looks up the cost by the route of a request.
func routeCost(set *urlpath.Routes, costs map[string]uint32, s span) func(Attributes, string) uint32 {
	return func(a Attributes, path string) uint32 {
		if pattern, ok := set.Match(a.Method(), path); ok {
			return costs[pattern]
		}
		return s.silent
	}
}
