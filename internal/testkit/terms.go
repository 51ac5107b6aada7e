package testkit

import "stint"

// Coordinate puts a take under the terms of a rule, and leaves it as it is else. The Handling that it
// came with stays as it was: others may have it too.
func Coordinate(t *stint.Take, terms *stint.Terms) {
	how := stint.Handling{}
	if t.Handling != nil {
		how = *t.Handling
	}
	how.Terms = terms
	t.Handling = &how
}
