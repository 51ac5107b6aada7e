package quota

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"

	"stint"
	"stint/internal/system"
)

// ErrDamaged is the error of ReadFile about a file that is not one of WriteFile, or not whole.
var ErrDamaged = errors.New("not a whole file of local shares")

// The file has a line of JSON for each of these values: a savedFile; for each store a savedNode and
// its savedShares; a savedEnd. Times are those of the node's clock.
type (
	savedFile struct {
		Format int      `json:"stint_local_shares"`
		Stores []string `json:"stores"`
	}
	savedNode struct {
		Now    stint.Instant `json:"now"`
		Empty  stint.Instant `json:"empty"` // the latest shard.empty
		Rules  []savedRule   `json:"rules"`
		Shares int           `json:"shares"`
	}
	savedRule struct {
		Domain string        `json:"domain"`
		Rule   string        `json:"rule"`
		Own    stint.Spec    `json:"own"`
		Empty  stint.Instant `json:"empty"` // rule.empty
	}
	savedShare struct {
		Rule  int    `json:"r"` // index in savedNode.Rules
		Key   []byte `json:"k"`
		Place []byte `json:"p,omitempty"`
		State []byte `json:"s"`
	}
	savedEnd struct {
		CRC uint32 `json:"crc32"` // of all lines before
	}
)

const savedFormat = 1

// WriteFile writes the shares of some stores, each with a name, to a file for ReadFile. No take may
// be decided meanwhile or later: it would not be in the file.
func WriteFile(name string, names []string, stores []*Store) error {
	return system.ReplaceFile(name, func(w io.Writer) error {
		var text bytes.Buffer
		lines := json.NewEncoder(&text)
		failed := lines.Encode(savedFile{savedFormat, names})
		for _, s := range stores {
			node, shares, err := s.node.save(s.clock())
			failed = errors.Join(failed, err, lines.Encode(node))
			for i := range shares {
				failed = errors.Join(failed, lines.Encode(&shares[i]))
			}
		}
		failed = errors.Join(failed, lines.Encode(savedEnd{crc32.ChecksumIEEE(text.Bytes())}))
		if failed != nil {
			return failed
		}
		_, err := w.Write(text.Bytes())
		return err
	})
}

