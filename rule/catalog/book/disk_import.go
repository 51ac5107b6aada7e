package book

import (
	"bytes"
	"iter"
	"slices"

	bolt "go.etcd.io/bbolt"

	"stint/rule/catalog"
)

// Gathered is a set of rules to be written as one change.
type Gathered struct {
	bytes []byte // IDs and encoded rules, one after another
	rules []span
}

// span is the position of a rule in the bytes of a Gathered.
type span struct{ id, value, end int }

// Gather collects rules for an import. The error is the first that rules yields, or a
// [*catalog.Error] for two rules with the same ID.
func Gather(rules iter.Seq2[catalog.Rule, error]) (*Gathered, error) {
	i := new(Gathered)
	for r, err := range rules {
		if err != nil {
			return nil, err
		}
		at := span{id: len(i.bytes)}
		i.bytes = append(i.bytes, r.ID...)
		at.value = len(i.bytes)
		i.bytes = encode(i.bytes, &r)
		at.end = len(i.bytes)
		i.rules = append(i.rules, at)
	}
	// Inserting in order is fastest and leaves no gaps.
	slices.SortFunc(i.rules, func(a, b span) int {
		return bytes.Compare(i.bytes[a.id:a.value], i.bytes[b.id:b.value])
	})
	for n := 1; n < len(i.rules); n++ {
		if id := i.id(n); bytes.Equal(id, i.id(n-1)) {
			return nil, &catalog.Error{ID: string(id), Field: "id", Problem: "two rules have this id", Hint: "give one of them another id"}
		}
	}
	return i, nil
}

// Len returns the number of rules.
func (i *Gathered) Len() int { return len(i.rules) }

// Merge writes all rules of i as one change; each replaces the rule with its ID.
func (s *Disk) Merge(i *Gathered) error {
	return s.update(func(tx *bolt.Tx) error { return i.put(tx.Bucket(rulesBucket)) })
}

// Replace replaces all rules of the store by the rules of i as one change.
func (s *Disk) Replace(i *Gathered) error {
	return s.update(func(tx *bolt.Tx) error {
		if err := tx.DeleteBucket(rulesBucket); err != nil {
			return err
		}
		rules, err := tx.CreateBucket(rulesBucket)
		if err != nil {
			return err
		}
		rules.FillPercent = fill
		return i.put(rules)
	})
}

func (i *Gathered) put(rules *bolt.Bucket) error {
	for _, r := range i.rules {
		if err := rules.Put(i.bytes[r.id:r.value:r.value], i.bytes[r.value:r.end:r.end]); err != nil {
			return err
		}
	}
	return nil
}

// Rules returns the rules of i ordered by ID.
func (i *Gathered) Rules() iter.Seq2[catalog.Rule, error] {
	return func(yield func(catalog.Rule, error) bool) {
		for n := range i.rules {
			if r, err := i.rule(n); !yield(r, err) || err != nil {
				return
			}
		}
	}
}

func (i *Gathered) rule(n int) (catalog.Rule, error) {
	at := i.rules[n]
	return new(Disk).decode(i.bytes[at.id:at.value], i.bytes[at.value:at.end])
}

func (i *Gathered) id(n int) []byte { return i.bytes[i.rules[n].id:i.rules[n].value] }

// Merged returns the rules that the store would have after a Merge of i, ordered by ID.
func (s *Disk) Merged(i *Gathered) iter.Seq2[catalog.Rule, error] {
	return func(yield func(catalog.Rule, error) bool) {
		n := 0
		for r, err := range s.Rules() {
			replaced := false
			for ; err == nil && n < len(i.rules) && string(i.id(n)) <= r.ID; n++ {
				replaced = string(i.id(n)) == r.ID
				if fresh, err := i.rule(n); !yield(fresh, err) || err != nil {
					return
				}
			}
			if !replaced && !yield(r, err) || err != nil {
				return
			}
		}
		for ; n < len(i.rules); n++ {
			if r, err := i.rule(n); !yield(r, err) || err != nil {
				return
			}
		}
	}
}
