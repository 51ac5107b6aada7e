package system

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestNoManager checks that a process without a service manager takes nothing and reports nothing.
func TestNoManager(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	t.Setenv("LISTEN_PID", strconv.Itoa(os.Getppid())) // the sockets are those of the parent
	t.Setenv("LISTEN_FDS", "1")
	if got, err := InheritedListeners(); got != nil || err != nil {
		t.Errorf("took %v, %v", got, err)
	}
	n := NewNotifier()
	if n != nil {
		t.Errorf("reports to %v", n)
	}
	if err := n.Ready(""); err != nil {
		t.Error(err)
	}
	n.Reloading()
	n.Stopping()
	n.Watch(t.Context(), func() { t.Error("nobody asked for a sign of life") })
}

// TestVariables checks that variables of the manager are removed, so that no child uses them.
func TestVariables(t *testing.T) {
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		t.Setenv(name, "1")
	}
	_, _ = InheritedListeners() // of another process
	if NewNotifier() == nil {
		t.Error("no notifier")
	}
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		if value, is := os.LookupEnv(name); is {
			t.Errorf("%s is still %q", name, value)
		}
	}
}

// TestWrongCount checks that nonsense in place of the number of sockets is an error.
func TestWrongCount(t *testing.T) {
	for _, count := range []string{"", "-1", "many", "99999"} {
		t.Setenv("LISTEN_PID", strconv.Itoa(os.Getpid()))
		t.Setenv("LISTEN_FDS", count)
		if _, err := InheritedListeners(); err == nil {
			t.Errorf("%q was accepted", count)
		}
	}
}

// TestWatchdogOfAges checks that a time above that of a time.Duration is none.
func TestWatchdogOfAges(t *testing.T) {
	for _, usec := range []string{"9223372036854775807", "9223372036854776", "18446744073709551615", "-1", "0", "soon"} {
		t.Setenv("NOTIFY_SOCKET", "@nobody")
		t.Setenv("WATCHDOG_USEC", usec)
		NewNotifier().Watch(t.Context(), func() { t.Errorf("%s asks for a sign of life", usec) })
	}
}

// TestUnreachableManager: the first report returns why nobody gets it.
func TestUnreachableManager(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, socket := range []string{plain, plain + "/none", "@nobody", "vsock:2:1", "/" + strings.Repeat("x", 300)} {
		t.Setenv("NOTIFY_SOCKET", socket)
		if err := NewNotifier().Ready("serving"); err == nil {
			t.Errorf("%.20s: the report was sent", socket)
		}
	}
}
