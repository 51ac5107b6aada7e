package stint_test

import (
	"testing"

	"stint"
	tables "stint/store/storetest/model"
)

// TestTraces runs every table of testdata/traces, three ways: by Take, by the
// packed word, and as Test followed by Take.
func TestTraces(t *testing.T) {
	sections, err := tables.LoadTraces("testdata/traces")
	if err != nil {
		t.Fatal(err)
	}
	for _, section := range sections {
		t.Run(section.Name, func(t *testing.T) {
			states := map[stint.Key]*stint.State{}
			words := map[stint.Key]uint64{}
			for _, step := range section.Steps {
				state := states[step.Key]
				if state == nil {
					state = new(stint.State)
					states[step.Key] = state
				}
				switch step.Op {
				case stint.Force:
					if wrong := step.Check(section.Limit.Force(state, step.At, uint64(step.Cost))); wrong != "" {
						t.Fatalf("line %d: %s", step.Line, wrong)
					}
					continue
				case stint.Settle:
					if wrong := step.Check(section.Limit.Settle(state, step.At, uint64(step.Cost), new(stint.Decision))); wrong != "" {
						t.Fatalf("line %d: %s", step.Line, wrong)
					}
					continue
				case stint.Reset:
					section.Limit.Reset(state, step.At)
					if wrong := step.Check(section.Limit.Test(state, step.At, 0)); wrong != "" {
						t.Fatalf("line %d: %s", step.Line, wrong)
					}
					continue
				}
				if d := section.Limit.Test(state, step.At, uint64(step.Cost)); d.Allowed != step.Allow {
					t.Fatalf("line %d: tested allowed=%v, want %v", step.Line, d.Allowed, step.Allow)
				}
				word, written := words[step.Key], state.Written
				d := section.Limit.Take(state, step.At, uint64(step.Cost))
				if wrong := step.Check(d); wrong != "" {
					t.Fatalf("line %d: %s", step.Line, wrong)
				}
				if !section.Limit.ForStores().Packed() {
					continue
				}
				words[step.Key] = section.Limit.ForStores().Pack(state)
				if written != 0 { // which does not fit into a word
					continue
				}
				if got := section.Limit.ForStores().TakeWord(word, step.At, uint64(step.Cost), &d); got != words[step.Key] {
					t.Fatalf("line %d: word %x, want %x", step.Line, got, words[step.Key])
				}
				if wrong := step.Check(d); wrong != "" {
					t.Fatalf("line %d, packed: %s", step.Line, wrong)
				}
			}
		})
	}
}
