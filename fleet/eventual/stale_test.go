package eventual_test

import (
	"testing"
	"time"

	"stint"
	"stint/fleet/eventual"
	"stint/internal/testkit"
	"stint/store/memory"
)

func TestStaleTime(t *testing.T) {
	bucket := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1000, Per: time.Second, Burst: 1000})
	open := func(clock func() stint.Instant) stint.Store {
		return eventual.New(memory.New(memory.Options{Clock: clock}), eventual.Options{Clock: clock})
	}
	testkit.StaleTime(t, open, take("a", bucket, 1))
	testkit.StaleTime(t, open, take("a", bucket, 1), take("b", bucket, 1))
}
