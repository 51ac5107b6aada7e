package catalog

import (
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"stint/internal/testkit"
)

// A prepared change does nothing until Commit, and then all of it. Random changes leave the same rules
// as a model.
func TestPrepare(t *testing.T) {
	for seed := range uint64(8) {
		random := rand.New(rand.NewPCG(seed, 11))
		c, m := New(Options{Domain: "api"}), model{}
		for step := range 60 {
			edits, next := randomEdits(random, m)
			hash, refused := c.Hash(), next == nil
			p, err := c.Prepare(edits)
			if (err != nil) != refused || c.Hash() != hash {
				t.Fatalf("seed %d, step %d: %v, refused by the model: %v; hash %s, before %s", seed, step, err, refused, c.Hash(), hash)
			}
			if err != nil || random.IntN(4) == 0 { // drop it
				continue
			}
			if random.IntN(4) == 0 { // memory is reclaimed meanwhile
				same := *c.current.Load()
				c.current.Store(&same)
			}
			testkit.Must(t, p.Commit())
			m = next
			if step%10 == 0 {
				sameAsFresh(t, c, m, random)
			}
		}
		sameAsFresh(t, c, m, random)
	}
}

// randomEdits returns edits of different rules, and the model after them; nil if it has two rules for
// the same requests and time.
func randomEdits(random *rand.Rand, m model) (edits []Edit, next model) {
	next = maps.Clone(m)
	seen := map[string]bool{}
	for range 1 + random.IntN(12) {
		r := randomRule(random, 40)
		if seen[r.ID] {
			continue
		}
		seen[r.ID] = true
		if random.IntN(3) == 0 {
			edits = append(edits, Edit{Rule: Rule{ID: r.ID}, Delete: true})
			delete(next, r.ID)
			continue
		}
		edits, next[r.ID] = append(edits, Edit{Rule: r}), r
	}
	for _, r := range next {
		if next.twin(r) != "" {
			return edits, nil
		}
	}
	return edits, next
}

// Two rules can exchange their urls, although each alone would have the url of the other.
func TestPrepareExchange(t *testing.T) {
	rule := func(id, url string) Rule {
		return Rule{ID: id, UID: "all", URL: url, Time: "minute", Requests: 1, Domain: "api"}
	}
	c := New(Options{Domain: "api"})
	testkit.Must(t, c.Put(rule("a", "/a")))
	testkit.Must(t, c.Put(rule("b", "/b")))
	p, err := c.Prepare([]Edit{{Rule: rule("a", "/b")}, {Rule: rule("b", "/a")}})
	testkit.Must(t, err)
	testkit.Must(t, p.Commit())
	if a, _ := c.Get("a"); a.URL != "/b" || c.Len() != 2 || c.Generation() != 3 {
		t.Fatalf("a is %+v, %d rules, generation %d", a, c.Len(), c.Generation())
	}
	if _, err := c.Prepare([]Edit{{Rule: rule("c", "/a")}}); err == nil || !strings.Contains(err.Error(), "b") {
		t.Fatalf("a twin of b: %v", err)
	}
}
