package system

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// SetAside renames a file that is damaged to name.damaged-N, with the first unused N from 1, and
// returns the new name. So the file stays for an inspection, and the next one can have the
// name. If name is a link, SetAside renames its target, in the target's folder.
func SetAside(name string) (string, error) {
	name, err := LinkTarget(name)
	if err != nil {
		return "", err
	}
	for n := 1; ; n++ {
		aside := fmt.Sprintf("%s.damaged-%d", name, n)
		if _, err := os.Lstat(aside); err == nil {
			continue
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		return aside, os.Rename(name, aside)
	}
}
