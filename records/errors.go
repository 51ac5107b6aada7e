package records

// Error is a fault of a record, a change or a file.
type Error struct {
	Where   string `json:"where"`   // the record and the field, such as `ban 10.0.0.0/8: until`, or the file
	Problem string `json:"problem"` // what is wrong
	Hint    string `json:"hint"`    // what to do
	Err     error  `json:"-"`       // the cause; may be nil
}

// Error returns the place and the problem, without the hint.
func (e *Error) Error() string { return e.Where + ": " + e.Problem }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
