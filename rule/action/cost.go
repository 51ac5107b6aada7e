package action

import "fmt"

// Sizer is what Attributes may know besides: how many bytes the body of the request
// has, and whether that is known before it is read.
type Sizer interface {
	// BodySize returns the size, and false where only reading it would tell.
	BodySize() (bytes int64, known bool)
}

// CostError says that a request names a cost that is none. Whoever sent it made a
// mistake, so it is refused rather than let pass for nothing.
type CostError struct {
	Where   string // what names the cost, such as "header x-cost"
	Value   string // what it says
	Problem string // what is wrong with that
}

// Error says what is wrong, and where.
func (e *CostError) Error() string { return fmt.Sprintf("%s: %q %s", e.Where, e.Value, e.Problem) }
