package connect

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestLayout: a server keeps its number as long as it holds a partition; then a new one gets it.
func TestLayout(t *testing.T) {
	m := NewSlotMap(Tags(4))
	for i, step := range []struct{ holders, want []string }{
		{[]string{"a", "a", "b", "b"}, []string{"0 a", "1 b"}},
		{[]string{"a", "c", "c", "b"}, []string{"0 a", "1 b", "2 c"}},
		{[]string{"d", "c", "c", "b"}, []string{"0 d", "1 b", "2 c"}}, // a replica took over
		{[]string{"", "", "", "b"}, []string{"1 b"}},
		{[]string{"a", "b", "", "b"}, []string{"0 a", "1 b"}},
	} {
		m.layout.Store(m.layout.Load().after(step.holders))
		var got []string
		m.Each(func(number int, name, tag string) {
			got = append(got, fmt.Sprint(number, " ", name))
			if p := slices.Index(m.tags, tag); m.Server(p) != number || step.holders[p] != name || m.Name(number) != name {
				t.Errorf("step %d: partition %d is said to lie on %d, %s", i, p, number, name)
			}
		})
		if !slices.Equal(got, step.want) {
			t.Errorf("step %d: %q, want %q", i, got, step.want)
		}
	}
	if m.Name(7) != "" || m.Name(-1) != "" {
		t.Error("numbers without a server have names")
	}
	now := time.Now()
	if !m.Due(now) || m.Due(now) || !m.Due(now.Add(maxAge)) {
		t.Error("a map is due once when it is old")
	}
}
