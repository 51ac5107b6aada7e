package testkit_test

import (
	"context"
	"net"
	"testing"
	"time"

	"stint/internal/testkit"
)

// Packets on a link arrive unless it is cut, and nothing outside can be reached.
func TestLink(t *testing.T) {
	here, there := testkit.NewNet(t), testkit.NewNet(t)
	cable := here.Link(3, there)
	var listener net.Listener
	there.Do(func() {
		var err error
		if listener, err = net.Listen("tcp", cable.There+":0"); err != nil {
			t.Fatal(err)
		}
	})
	defer listener.Close()
	reaches := func(dial func(context.Context, string, string) (net.Conn, error), patience time.Duration) bool {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		conn, err := dial(ctx, "tcp", listener.Addr().String())
		if err != nil {
			return false
		}
		return conn.Close() == nil
	}
	const long, short = 20 * time.Second, 300 * time.Millisecond
	if !reaches(here.Dial, long) || !reaches(there.Dial, long) {
		t.Error("nobody answers over the cable")
	}
	if reaches(new(net.Dialer).DialContext, short) {
		t.Error("the address is reached from outside")
	}
	cable.Cut()
	if reaches(here.Dial, short) {
		t.Error("somebody answers over a cable that is cut")
	}
	cable.Mend()
	if !reaches(here.Dial, long) {
		t.Error("nobody answers over the mended cable")
	}
	if how := cable.Worsen(); !reaches(here.Dial, long) {
		t.Errorf("nobody answers over the bad cable (%s)", how)
	}
}

// Dial returns an error after the test of a network has ended.
func TestDialAfterTheEnd(t *testing.T) {
	var gone *testkit.Net
	t.Run("the test", func(t *testing.T) { gone = testkit.NewNet(t) })
	if gone == nil { // no right to create networks
		return
	}
	if conn, err := gone.Dial(t.Context(), "tcp", "127.0.0.1:1"); err == nil || conn != nil {
		t.Errorf("%v, %v", conn, err)
	}
}
