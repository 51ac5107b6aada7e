// Package binary builds stint-gateway for tests that start it as a process.
package binary

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Main runs the tests of a package with stint-gateway, built once for all of them. It sets path to the
// program, which is removed afterwards, and returns the exit status for TestMain.
func Main(m *testing.M, path *string) int {
	dir, err := os.MkdirTemp("", "stint-gateway")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	*path = filepath.Join(dir, "stint-gateway")
	if out, err := exec.Command("go", "build", "-o", *path, "stint/gateway/cmd/stint-gateway").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
		return 1
	}
	return m.Run()
}
