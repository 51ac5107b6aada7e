package pace_test

import (
	"strings"
	"testing"
	"time"

	"stint"
	"stint/pace"
	"stint/store/memory"
)

// New panics for an empty key and for an invalid limit.
func TestNewRefuses(t *testing.T) {
	limit := stint.MustLimit(stint.Spec{Requests: 1, Per: time.Second})
	for _, test := range []struct {
		key   stint.Key
		limit *stint.Limit
		want  error
	}{
		{"", limit, stint.ErrNoKey},
		{"a", nil, stint.ErrNoLimit},
		{"a", new(stint.Limit), stint.ErrNoLimit},
	} {
		said := func() (said any) {
			defer func() { said = recover() }()
			pace.New(memory.New(memory.Options{}), test.key, test.limit)
			return nil
		}()
		if text, ok := said.(string); !ok || !strings.Contains(text, test.want.Error()) {
			t.Errorf("key %q: %v, want a panic that says %q", test.key, said, test.want)
		}
	}
}
