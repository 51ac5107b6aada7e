package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// OneOf returns a check that accepts some words only.
func OneOf(words ...string) func(string) error {
	return func(s string) error {
		if slices.Contains(words, s) {
			return nil
		}
		return Fault(fmt.Sprintf("unknown value %q", s), "use "+strings.Join(words, " or "))
	}
}

// CheckFieldName accepts the name of a header field, and the empty text.
func CheckFieldName(name string) error {
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("\"(),/:;<=>?@[\\]{}", c) >= 0 {
			return Fault(fmt.Sprintf("%q is no name of a header field", name), "write letters, digits and dashes, such as RateLimit-Limit")
		}
	}
	return nil
}

// Refusal is the status of a refusal, between two bounds; 0, an empty text, means none.
func Refusal(field *int, least, most int) Value { return &refusal{field, least, most} }

type refusal struct {
	field       *int
	least, most int
}

func (v *refusal) Type() string { return "status" }

func (v *refusal) String() string {
	if *v.field == 0 {
		return ""
	}
	return strconv.Itoa(*v.field)
}

func (v *refusal) Set(s string) error {
	n, err := strconv.Atoi(s)
	if s != "" && err != nil {
		return Fault(fmt.Sprintf("%q is no status", s), v.hint())
	}
	*v.field = n
	return v.Check()
}

func (v *refusal) hint() string {
	return fmt.Sprintf("write %d to %d, such as 403, or nothing for that of the limit", v.least, v.most)
}

func (v *refusal) Check() error {
	if n := *v.field; n != 0 && (n < v.least || n > v.most) {
		return Fault(fmt.Sprintf("%d is no status of a refusal", n), v.hint())
	}
	return nil
}

// DurationOrAuto is a Duration; the text auto stands for the value auto.
func DurationOrAuto(field *time.Duration, auto time.Duration) Value {
	return &durationOrAuto{duration{field}, auto}
}

const autoWord = "auto"

type durationOrAuto struct {
	duration
	auto time.Duration
}

func (v *durationOrAuto) String() string {
	if *v.field == v.auto {
		return autoWord
	}
	return v.duration.String()
}

func (v *durationOrAuto) Set(s string) error {
	if s == autoWord {
		*v.field = v.auto
		return nil
	}
	return v.duration.Set(s)
}

func (v *durationOrAuto) Check() error {
	if *v.field == v.auto {
		return nil
	}
	return v.duration.Check()
}
