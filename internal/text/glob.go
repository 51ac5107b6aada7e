package text

import "strings"

// Glob is a text with stars, each for zero or more bytes. It is immutable.
type Glob struct {
	prefix, suffix string
	middle         []string // what must stand between them, in order
}

// NewGlob returns a pattern. The text has a star.
func NewGlob(text string) Glob {
	parts := strings.Split(text, "*")
	last := len(parts) - 1
	p := Glob{prefix: parts[0], suffix: parts[last]}
	for _, part := range parts[1:last] {
		if part != "" {
			p.middle = append(p.middle, part)
		}
	}
	return p
}

// Matches says whether a value matches the pattern as a whole.
func (p *Glob) Matches(value string) bool {
	if len(value) < len(p.prefix)+len(p.suffix) || !strings.HasPrefix(value, p.prefix) || !strings.HasSuffix(value, p.suffix) {
		return false
	}
	rest := value[len(p.prefix) : len(value)-len(p.suffix)]
	for _, part := range p.middle {
		i := strings.Index(rest, part)
		if i < 0 {
			return false
		}
		rest = rest[i+len(part):]
	}
	return true
}
