package action

import (
	"fmt"
	"strconv"

	"stint/internal/urlpath"
)

// Sizer is what Attributes may know besides: how many bytes the body of the request
// has, and whether that is known before it is read.
type Sizer interface {
	// BodySize returns the size, and false where only reading it would tell.
	BodySize() (bytes int64, known bool)
}

// Parameters is what Attributes may know besides: all values of a query parameter,
// in their order. Without it a parameter has one value.
type Parameters interface {
	// QueryValues returns the values, none where there is no such parameter.
	QueryValues(name string) []string
}

// CostError says that a request names a cost that is none. Whoever sent it made a
// mistake, so it is refused rather than let pass for nothing.
type CostError struct {
	Where   string // what names the cost, such as "header x-cost"
	Value   string // what it says, cut where it is long
	Problem string // what is wrong with that
}

// Error says what is wrong, and where.
func (e *CostError) Error() string { return fmt.Sprintf("%s: %q %s", e.Where, e.Value, e.Problem) }

// Cost is how many units a request costs. It is immutable; nil is one unit.
type Cost struct {
	text   string // for people
	prices []Price
	of     func(a Attributes) (uint32, error)
	ofPath func(a Attributes, path string) uint32 // from one reading of the path; of is nil then
}

// Price is a cost that stands in the rule file.
type Price struct {
	Of    string // what costs so much, such as "GET /export"
	Units uint32
}

// Prices returns the costs that the file itself fixes, rather than a request.
func (c *Cost) Prices() []Price {
	if c == nil {
		return []Price{{"every request", 1}}
	}
	return c.prices
}

// Of returns what a request costs, by one reading of its path, see [Paths]. The error is
// a [*CostError].
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

// String returns what the cost depends on, for people and tests.
func (c *Cost) String() string {
	if c == nil {
		return "1"
	}
	return c.text
}

// span is the costs that a request may name, and the one that it has where it names
// none.
type span struct{ silent, least, most uint32 }

// fixed costs every request alike.
func fixed(n uint32) func(Attributes) (uint32, error) {
	return func(Attributes) (uint32, error) { return n, nil }
}

// parse reads the values that a request gives for its cost.
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
		return 0, &CostError{where, cut(values[0]), fmt.Sprintf("is no whole number from %d to %d", s.least, s.most)}
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

// headerCost reads the cost from a header.
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

// queryCost reads the cost from a parameter of the query.
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

// bodyCost counts a unit for so many bytes of the body that are begun.
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

// routeCost looks the cost up by the route that a request takes.
func routeCost(set *urlpath.Routes, costs map[string]uint32, s span) func(Attributes, string) uint32 {
	return func(a Attributes, path string) uint32 {
		if pattern, ok := set.Match(a.Method(), path); ok {
			return costs[pattern]
		}
		return s.silent
	}
}
