package redis

import (
	"slices"
	"sync"

	"stint/store/redis/script"
)

// manifest collects the keys and takes of a group of batches for quick.lua. It has each key once,
// however many takes want it. Takes that are decided by themselves go first, those of one key side
// by side: they are all in flight at the same time, so any order will do. But within a call order
// counts: a take by itself goes with the merged ones if several takes decided as one asked for its
// key before. Only what decide.lua must decide comes after all others.
type manifest struct {
	uses   []keyUse
	names  map[string]int // index in uses by key
	forms  []limitCost
	merged []merged
	alone  int   // number of uses with turns, once order is made
	order  []int // indexes in uses, in the order of KEYS: those with turns, then the others
	bytes  []byte
}

// keyUse is a key that the script reads.
type keyUse struct {
	name, head string
	form       int   // index in forms, by which the script reads the state
	turns      int   // number of takes that are decided by themselves
	shared     bool  // takes that are decided with others want it too
	place      int   // index in KEYS
	word       int64 // the state that the next take by itself finds
}

// limitCost is a limit and a cost.
type limitCost struct {
	quick *script.Quick
	cost  uint64
	part  *part // one of the parts with this limit and cost
}

// merged is a take that is decided with others.
type merged struct {
	keyUse, form int
	more         bool // the next one is decided with it
}

// mergedWithNext is the flag of an argument byte: the next take is decided with this one. The lower
// bits are the index of a key.
const mergedWithNext = 128

var manifests = sync.Pool{New: func() any { return &manifest{names: make(map[string]int)} }}

// release returns the manifest to the pool.
func (m *manifest) release() {
	clear(m.uses)
	clear(m.forms)
	clear(m.names)
	m.uses, m.forms, m.merged, m.order, m.alone = m.uses[:0], m.forms[:0], m.merged[:0], m.order[:0], 0
	manifests.Put(m)
}

// add adds the takes of a batch.
func (m *manifest) add(b *batch) {
	for i := range b.groups {
		g := &b.groups[i]
		parts := b.parts[g.first:g.end]
		if len(parts) == 1 && m.addAlone(&parts[0]) {
			continue
		}
		known := true
		for j := range parts {
			known = m.useOf(&parts[j]) >= 0 && known
		}
		for j := range parts {
			p := &parts[j]
			if !known {
				p.keyUse = -1 // left to decide.lua
				continue
			}
			p.merged = len(m.merged)
			m.uses[p.keyUse].shared = true
			m.merged = append(m.merged, merged{p.keyUse, m.formOf(p), j < len(parts)-1})
		}
	}
}

// addAlone adds a take that is decided by itself. It returns false if the take must be merged.
func (m *manifest) addAlone(p *part) bool {
	i := m.useOf(p)
	if i < 0 {
		return false
	}
	s, form := &m.uses[i], m.formOf(p)
	if s.shared || s.turns > 0 && s.form != form {
		return false
	}
	s.form = form
	s.turns++
	p.merged = -1
	return true
}

// useOf returns the index of a part's key, and adds it if it is new. It returns -1 if another
// part of the group counts the key under other numbers.
func (m *manifest) useOf(p *part) int {
	i, ok := m.names[p.name]
	if !ok {
		i = len(m.uses)
		m.names[p.name] = i
		m.uses = append(m.uses, keyUse{name: p.name, head: p.Head, form: m.formOf(p)})
	}
	if p.keyUse = i; m.uses[i].head != p.Head {
		p.keyUse = -1
	}
	return p.keyUse
}

// formOf returns the index in forms of a part's limit and cost, and adds them if they are new.
func (m *manifest) formOf(p *part) int {
	if i := slices.IndexFunc(m.forms, func(a limitCost) bool { return a.quick == p.Quick && a.cost == p.takes() }); i >= 0 {
		return i
	}
	m.forms = append(m.forms, limitCost{p.Quick, p.takes(), p})
	return len(m.forms) - 1
}

// keys returns KEYS: those of all takes, then the process of the batch if it has one.
func (m *manifest) keys(b *batch) []string {
	for i := range m.uses {
		if m.uses[i].turns > 0 {
			m.order = append(m.order, i)
		}
	}
	m.alone = len(m.order)
	for i := range m.uses {
		if s := &m.uses[i]; s.turns == 0 && s.shared { // skip keys that only decide.lua needs
			m.order = append(m.order, i)
		}
	}
	keys := make([]string, 0, len(m.order)+1)
	for place, i := range m.order {
		m.uses[i].place = place
		keys = append(keys, m.uses[i].name)
	}
	if b.process != "" {
		keys = append(keys, b.process)
	}
	return keys
}

// words returns ARGV for a group that is decided at the time of b. The caller calls keys first.
// renew makes the script set the TTL of all keys that it writes.
func (m *manifest) words(b *batch, renew bool) []string {
	bytes := script.Doubles(m.bytes[:0], int64(b.at), b.spare(), script.Flag(renew))
	for i := range m.forms {
		f := &m.forms[i]
		bytes = script.Doubles(bytes, f.part.units(), f.part.most(), f.quick.Per, int64(f.quick.Charge))
	}
	numbers := len(bytes)
	for _, i := range m.order {
		bytes = append(bytes, byte(m.uses[i].form))
	}
	plan := len(bytes)
	for _, i := range m.order[:m.alone] {
		bytes = append(bytes, byte(m.uses[i].turns))
	}
	turns := len(bytes)
	for _, r := range m.merged {
		place := byte(m.uses[r.keyUse].place)
		if r.more {
			place |= mergedWithNext
		}
		bytes = append(bytes, place, byte(r.form))
	}
	m.bytes = bytes
	text := string(bytes)
	words := make([]string, 0, 4+len(m.forms))
	words = append(words, text[:numbers], text[numbers:plan], text[plan:turns], text[turns:])
	for i := range m.forms {
		words = append(words, m.forms[i].quick.Head)
	}
	return words
}

// read gives each part of a batch the state that it found. For several takes of one key the script
// answers the first state only; each later take finds what the take before it leaves.
func (m *manifest) read(b *batch, words []int64) {
	for i := range b.parts {
		p := &b.parts[i]
		switch {
		case p.keyUse < 0:
			p.word = -1
		case p.merged >= 0:
			p.word = words[p.merged]
		default:
			s := &m.uses[p.keyUse]
			p.word = s.word
			if s.turns--; s.turns > 0 && s.word >= 0 {
				st := p.Quick.State(s.word, b.found)
				p.Limit.Take(&st, b.found, p.takes())
				s.word = p.Quick.Word(st)
			}
		}
	}
}
