package system

import (
	"testing"
	"time"
)

// A nap is never short, and one too many returns at once.
func TestNap(t *testing.T) {
	began := time.Now()
	Nap(2 * time.Millisecond)
	if took := time.Since(began); took < 2*time.Millisecond {
		t.Errorf("a nap of 2ms took %v", took)
	}
	for range cap(naps) {
		naps <- struct{}{}
	}
	Nap(time.Hour)
	for range cap(naps) {
		<-naps
	}
}
