package resp

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"stint/internal/testkit"
)

// heap returns the bytes in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A connection that waits keeps none of the memory of its commands before, however large they were.
func TestIdleMemory(t *testing.T) {
	const n = 20
	for name, command := range map[string]string{
		"a long argument": wire("ECHO", strings.Repeat("x", MaxCommand-100)),
		"many arguments":  fmt.Sprintf("*%d\r\n$4\r\nPING\r\n", maxArgs) + strings.Repeat("$0\r\n\r\n", maxArgs-1),
		"a long key":      wire("CL.THROTTLE", strings.Repeat("x", 200<<10), "5", "1", "1"),
		"a long name":     wire("CLIENT", "SETNAME", strings.Repeat("x", MaxCommand-100)),
		"a greeting":      wire("HELLO", "3", "SETNAME", strings.Repeat("x", MaxCommand-100)),
		"many names":      fmt.Sprintf("*%d\r\n$7\r\nCOMMAND\r\n$4\r\nINFO\r\n", maxArgs) + strings.Repeat("$4\r\nPING\r\n", maxArgs-2),
		"descriptors":     fmt.Sprintf("*%d\r\n", 3+3*1000) + wire("STINT.MCHECK", "api", "1000")[4:] + strings.Repeat("$1\r\n1\r\n$1\r\na\r\n$1\r\nb\r\n", 1000),
	} {
		t.Run(name, func(t *testing.T) {
			address, _, _ := start(t, Options{})
			before := heap()
			for range n {
				c := dial(t, address)
				_, err := io.WriteString(c, command)
				testkit.Must(t, err)
				if got := c.answer(); got == "EOF" || strings.HasPrefix(got, "-ERR Protocol") {
					t.Fatalf("%.100s", got)
				}
			}
			var kept int64
			for range 100 {
				if kept = (heap() - before) / n; kept < 100<<10 {
					return
				}
				time.Sleep(100 * time.Millisecond) // the pool of buffers shrinks with time, which nothing reports
			}
			t.Errorf("each keeps %d KiB", kept>>10)
		})
	}
}

// TestNamesAreBounded checks that the name of a connection is short, and that an answer has few names.
func TestNamesAreBounded(t *testing.T) {
	address, _, _ := start(t, Options{})
	c := dial(t, address)
	for n, want := range map[int]string{maxName: "+OK", maxName + 1: "-ERR Client names cannot be longer than 256 bytes."} {
		if got := c.sendArgs("CLIENT", "SETNAME", strings.Repeat("x", n)); got != want {
			t.Errorf("a name of %d bytes: %.100q, want %q", n, got, want)
		}
	}
	for _, sub := range []string{"INFO", "DOCS"} {
		for n, refused := range map[int]bool{maxNames: false, maxNames + 1: true} {
			got := c.sendArgs(append([]string{"COMMAND", sub}, slices.Repeat([]string{"ping"}, n)...)...)
			if strings.HasPrefix(got, "-ERR") != refused {
				t.Errorf("COMMAND %s with %d names: %.100q", sub, n, got)
			}
		}
	}
}

// All connections together hold little of commands that have not arrived whole. What is too much ends
// its connection, and the others have their answers. When the memory is free, it can be used again.
func TestLargeCommandsTogether(t *testing.T) {
	address, s, _ := start(t, Options{})
	const n = 2 * maxLarge / MaxCommand
	command := wire("ECHO", strings.Repeat("x", MaxCommand-100))
	half := len(command) - 10
	before := heap()
	var held []*client
	for range n {
		c := dial(t, address)
		if _, err := io.WriteString(c, command[:half]); err == nil {
			held = append(held, c)
		}
	}
	if kept := heap() - before; kept > 2*maxLarge {
		t.Errorf("%d MiB are held", kept>>20)
	}
	answered, refused := 0, 0
	for _, c := range held {
		_, _ = io.WriteString(c, command[half:]) // an error shows in the answer
		switch got := c.answer(); {
		case len(got) == MaxCommand-100:
			answered++
		case got == "-ERR "+errNoRoom.Error(), strings.Contains(got, "reset"), got == "EOF":
			refused++
		default:
			t.Fatalf("%.100q", got)
		}
		c.Close()
	}
	if answered < maxLarge/MaxCommand/2 || answered+refused != len(held) || answered == n {
		t.Errorf("%d of %d were answered, %d refused", answered, n, refused)
	}
	testkit.Until(t, "all memory is free again", func() bool { return s.room.left.Load() == maxLarge })
	if got := dial(t, address).sendArgs("ECHO", strings.Repeat("x", MaxCommand-100)); len(got) != MaxCommand-100 {
		t.Errorf("after that: %.100q", got)
	}
}
