//go:build linux

package docs_test

import "testing"

// A page must not hide a command from this test in a block of another kind.
func TestBlocks(t *testing.T) {
	for text, want := range map[string]int{
		"```sh\nstint check x\n```\n":                        0,
		"```console\n$ stint check x\n```\n":                 0,
		"```\nstint check x\n```\n":                          1,
		"```yaml\nrules: x\ncurl http://127.0.0.1/\n```\n":   1,
		"```\n$ stint check x\n```\n":                        1,
		"```bash\ntrue\n```\n":                               1,
		"```\nstinted: 1\n```\n":                             0,
		"<!-- not run: why -->\n```sh\nstint x\n```\n":       0,
		"<!-- not run: why -->\n\n```sh\nstint x\n```\n":     1,
		"<!-- status: many -->\n```sh\nstint check x\n```\n": 1,
	} {
		if _, faults := blocks(text); len(faults) != want {
			t.Errorf("%q: faults %q, want %d", text, faults, want)
		}
	}
}
