package config

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	texts "stint/internal/text"
)

// Value is a field as text.
type Value interface {
	Type() string     // the name of the type for flag libraries
	String() string   // the current value
	Set(string) error // sets the value; a list appends it
	Check() error     // checks the current value, which the program may have set directly
}

// fault is a problem with a hint what to do about it.
type fault struct{ problem, hint string }

// Error returns the problem.
func (e *fault) Error() string { return e.problem }

// Fault returns an error with a hint what to do about it.
func Fault(problem, hint string) error { return &fault{problem, hint} }

// HintOf returns the hint of an error that has one, else "".
func HintOf(err error) string {
	if f, ok := errors.AsType[*fault](err); ok {
		return f.hint
	}
	return ""
}

// Text is a string. valid returns the problem of a value; nil means that all are valid.
func Text(field *string, valid func(string) error) Value { return &text{field, valid} }

// Secret is a string that is never shown.
func Secret(field *string) Value { return &secret{field} }

// Path is the name of a file.
func Path(field *string) Value { return &path{field} }

// List is several strings, separated by commas or set one after another, see Text.
func List(field *[]string, valid func(string) error) Value { return &list{field, valid, false} }

// Paths are the names of several files.
func Paths(field *[]string) Value { return &list{field, nil, true} }

// Empty removes all elements of a list, and does nothing to other values.
func Empty(v Value) {
	if l, ok := v.(*list); ok {
		*l.field = nil
	}
}

// Flag is a bool.
func Flag(field *bool) Value { return &flag{field} }

// Duration is a time, for example 1.5s, and not negative.
func Duration(field *time.Duration) Value { return &duration{field} }

// Bounds are the bounds of a Size; Most 0 means no upper bound. What is the purpose of the size,
// and More a text about sizes, both for hints.
type Bounds struct {
	Least, Most int64
	What, More  string
}

// Size is a number of bytes, for example 512MiB.
func Size(field *int64, b Bounds) Value { return &size{field, b.Least, b.Most, b.What, b.More} }

// Number is a whole number between two bounds.
func Number(field *int64, least, most int64) Value { return &number{field, least, most} }

// Fraction is a number between 0 and 1.
func Fraction(field *float64) Value { return &fraction{field} }

// Mode is the mode of a file as three octal digits, for example 0660.
func Mode(field *fs.FileMode) Value { return &mode{field} }

// text is a string with a check.
type text struct {
	field *string
	valid func(string) error
}

func (v *text) Type() string   { return "string" }
func (v *text) String() string { return *v.field }

func (v *text) Set(s string) error {
	*v.field = s
	return v.Check()
}

func (v *text) Check() error {
	if v.valid == nil {
		return nil
	}
	return v.valid(*v.field)
}

// secret is a string that is never shown.
type secret struct{ field *string }

func (v *secret) Type() string       { return "string" }
func (v *secret) Set(s string) error { *v.field = s; return nil }
func (v *secret) Check() error       { return nil }

func (v *secret) String() string {
	if *v.field == "" {
		return ""
	}
	return "(hidden)"
}

// path is the name of a file.
type path struct{ field *string }

func (v *path) Type() string       { return "string" }
func (v *path) String() string     { return *v.field }
func (v *path) Set(s string) error { *v.field = s; return nil }
func (v *path) Check() error       { return nil }

// list is several strings, separated by commas or given one after another.
type list struct {
	field *[]string
	valid func(string) error
	paths bool
}

func (v *list) Type() string   { return "list" }
func (v *list) String() string { return strings.Join(*v.field, ",") }

func (v *list) Set(s string) error {
	grown := slices.Clone(*v.field) // other users of the old slice must not see the change
	for item := range strings.SplitSeq(s, ",") {
		if item = strings.TrimSpace(item); item != "" {
			grown = append(grown, item)
		}
	}
	*v.field = grown
	return v.Check()
}

func (v *list) Check() error {
	if v.valid == nil {
		return nil
	}
	for _, item := range *v.field {
		if err := v.valid(item); err != nil {
			return err
		}
	}
	return nil
}

// flag is a bool.
type flag struct{ field *bool }

func (v *flag) Type() string   { return "bool" }
func (v *flag) String() string { return strconv.FormatBool(*v.field) }
func (v *flag) Check() error   { return nil }

