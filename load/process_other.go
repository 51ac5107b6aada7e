//go:build !unix

package load

import "time"

// processorTime would return the processor time that this process has used so far; the
// standard library tells it on Unix alone.
func processorTime() (time.Duration, bool) { return 0, false }
