package servers

import "stint"

// Pick returns the index of the named server that has the keys of a place: the one with the highest
// weight (rendezvous hashing), whatever the order of the names; -1 if there are none. A server that
// joins n others takes over one key in n+1, and moves no other; if a server leaves, only its own
// keys move.
func Pick(names []string, place stint.Key) int {
	chosen, most := -1, uint64(0)
	h := hash(string(place))
	for i, name := range names {
		w := mix(h ^ seed(name))
		if chosen < 0 || w > most || w == most && name < names[chosen] {
			chosen, most = i, w
		}
	}
	return chosen
}

// seed returns the seed of a server's weights.
func seed(name string) uint64 { return mix(hash(name)) }

// hash is FNV-1a of 64 bits: the same on every node and in every release, as otherwise keys would
// start unused.
func hash(text string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * 0x100000001b3
	}
	return h
}

// mix spreads each bit over all others (the finalizer of MurmurHash3).
func mix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// server returns the number of the server that has the key of a take; nowhere for a take without a
// limit, which is not stored.
func (s *Store) server(t *stint.Take) int {
	if t.Limit.Algorithm() == stint.Unlimited {
		return nowhere
	}
	chosen, most := 0, uint64(0)
	h := hash(string(t.Place()))
	for i, seed := range s.seeds {
		// Servers are sorted by name, so among equal weights the first is the one of Pick.
		if w := mix(h ^ seed); i == 0 || w > most {
			chosen, most = i, w
		}
	}
	return chosen
}

// nowhere is the number for no server.
const nowhere = -1
