package text

import (
	"fmt"
	"strings"
)

// maxNamespace is the longest namespace of a store, in bytes.
const maxNamespace = 64

// CheckNamespace returns what is wrong with a name that the keys of a store shall begin with, and what
// to do; "" if nothing is.
func CheckNamespace(name string) (problem, hint string) {
	if name == "" || len(name) > maxNamespace {
		return fmt.Sprintf("namespace of %d characters", len(name)),
			fmt.Sprintf("give it 1 to %d letters, digits, dots, dashes and underscores", maxNamespace)
	}
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	if strings.Trim(name, allowed) != "" {
		return fmt.Sprintf("namespace %q has a character that is not allowed", name), "use letters, digits, dots, dashes and underscores"
	}
	return "", ""
}
