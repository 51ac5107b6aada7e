package testkit

import (
	"os"
	"testing"
)

// SkipOrFail ends a test that needs something missing: a browser, a server, a file too large to
// check in. On a developer's machine it skips the test and prints the reason. If CI or
// STINT_NO_SKIP is set and not empty, the test fails instead, so that no test is skipped unnoticed.
// why names the missing thing and how to get it.
//
// Only SkipOrFail, SkipNotGranted, Long and OneGoroutine may skip a test: internal/repository refuses
// any other t.Skip.
func SkipOrFail(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI") != "" || os.Getenv("STINT_NO_SKIP") != "" {
		t.Fatalf("cannot run, and nothing may be skipped here: %s", why)
	}
	t.Skipf("skipped: %s", why)
}

// SkipNotGranted skips a test that needs a right, or a part of the kernel, which this machine does
// not grant. Installing something would not help, so it skips the test even where SkipOrFail fails.
// scripts/install-test-deps.sh, with which CI begins, prints what is not granted.
func SkipNotGranted(t testing.TB, what string) {
	t.Helper()
	t.Skipf("skipped: not granted here: %s", what)
}

// Long skips a test with -short, unless the race detector is on; make test runs short tests under
// it too.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() && !Race {
		t.Skip("long: make test runs it")
	}
}

// OneGoroutine skips a long test under the race detector, which finds nothing where one goroutine works
// at a time, or where several share nothing. make test runs the test without the detector too.
func OneGoroutine(t testing.TB) {
	t.Helper()
	if Race {
		t.Skip("one goroutine: make test runs it without the race detector")
	}
}

// Must ends a test after an error in something that the test is not about.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
