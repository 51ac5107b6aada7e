package script

import (
	"strings"

	"stint"
	"stint/internal/limits"
	"stint/internal/transaction"
)

// AddBook adds the text of a book, as lua/grants.lua writes it, to the history of its key. The carry is gone if
// a take without grants was charged after its period.
func AddBook(u *transaction.Usage, text string) error {
	b := new(limits.Book)
	head, text, _ := strings.Cut(text, " ")
	carries := []*limits.Carry{&b.Carry, &b.Before}
	switch head {
	case "1g":
		carries = carries[:1]
	case "2g":
	default:
		return ErrUsage
	}
	words := strings.SplitN(text, " ", 6*len(carries)+1)
	for _, c := range carries {
		if len(words) < 6 {
			return ErrUsage
		}
		n, ok := readNumbers(words[:6])
		if !ok {
			return ErrUsage
		}
		*c = limits.Carry{Start: stint.Instant(n[0]), End: stint.Instant(n[1]), Units: int64(n[2]), Used: int64(n[3]), Own: int64(n[4]), Of: int64(n[5])}
		words = words[6:]
	}
	if last := len(u.History) - 1; last >= 0 {
		b.Forget(u.History[last].Start)
	}
	for rest := strings.Join(words, ""); rest != ""; rest = strings.TrimPrefix(rest, " ") {
		head, tail, _ := strings.Cut(rest, ":")
		words := strings.Split(head, " ")
		n, ok := readNumbers(words)
		if !ok || len(n) != 3 || n[2] > uint64(len(tail)) {
			return ErrUsage
		}
		b.Grants = append(b.Grants, limits.GrantUse{ID: strings.Clone(tail[:n[2]]), Used: int64(n[0]), Until: stint.Instant(n[1])})
		rest = tail[n[2]:]
	}
	u.Book = b
	return nil
}
