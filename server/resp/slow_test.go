package resp

import (
	"io"
	"testing"
	"time"

	"stint/internal/testkit"
)

// A client that sends a command byte by byte, or commands but no AUTH, has one time for all of it. One
// that sends command after command, each in parts, may go on.
func TestSlowClients(t *testing.T) {
	const part = time.Second
	send := func(address, first, again string) (lived time.Duration) {
		c := dial(t, address)
		testkit.Must(t, c.SetReadDeadline(time.Now().Add(6*part)))
		began := time.Now()
		go func() {
			_, err := io.WriteString(c, first)
			for until := began.Add(7 * part); err == nil && time.Now().Before(until); {
				time.Sleep(part / 4) // a slow client
				_, err = io.WriteString(c, again)
			}
		}()
		_, _ = io.Copy(io.Discard, c) // until it ends, one way or another
		return time.Since(began)
	}
	for _, tt := range []struct {
		name, token, first, again string
		cut                       bool
	}{
		{"a slow argument", "", "*1\r\n$10000\r\n", "x", true},
		{"a slow line", "", "PING ", "x", true},
		{"no AUTH", "secret", "", "*1\r\n$4\r\nPING\r\n", true},
		{"RESET and no AUTH", "secret", "*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n*1\r\n$5\r\nRESET\r\n", "*1\r\n$4\r\nPING\r\n", true},
		{"commands in parts", "", "*1\r\n$4\r\nPI", "NG\r\n*1\r\n$4\r\nPI", false},
		{"silent after AUTH", "secret", "*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			address, _, _ := start(t, Options{Token: tt.token, partTimeout: part})
			lived := send(address, tt.first, tt.again)
			if cut := lived < 5*part; cut != tt.cut {
				t.Errorf("cut: %v after %v, want %v", cut, lived, tt.cut)
			}
		})
	}
}
