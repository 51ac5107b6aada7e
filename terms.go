package stint

// Terms are what all takes of a rule have in common, for whoever stands between the caller
// and the store. They are immutable; takes of one rule share a pointer.
type Terms struct {
	// Domain and Rule name the rule, for people, and from one version of it to the next.
	Domain, Rule string

	// Limit is that of the takes.
	Limit *Limit

	// Own and Rest divide the limit: what each process has for itself at all times, and
	// what the store has for all of them. See packages internal/limits and fleet/quota. Nil:
	// it is not divided.
	Own, Rest *Limit

	// Coordination and KeptAfterLoss are those of the takes.
	Coordination  Coordination
	KeptAfterLoss bool

	// Keys is how many keys of the rule a node keeps at most that decides by itself (see
	// Eventual); 0: as many as it has memory for.
	Keys int
}

// Stored returns the limit that the store is asked.
func (t *Terms) Stored() *Limit {
	if t.Own != nil {
		return t.Rest
	}
	return t.Limit
}
