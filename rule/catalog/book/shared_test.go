package book

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"stint/internal/testkit"
	"stint/rule/catalog"
)

// keeper keeps shared rules in memory.
type keeper struct {
	book *Book

	mu       sync.Mutex
	rules    map[string]kept
	revision uint64
	before   func() // called once before a change, while another process may make one; nil for none
}

type kept struct {
	rule     catalog.Rule
	revision uint64
}

func newKeeper() *keeper {
	k := &keeper{rules: map[string]kept{}}
	k.book = NewShared(k, catalog.Options{Domain: "api"})
	return k
}

func (k *keeper) Get(id string) (catalog.Rule, uint64, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.rules[id].rule, k.rules[id].revision, nil
}

func (k *keeper) Revision() (uint64, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.revision, nil
}

func (k *keeper) Change(_ context.Context, c Change) error {
	k.mu.Lock()
	if before := k.before; before != nil {
		k.before = nil
		k.mu.Unlock()
		before()
		k.mu.Lock()
	}
	defer k.mu.Unlock()
	if c.Revision != 0 && c.Revision != k.revision {
		return fmt.Errorf("all: %w", ErrMoved)
	}
	var edits []catalog.Edit
	for _, e := range c.Edits {
		if is := k.rules[e.Rule.ID].revision; e.Revision != 0 && e.Revision != is || e.Absent && is != 0 {
			return fmt.Errorf("%s: %w", e.Rule.ID, ErrMoved)
		}
		edits = append(edits, e.Edit)
	}
	p, err := k.book.Catalog().Prepare(edits)
	if err != nil {
		return fmt.Errorf("refused: %w", err)
	}
	k.revision++
	for _, e := range edits {
		if delete(k.rules, e.Rule.ID); !e.Delete {
			k.rules[e.Rule.ID] = kept{e.Rule, k.revision}
		}
	}
	return p.Commit()
}

// A book of shared rules changes as one with a store on disk.
func TestSharedChanges(t *testing.T) {
	changes(t, newKeeper().book, func(b *Book) *Book { return b })
}

// A precondition gets the rule as the catalog shows it: with its domain.
func TestSharedPrecondition(t *testing.T) {
	k := newKeeper()
	_, err := k.book.Put(t.Context(), sample("a", 1), nil)
	testkit.Must(t, err)
	shown, _ := k.book.Catalog().Get("a")
	_, err = k.book.Put(t.Context(), sample("a", 2), func(present catalog.Rule, exists bool) bool { return exists && present == shown })
	if err != nil || show(k.book) != "a=2" {
		t.Fatalf("%v, in force %s, the rule was %+v", err, show(k.book), shown)
	}
}

// A change that meets one of another process is made again, on what is there then.
func TestSharedChangesMeet(t *testing.T) {
	ctx := t.Context()
	put := func(k *keeper, r catalog.Rule) {
		testkit.Must(t, k.Change(ctx, Change{Edits: []Edit{{Edit: catalog.Edit{Rule: r}}}}))
	}
	for name, change := range map[string]func(k *keeper) string{
		"put": func(k *keeper) string {
			created, err := k.book.Put(ctx, sample("a", 5), nil)
			return strings.TrimSpace(fmt.Sprintln(created, err, show(k.book)))
		},
		"put if it is as read": func(k *keeper) string {
			_, err := k.book.Put(ctx, sample("a", 5), func(present catalog.Rule, _ bool) bool { return present.Requests == 1 })
			_, refused := errors.AsType[*PreconditionError](err)
			return strings.TrimSpace(fmt.Sprintln(refused, show(k.book)))
		},
		"delete": func(k *keeper) string {
			there, err := k.book.Delete(ctx, "a", nil)
			return strings.TrimSpace(fmt.Sprintln(there, err, show(k.book)))
		},
		"replace": func(k *keeper) string {
			n, err := k.book.Import(ctx, slicesSeq(sample("c", 7), sample("a", 8)), Import{Replace: true})
			return strings.TrimSpace(fmt.Sprintln(n, err, show(k.book)))
		},
		"replace if all are as read": func(k *keeper) string {
			_, err := k.book.Import(ctx, slicesSeq(sample("c", 7)), Import{Replace: true, Hash: k.book.Catalog().Hash()})
			_, refused := errors.AsType[*StaleError](err)
			return strings.TrimSpace(fmt.Sprintln(refused, show(k.book)))
		},
	} {
		want := map[string]string{
			"put": "false <nil> a=5 b=3", "put if it is as read": "true a=2 b=3", "delete": "true <nil> b=3",
			"replace": "2 <nil> a=8 c=7", "replace if all are as read": "true a=2 b=3",
		}[name]
		k := newKeeper()
		put(k, sample("a", 1))
		k.before = func() {
			put(k, sample("a", 2))
			put(k, sample("b", 3))
		}
		if got := change(k); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func slicesSeq(rules ...catalog.Rule) func(func(catalog.Rule, error) bool) {
	return func(yield func(catalog.Rule, error) bool) {
		for r := range slices.Values(rules) {
			if !yield(r, nil) {
				return
			}
		}
	}
}
