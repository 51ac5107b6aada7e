package stint

import "strings"

// Handling says how a take is handled on its way to the counters: what the layers between caller
// and store look at, and stores of several servers or that lend. Like a Call it belongs to the
// caller, who may share one among takes that are handled alike, unless it has a Loan; whoever
// keeps a take keeps a copy of it.
type Handling struct {
	// Terms are what the takes of the rule have in common; nil: it is the take of no rule, or
	// of one that has nothing to say there.
	Terms *Terms

	// Place says where the key stands in a store of several servers or partitions:
	// keys of the same place stand on the same one, where calls about them are decided
	// at one moment. A key always comes with the same place; "" is the key itself.
	Place Key

	// Loan is what this node has to tell about what it was lent, and gets in answer. The
	// store reads it before it decides, and lends after that. Nil: nothing, which stores
	// that cannot lend take any Loan for.
	Loan *Loan

	// OnFailure says what answers where the store cannot, and Local how much may pass
	// in this process meanwhile if OnFailure is Local. A guard around the store looks at them,
	// see package guard. Of sources those of the take that borrows count.
	OnFailure Failure
	Local     *Limit

	// Live says that what the take charges comes and goes with more than the takes of its
	// key, such as the answers to requests or a gauge: its refusal holds for this moment
	// only, and nobody may remember it.
	Live bool
}

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

	// Coordination is how the nodes agree on a key. KeptAfterLoss says that a Leased key starts
	// unused after the store lost what it knew.
	Coordination  Coordination
	KeptAfterLoss bool

	// AskPeers says that a Gossip take is decided after all other nodes were asked what they
	// took of the key.
	AskPeers bool

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

// Clone returns a take that may be kept after the call: with a key, a place and a Handling of its
// own, and without a Loan.
func (t *Take) Clone() Take {
	own := *t
	own.Key = Key(strings.Clone(string(t.Key)))
	if t.Handling != nil {
		how := *t.Handling
		how.Place, how.Loan = Key(strings.Clone(string(how.Place))), nil
		own.Handling = &how
	}
	return own
}

// Terms returns those of the take's rule, nil for none.
func (t *Take) Terms() *Terms {
	if t.Handling == nil {
		return nil
	}
	return t.Handling.Terms
}

// Coordination returns how the nodes agree on the key: Strict where nothing else is said.
func (t *Take) Coordination() Coordination {
	if terms := t.Terms(); terms != nil {
		return terms.Coordination
	}
	return Strict
}

// Place returns where the key stands, which is the key itself where nothing else is said.
func (t *Take) Place() Key {
	if t.Handling == nil || t.Handling.Place == "" {
		return t.Key
	}
	return t.Handling.Place
}

// Loan returns the take's Handling.Loan, nil for none.
func (t *Take) Loan() *Loan {
	if t.Handling == nil {
		return nil
	}
	return t.Handling.Loan
}

// OnFailure returns what answers where the store cannot, and the limit by which Local does.
func (t *Take) OnFailure() (Failure, *Limit) {
	if t.Handling == nil {
		return Allow, nil
	}
	return t.Handling.OnFailure, t.Handling.Local
}

// Live returns the take's Handling.Live.
func (t *Take) Live() bool { return t.Handling != nil && t.Handling.Live }
