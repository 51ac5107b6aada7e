package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stint/internal/testkit"
)

// TestCheck writes a module with one fault and checks where it is found.
func TestCheck(t *testing.T) {
	t.Parallel()
	const (
		linux, windows, narrow = "linux/amd64", "windows/amd64", "linux/386"
		valid                  = "package a\n\nfunc F() int { return f() }\n"
	)
	for _, test := range []struct {
		name  string
		files map[string]string
		on    map[string]string // system: part of the error; "" for none
	}{
		{
			"nothing wrong",
			map[string]string{"a.go": valid, "a_windows.go": "package a\n\nfunc f() int { return 1 }\n", "a_unix.go": "//go:build unix\n\npackage a\n\nfunc f() int { return 2 }\n"},
			map[string]string{linux: "", windows: "", narrow: ""},
		},
		{
			"a function of Unix alone",
			map[string]string{"a.go": "package a\n\nimport \"syscall\"\n\nfunc F() { _ = syscall.Kill(1, syscall.SIGUSR1) }\n"},
			map[string]string{linux: "", windows: "undefined: syscall.Kill", narrow: ""},
		},
		{
			"a file that a system lacks",
			map[string]string{"a.go": valid, "a_linux.go": "package a\n\nfunc f() int { return 1 }\n"},
			map[string]string{linux: "", windows: "a.go:3:23: undefined: f", "darwin/arm64": "undefined: f"},
		},
		{
			"a number wider than 32 bits, in a test of another package",
			map[string]string{"a.go": "package a\n", "a_test.go": "package a_test\n\nvar n int = 1 << 40\n"},
			map[string]string{linux: "", windows: "", narrow: "a_test.go:3:13: "},
		},
		{
			"a test of Unix alone",
			map[string]string{"a.go": "package a\n", "a_test.go": "package a\n\nimport \"syscall\"\n\nvar s = syscall.SIGUSR1\n"},
			map[string]string{linux: "", windows: "undefined: syscall.SIGUSR1"},
		},
		{
			"a package that a system lacks",
			map[string]string{"a.go": "package a\n\nimport _ \"other/b\"\n", "b/b_linux.go": "package b\n"},
			map[string]string{linux: "", windows: "build constraints exclude all Go files"},
		},
		{"nothing", nil, map[string]string{linux: "no package found", "linux": "write for example"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, filepath.Join(dir, "go.mod"), "module other\n\ngo 1.26.0\n")
			for name, text := range test.files {
				write(t, filepath.Join(dir, name), text)
			}
			for system, want := range test.on {
				err := check(dir, system)
				switch {
				case want == "" && err != nil:
					t.Errorf("%s: %v", system, err)
				case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
					t.Errorf("%s: %v, want an error with %q", system, err, want)
				}
			}
		})
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	testkit.Must(t, os.MkdirAll(filepath.Dir(file), 0o755))
	testkit.Must(t, os.WriteFile(file, []byte(text), 0o600))
}
