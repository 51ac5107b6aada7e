package testkit

import (
	"fmt"
	"net"
	"testing"
)

// recorder is a testing.TB that records how a test ended instead of ending it.
type recorder struct {
	testing.TB
	ended string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) {
	r.ended = "failed: " + fmt.Sprintf(format, args...)
}

func (r *recorder) Skipf(format string, args ...any) {
	if r.ended == "" { // the real Fatalf does not return
		r.ended = fmt.Sprintf(format, args...)
	}
}

func TestSkipOrFail(t *testing.T) {
	const failed = "failed: cannot run, and nothing may be skipped here: no browser"
	for _, test := range []struct {
		ci, noSkip, want string
	}{
		{"", "", "skipped: no browser"},
		{"true", "", failed},
		{"", "1", failed},
	} {
		t.Run(fmt.Sprintf("CI=%s,STINT_NO_SKIP=%s", test.ci, test.noSkip), func(t *testing.T) {
			t.Setenv("CI", test.ci)
			t.Setenv("STINT_NO_SKIP", test.noSkip)
			r := &recorder{TB: t}
			SkipOrFail(r, "no browser")
			if r.ended != test.want {
				t.Errorf("ended %q, want %q", r.ended, test.want)
			}
		})
	}
}

func TestSkipNotGranted(t *testing.T) {
	t.Setenv("STINT_NO_SKIP", "1")
	r := &recorder{TB: t}
	if SkipNotGranted(r, "the moon"); r.ended != "skipped: not granted here: the moon" {
		t.Errorf("ended %q", r.ended)
	}
}

// Port never returns a port twice, nor one that somebody listens on.
func TestPort(t *testing.T) {
	seen := map[int]bool{}
	for range 50 {
		port := Port(t, 1)
		if seen[port] {
			t.Errorf("%d comes twice", port)
		}
		seen[port] = true
	}
	port := Port(t)
	stream, err := net.Listen("tcp", loopback(port))
	if err != nil {
		t.Fatal(err)
	}
	if isFree(port) {
		t.Error("it counts as free, with a server of TCP")
	}
	stream.Close()
	packets, err := net.ListenPacket("udp", loopback(port))
	if err != nil {
		t.Fatal(err)
	}
	defer packets.Close()
	if isFree(port) {
		t.Error("it counts as free, with a server of UDP")
	}
}

// Heap counts live objects, and no others.
func TestHeap(t *testing.T) {
	const size = 64 << 20
	before := Heap()
	alive := make([]byte, size)
	with := Heap() - before
	alive[size-1] = 1 // keeps it alive until here
	if without := Heap() - before; with < size*9/10 || without > size/10 {
		t.Errorf("%d bytes of %d, and %d after that", with, size, without)
	}
}

func TestOneGoroutine(t *testing.T) {
	ran := false
	t.Run("long", func(t *testing.T) {
		OneGoroutine(t)
		ran = true
	})
	if ran == Race {
		t.Errorf("ran %t, with the race detector %t", ran, Race)
	}
}
