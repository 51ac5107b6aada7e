//go:build !unix

package load

import "time"

// processorTime returns false, because the standard library reports CPU time only on Unix.
func processorTime() (time.Duration, bool) { return 0, false }
