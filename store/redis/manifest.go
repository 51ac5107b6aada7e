package redis

import (
	"slices"
	"sync"

	"stint/store/redis/script"
)

// manifest is what a group of batches asks quick.lua: each key once, however many takes
// want it. Takes that are decided by themselves go first, and of each key together: they
// are all under way at the same time, so any order will do. But what comes later in a call
// is decided later: a take by itself whose key was asked for by several as one before it
// goes with those. Only what is left to decide.lua is decided after all others.
type manifest struct {
	stops  []stop
	names  map[string]int // the place of each stop
	forms  []asked
	merged []merged
	alone  int   // how many stops have turns, once order is made
	order  []int // the stops as they stand in KEYS: those with turns, then the others
	bytes  []byte
}

// stop is a key that is asked for.
type stop struct {
	name, head string
	form       int   // which its state is read by
	turns      int   // the takes by themselves
	shared     bool  // takes that are decided with others ask for it too
	place      int   // among KEYS
	word       int64 // the state that the next take by itself finds
}

// asked is a limit and how many units of it are asked for.
type asked struct {
	of   *script.Quick
	cost uint64
	part *part // one that asks
}

// merged is a take that is decided with others.
type merged struct {
	stop, form int
	more       bool // the next one is decided with it
}

// together says in the words that the next take is decided with this one; below it there
// is room for the place of a key.
const together = 128

var manifests = sync.Pool{New: func() any { return &manifest{names: make(map[string]int)} }}

// release keeps the memory for another group.
func (m *manifest) release() {
	clear(m.stops)
	clear(m.forms)
	clear(m.names)
	m.stops, m.forms, m.merged, m.order, m.alone = m.stops[:0], m.forms[:0], m.merged[:0], m.order[:0], 0
	manifests.Put(m)
}

// add adds a batch.
func (m *manifest) add(b *batch) {
	for i := range b.groups {
		g := &b.groups[i]
		parts := b.parts[g.first:g.end]
		if len(parts) == 1 && m.addAlone(&parts[0]) {
			continue
		}
		known := true
		for j := range parts {
			known = m.stopOf(&parts[j]) >= 0 && known
		}
		for j := range parts {
			p := &parts[j]
			if !known {
				p.stop = -1 // for decide.lua
				continue
			}
			p.merged = len(m.merged)
			m.stops[p.stop].shared = true
			m.merged = append(m.merged, merged{p.stop, m.formOf(p), j < len(parts)-1})
		}
	}
}

// addAlone adds a take that is decided by itself; false if it cannot be added so.
func (m *manifest) addAlone(p *part) bool {
	i := m.stopOf(p)
	if i < 0 {
		return false
	}
	s, form := &m.stops[i], m.formOf(p)
	if s.shared || s.turns > 0 && s.form != form {
		return false
	}
	s.form = form
	s.turns++
	p.merged = -1
	return true
}

// stopOf returns the stop of a part, and adds it if it is new; -1 if another part of the
// group counts its key under other numbers.
func (m *manifest) stopOf(p *part) int {
	i, ok := m.names[p.name]
	if !ok {
		i = len(m.stops)
		m.names[p.name] = i
		m.stops = append(m.stops, stop{name: p.name, head: p.Head, form: m.formOf(p)})
	}
	if p.stop = i; m.stops[i].head != p.Head {
		p.stop = -1
	}
	return p.stop
}

// formOf returns the place of the form of a part.
func (m *manifest) formOf(p *part) int {
	if i := slices.IndexFunc(m.forms, func(a asked) bool { return a.of == p.Quick && a.cost == p.cost }); i >= 0 {
		return i
	}
	m.forms = append(m.forms, asked{p.Quick, p.cost, p})
	return len(m.forms) - 1
}

// keys returns the keys of all takes, and behind them that of the epoch of a batch, if it
// has one.
func (m *manifest) keys(b *batch) []string {
	for i := range m.stops {
		if m.stops[i].turns > 0 {
			m.order = append(m.order, i)
		}
	}
	m.alone = len(m.order)
	for i := range m.stops {
		if s := &m.stops[i]; s.turns == 0 && s.shared { // not what is left to decide.lua
			m.order = append(m.order, i)
		}
	}
	keys := make([]string, 0, len(m.order)+1)
	for place, i := range m.order {
		m.stops[i].place = place
		keys = append(keys, m.stops[i].name)
	}
	if b.epoch != "" {
		keys = append(keys, b.epoch)
	}
	return keys
}

// words returns all arguments, for a group that is decided at the time of a batch; keys
// has been asked before. renew says that all that is written gets its end anew.
func (m *manifest) words(b *batch, renew bool) []string {
	bytes := script.Doubles(m.bytes[:0], int64(b.at), b.spare(), int64(b.known), script.Flag(renew))
	for i := range m.forms {
		f := &m.forms[i]
		bytes = script.Doubles(bytes, f.part.units(), f.part.most(), f.of.Per)
	}
	numbers := len(bytes)
	for _, i := range m.order {
		bytes = append(bytes, byte(m.stops[i].form))
	}
	plan := len(bytes)
	for _, i := range m.order[:m.alone] {
		bytes = append(bytes, byte(m.stops[i].turns))
	}
	turns := len(bytes)
	for _, r := range m.merged {
		place := byte(m.stops[r.stop].place)
		if r.more {
			place |= together
		}
		bytes = append(bytes, place, byte(r.form))
	}
	m.bytes = bytes
	text := string(bytes)
	words := make([]string, 0, 4+len(m.forms))
	words = append(words, text[:numbers], text[numbers:plan], text[plan:turns], text[turns:])
	for i := range m.forms {
		words = append(words, m.forms[i].of.Head)
	}
	return words
}

// read gives each part of a batch the state that it found. What is found by others of the
// same key that come later is what the take before leaves.
func (m *manifest) read(b *batch, words []int64) {
	for i := range b.parts {
		p := &b.parts[i]
		switch {
		case p.stop < 0:
			p.word = -1
		case p.merged >= 0:
			p.word = words[p.merged]
		default:
			s := &m.stops[p.stop]
			p.word = s.word
			if s.turns--; s.turns > 0 && s.word >= 0 {
				st := p.Quick.State(s.word, b.found)
				p.Limit.Take(&st, b.found, p.cost)
				s.word = p.Quick.Word(st)
			}
		}
	}
}
