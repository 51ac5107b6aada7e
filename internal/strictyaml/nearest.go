package strictyaml

import "strings"

// Nearest returns the known word that is most similar to word: equal except for case, dashes and
// underscores, or different in a few letters; "" if there is none. The first wins ties.
func Nearest(word string, known []string) string {
	if len(word) > 64 {
		return ""
	}
	plain := plainly(word)
	best, least := "", len(plain)/3+1
	for _, k := range known {
		d := distance(plain, plainly(k))
		if d < least {
			best, least = k, d
		}
	}
	return best
}

var separators = strings.NewReplacer("_", "", "-", "", " ", "", ".", "")

func plainly(word string) string { return separators.Replace(strings.ToLower(word)) }

// distance counts the letters to insert, delete, replace or swap with their
// neighbour to turn a into b.
func distance(a, b string) int {
	var before []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range len(b) {
			change := row[j]
			if a[i] != b[j] {
				change++
			}
			next[j+1] = min(change, row[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
