package system

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"stint/internal/testkit"
)

// A pipe of this process, as a shell's <(command) gives it, is a file.
func TestListPipe(t *testing.T) {
	r, w, err := os.Pipe()
	testkit.Must(t, err)
	defer r.Close()
	defer w.Close()
	name := fmt.Sprintf("/dev/fd/%d", r.Fd())
	if got, err := ListFiles([]string{name}, false); err != nil || !slices.Equal(got, []string{name}) {
		t.Errorf("%q, %v", got, err)
	}
}
