package text

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// A reader that follows the buffer gets everything that several writers write, and text that was
// returned does not change.
func TestText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const writers, each = 4, 50
		var log OutputBuffer
		var writing sync.WaitGroup
		for i := range writers {
			writing.Go(func() {
				for j := range each {
					fmt.Fprintf(&log, "writer %d, line %d\n", i, j)
				}
			})
		}
		seen := ""
		for strings.Count(seen, "\n") < writers*each {
			text, more := log.Follow()
			if !strings.HasPrefix(text, seen) {
				t.Fatalf("%q came after %q", text, seen)
			}
			if len(text) == len(seen) {
				<-more // without this wait the bubble would report a deadlock
			}
			seen = text
		}
		writing.Wait()
		if log.String() != seen {
			t.Errorf("%q, and followed %q", log.String(), seen)
		}
		for i := range writers {
			for j := range each {
				if line := fmt.Sprintf("writer %d, line %d\n", i, j); !strings.Contains(seen, line) {
					t.Errorf("%q is lost", line)
				}
			}
		}
	})
}
