package system

import (
	"syscall"
	"time"
)

// naps bounds the threads that nap.
var naps = make(chan struct{}, 64)

// Nap sleeps for some milliseconds at most, exactly to about 0.1 ms, where a timer of an idle program is
// up to a millisecond late. It blocks a thread. If too many do so already, Nap returns at
// once.
func Nap(d time.Duration) {
	select {
	case naps <- struct{}{}:
		rest := syscall.NsecToTimespec(int64(d))
		_ = syscall.Nanosleep(&rest, nil) // a signal ends it early
		<-naps
	default:
	}
}