// ReadFile gives stores the shares that WriteFile wrote, for the same names, and returns how many.
// Call it after Change, before the first take. First it removes the file: each share is spent once
// only, also if this process ends without WriteFile.
//
// The file stands for one of the processes between which a rule divides its limit. Since it was
// written no other process may have taken that place. The time since then does not count: shares
// refill as if it had not passed, so a clock that was set meanwhile changes nothing. Shares of rules
// that divide their limit differently now are left out, and so count as used up; all are if the
// names differ, because a key may then be on another store.
//
// If there is no file the error is fs.ErrNotExist, and ErrDamaged if it has other content; ReadFile
// then leaves it as it is.
func ReadFile(name string, names []string, stores []*Store) (shares int, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	saved, lists, err := parse(text)
	if err != nil {
		return 0, err
	}
	if err = system.RemoveFile(name); err != nil {
		return 0, fmt.Errorf("the shares would be spent twice, as their file cannot be removed: %w", err)
	}
	if !slices.Equal(saved.Stores, names) {
		return 0, nil
	}
	for i, s := range stores {
		n, err := s.node.load(&lists[i].savedNode, lists[i].shares, s.clock())
		if shares += n; err != nil {
			return shares, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
	}
	return shares, nil
}

// savedList is the part of a store in a file.
type savedList struct {
	savedNode
	shares []savedShare
}

// parse returns the content of a file.
func parse(text []byte) (saved savedFile, lists []savedList, err error) {
	end := bytes.LastIndexByte(bytes.TrimSuffix(text, []byte{'\n'}), '\n') + 1
	var last savedEnd
	if err = json.Unmarshal(text[end:], &last); err != nil || crc32.ChecksumIEEE(text[:end]) != last.CRC {
		return saved, nil, ErrDamaged
	}
	lines := json.NewDecoder(bytes.NewReader(text[:end]))
	if err = lines.Decode(&saved); err != nil || saved.Format != savedFormat {
		return saved, nil, fmt.Errorf("%w: of format %d, not %d", ErrDamaged, saved.Format, savedFormat)
	}
	lists = make([]savedList, len(saved.Stores))
	for i := range lists {
		if err = lines.Decode(&lists[i].savedNode); err != nil {
			return saved, nil, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		for range lists[i].Shares {
			var one savedShare
			if err = lines.Decode(&one); err != nil || one.Rule < 0 || one.Rule >= len(lists[i].Rules) {
				return saved, nil, fmt.Errorf("%w: a share cannot be read", ErrDamaged)
			}
			lists[i].shares = append(lists[i].shares, one)
		}
	}
	return saved, lists, nil
}

// save returns the shares of a node.
func (n *Node) save(now stint.Instant) (head savedNode, shares []savedShare, err error) {
	index := map[*rule]int{}
	for id, r := range n.rules.Load().byName {
		if r.own != nil {
			index[r] = len(head.Rules)
			head.Rules = append(head.Rules, savedRule{id.domain, id.rule, r.own.Spec(), r.empty})
		}
	}
	for i := range n.shards {
		s := &n.shards[i]
		s.mu.Lock()
		now = s.latest.Of(now)
		head.Empty = max(head.Empty, s.empty)
		for key, p := range s.shares {
			at, known := index[p.rule]
			if !known {
				continue
			}
			state, failed := p.state.AppendBinary(nil)
			err = errors.Join(err, failed)
			shares = append(shares, savedShare{at, []byte(key), []byte(p.place), state})
		}
		s.mu.Unlock()
	}
	head.Now, head.Shares = now, len(shares)
	return head, shares, err
}

// load adds saved shares to a node that has decided nothing yet, all or none.
func (n *Node) load(head *savedNode, saved []savedShare, now stint.Instant) (loaded int, err error) {
	n.rulesMu.Lock()
	defer n.rulesMu.Unlock()
	rules := make([]*rule, len(head.Rules))
	for i := range head.Rules {
		if rules[i], err = n.sameRule(&head.Rules[i]); err != nil {
			return 0, err
		}
	}
	list := make([]*share, len(saved))
	for i := range saved {
		one := &saved[i]
		r := rules[one.Rule]
		if r == nil {
			continue
		}
		list[i] = &share{rule: r, place: stint.Key(one.Place)}
		if err = list[i].state.UnmarshalBinary(one.State); err != nil {
			return 0, err
		}
		r.own.ForStores().Rebase(&list[i].state, head.Now, now)
	}
	for i, r := range rules {
		if r != nil {
			r.empty = head.Rules[i].Empty + now - head.Now
		}
	}
	for i := range n.shards {
		if head.Empty != 0 {
			n.shards[i].empty = head.Empty + now - head.Now
		}
	}
	for i, p := range list {
		if p != nil {
			key := stint.Key(saved[i].Key)
			s := n.shard(key)
			s.mu.Lock()
			s.addLocked(p, key, p.place, n.most(), now)
			s.mu.Unlock()
			loaded++
		}
	}
	return loaded, nil
}

// sameRule returns the rule in force that divides its limit as a saved one did, nil if there is none.
func (n *Node) sameRule(saved *savedRule) (*rule, error) {
	saved.Own.RoundRate = true // a rule had it before
	own, err := stint.NewLimit(saved.Own)
	if err != nil {
		return nil, err
	}
	r := n.rules.Load().byName[name{saved.Domain, saved.Rule}]
	if r == nil || r.own == nil || r.own.Algorithm() != own.Algorithm() || !r.own.ForStores().Same(own) {
		return nil, nil
	}
	return r, nil
}
