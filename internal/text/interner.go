package text

import "strings"

// Interner assigns each text a number, from 0 on in order of appearance, and keeps one copy of it.
// It is not safe for concurrent use.
type Interner struct {
	Texts []string // by number; callers must not change the slice

	ids   map[string]uint32
	block strings.Builder // memory of the texts, many in one allocation
}

// internerBlock is the size of an allocation in bytes.
const internerBlock = 64 << 10

// NewInterner returns an Interner without texts.
func NewInterner() *Interner { return &Interner{ids: map[string]uint32{}} }

// Number returns the number of a text.
func (n *Interner) Number(text []byte) uint32 {
	if id, ok := n.ids[string(text)]; ok {
		return id
	}
	return n.add(string(text))
}

// NumberOf is Number for a string.
func (n *Interner) NumberOf(text string) uint32 {
	if id, ok := n.ids[text]; ok {
		return id
	}
	return n.add(text)
}

func (n *Interner) add(text string) uint32 {
	if n.block.Cap()-n.block.Len() < len(text) {
		n.block = strings.Builder{}
		n.block.Grow(max(internerBlock, len(text)))
	}
	from := n.block.Len()
	n.block.WriteString(text)
	id := uint32(len(n.Texts))
	n.Texts = append(n.Texts, n.block.String()[from:])
	n.ids[n.Texts[id]] = id
	return id
}
