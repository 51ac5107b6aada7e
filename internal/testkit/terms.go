package testkit

import "stint"

// Coordinate sets the terms of a rule in a take; nil changes nothing. It copies the take's
// Handling, because other takes may use it too.
func Coordinate(t *stint.Take, terms *stint.Terms) {
	how := stint.Handling{}
	if t.Handling != nil {
		how = *t.Handling
	}
	how.Terms = terms
	t.Handling = &how
}
