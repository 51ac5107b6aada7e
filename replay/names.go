package replay

import "strings"

// names gives each text a small number, in order of appearance. It keeps the texts
// of keys for the whole replay: the report names those with most refusals.
type names struct {
	ids   map[string]uint32
	texts []string
	block strings.Builder // memory of the texts, many to an allocation
}

const nameBlock = 64 << 10

func newNames() *names { return &names{ids: map[string]uint32{}} }

// id returns the number of a text.
func (n *names) id(text []byte) uint32 {
	if id, ok := n.ids[string(text)]; ok {
		return id
	}
	return n.add(string(text))
}

// lookup is id for a string, of which a copy is kept.
func (n *names) lookup(text string) uint32 {
	if id, ok := n.ids[text]; ok {
		return id
	}
	return n.add(text)
}

func (n *names) add(text string) uint32 {
	if n.block.Cap()-n.block.Len() < len(text) {
		n.block = strings.Builder{}
		n.block.Grow(max(nameBlock, len(text)))
	}
	from := n.block.Len()
	n.block.WriteString(text)
	id := uint32(len(n.texts))
	n.texts = append(n.texts, n.block.String()[from:])
	n.ids[n.texts[id]] = id
	return id
}
