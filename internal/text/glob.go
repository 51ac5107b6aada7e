package text

import "strings"

// Glob is a pattern with stars, each for zero or more bytes. It is immutable.
type Glob struct {
	prefix, suffix string
	middle         []string // texts between the stars, in order
}

// NewGlob returns a pattern. The text must have a star.
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

// Matches reports whether the whole value matches the pattern.
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
