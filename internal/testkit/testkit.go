package testkit

import (
	"os"
	"testing"
)

// SkipOrFail ends a test whose surroundings are missing: a browser, a server, a
// file too large to check in. On a developer's machine the test is skipped, and
// why it was is printed. Where CI or STINT_NO_SKIP is set to anything but the
// empty string it fails instead, so that no test is lost in silence. why names
// what is missing and how to get it.
//
// It, SkipNotGranted and Long are the only ways to skip: internal/repository refuses a bare t.Skip.
func SkipOrFail(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI") != "" || os.Getenv("STINT_NO_SKIP") != "" {
		t.Fatalf("cannot run, and nothing may be skipped here: %s", why)
	}
	t.Skipf("skipped: %s", why)
}

// SkipNotGranted ends a test that needs a right, or a part of the kernel, which this machine
// does not grant to who runs the test. Nothing that could be installed would help, so the
// test is skipped also where nothing may be: scripts/install-test-deps.sh, with which CI
// begins, prints what is not granted.
func SkipNotGranted(t testing.TB, what string) {
	t.Helper()
	t.Skipf("skipped: not granted here: %s", what)
}

// Long skips a test where tests are to be quick, with -short; the race detector, under which
// make test runs short ones too, gets it all the same.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() && !Race {
		t.Skip("long: make test runs it")
	}
}

// Must ends a test where something failed that is not what it is about.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