func (v *flag) Set(s string) error {
	on, err := strconv.ParseBool(s)
	if err != nil {
		return Fault(fmt.Sprintf("%q is neither true nor false", s), "write true or false")
	}
	*v.field = on
	return nil
}

// duration is a time such as 1.5s.
type duration struct{ field *time.Duration }

func (v *duration) Type() string   { return "duration" }
func (v *duration) String() string { return v.field.String() }

func (v *duration) Set(s string) error {
	d, err := time.ParseDuration(s)
	if err != nil {
		return Fault(fmt.Sprintf("%q is not a time", s), "write a number with its unit, such as 10ms, 5s or 1m")
	}
	*v.field = d
	return v.Check()
}

func (v *duration) Check() error {
	if *v.field < 0 {
		return Fault(fmt.Sprintf("%v is negative", *v.field), "write 0 or a positive time, such as 5s")
	}
	return nil
}

// size is a number of bytes between two bounds; most 0: no upper bound.
type size struct {
	field       *int64
	least, most int64
	what        string // purpose of the size
	more        string // text about sizes, for hints
}

func (v *size) Type() string { return "size" }

func (v *size) String() string { return texts.FormatSize(*v.field) }

func (v *size) Set(s string) error {
	n, ok := texts.ParseSize(s)
	if !ok {
		return Fault(fmt.Sprintf("%q is not a size", s), "write bytes, or a whole number with KiB, MiB or GiB, such as 512MiB")
	}
	*v.field = n
	return v.Check()
}

func (v *size) Check() error {
	if *v.field < v.least {
		least := size{field: &v.least}
		return Fault(fmt.Sprintf("%d bytes is too little for %s", *v.field, v.what), "give it at least "+least.String()+v.more)
	}
	if v.most > 0 && *v.field > v.most {
		most := size{field: &v.most}
		return Fault(fmt.Sprintf("%d bytes is too much for %s", *v.field, v.what), "give it at most "+most.String()+v.more)
	}
	return nil
}

// number is a whole number between two bounds.
type number struct {
	field       *int64
	least, most int64
}

func (v *number) Type() string   { return "number" }
func (v *number) String() string { return strconv.FormatInt(*v.field, 10) }

func (v *number) Set(s string) error {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return Fault(fmt.Sprintf("%q is not a whole number", s), fmt.Sprintf("write a number between %d and %d", v.least, v.most))
	}
	*v.field = n
	return v.Check()
}

func (v *number) Check() error {
	if *v.field < v.least || *v.field > v.most {
		return Fault(fmt.Sprintf("%d is out of bounds", *v.field), fmt.Sprintf("write a number between %d and %d", v.least, v.most))
	}
	return nil
}

// fraction is a number between 0 and 1.
type fraction struct{ field *float64 }

func (v *fraction) Type() string   { return "fraction" }
func (v *fraction) String() string { return strconv.FormatFloat(*v.field, 'g', -1, 64) }

func (v *fraction) Set(s string) error {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return Fault(fmt.Sprintf("%q is not a number", s), "write a number between 0 and 1, such as 0.8")
	}
	*v.field = n
	return v.Check()
}

func (v *fraction) Check() error {
	if !(*v.field >= 0 && *v.field <= 1) {
		return Fault(fmt.Sprintf("%v is no part of a whole", *v.field), "write a number between 0 and 1, such as 0.8")
	}
	return nil
}

// mode is the mode of a file.
type mode struct{ field *fs.FileMode }

func (v *mode) Type() string   { return "mode" }
func (v *mode) String() string { return fmt.Sprintf("%04o", uint32(*v.field)) }

func (v *mode) Set(s string) error {
	n, err := strconv.ParseUint(s, 8, 32)
	if err != nil {
		return Fault(fmt.Sprintf("%q is not the mode of a file", s), modeHint)
	}
	*v.field = fs.FileMode(n)
	return v.Check()
}

const modeHint = "write three octal digits, such as 0600 for the owner alone or 0660 for the group too"

func (v *mode) Check() error {
	if *v.field > fs.ModePerm {
		return Fault(v.String()+" is more than the permissions of a file", modeHint)
	}
	return nil
}
