package request

import (
	"strings"
	"testing"

	"stint"
)

// Middlewares are not made with a limit that cannot decide.
func TestNamedRefuses(t *testing.T) {
	for name, limit := range map[string]*stint.Limit{"nil": nil, "zero": new(stint.Limit)} {
		for _, called := range []string{"", "mine"} {
			said := func() (said any) {
				defer func() { said = recover() }()
				NewSingle(nil, limit, SingleOptions{Name: called})
				return nil
			}()
			if text, ok := said.(string); !ok || !strings.Contains(text, stint.ErrNoLimit.Error()) {
				t.Errorf("%s limit called %q: %v, want a panic that says %q", name, called, said, stint.ErrNoLimit)
			}
		}
	}
}
