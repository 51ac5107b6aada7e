package index

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	"stint/internal/text"
)

// Patterns has values by patterns such as user=test-*: a key, an equals sign, and a pattern for values
// of that key. It is immutable, and the zero Patterns is empty.
type Patterns[T any] struct {
	byKey map[string][]*pattern[T] // in order of precedence
	n     int
}

type pattern[T any] struct {
	target   string
	name     string
	glob     text.Glob
	length   int // bytes without stars
	revision uint64
	value    T
}

// Len returns how many values there are.
func (p Patterns[T]) Len() int { return p.n }

// With returns p with another value. Several values have one target if their names differ.
func (p Patterns[T]) With(target, name string, revision uint64, value T) Patterns[T] {
	next := p.Without(target, name)
	key, of, _ := strings.Cut(target, "=")
	one := &pattern[T]{target, name, text.NewGlob(of), len(of) - strings.Count(of, "*"), revision, value}
	all := next.byKey[key]
	// Those of one change by name, as after a restart.
	at, _ := slices.BinarySearchFunc(all, one, func(a, b *pattern[T]) int {
		return cmp.Or(cmp.Compare(b.length, a.length), cmp.Compare(b.revision, a.revision), strings.Compare(a.target, b.target), strings.Compare(a.name, b.name))
	})
	next.byKey[key] = slices.Insert(all, at, one)
	next.n++
	return next
}

// Without returns p without a value, if it has it.
func (p Patterns[T]) Without(target, name string) Patterns[T] {
	next := Patterns[T]{maps.Clone(p.byKey), p.n}
	if next.byKey == nil {
		next.byKey = map[string][]*pattern[T]{}
	}
	key, _, _ := strings.Cut(target, "=")
	before := next.byKey[key]
	next.byKey[key] = slices.DeleteFunc(slices.Clone(before), func(o *pattern[T]) bool { return o.target == target && o.name == name })
	next.n -= len(before) - len(next.byKey[key])
	return next
}

// Match returns the values whose pattern matches, in order of precedence: longer patterns first, then
// those of a later revision.
func (p Patterns[T]) Match(key, value string) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for _, one := range p.byKey[key] {
			if one.glob.Matches(value) && !yield(&one.value) {
				return
			}
		}
	}
}
