package facts

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"stint/facts/sketch"
	"stint/internal/system"
)

// stateVersion is the version of the state file. A file of another version is not read.
const stateVersion = 1

// maxPause is how long the service may be stopped so that its rules count as watched meanwhile.
const maxPause = time.Hour

// state is the state file: counts, peaks and history. It has no keys.
type state struct {
	Version int         `json:"version"`
	Since   time.Time   `json:"since"`
	Saved   time.Time   `json:"saved"`
	Marks   []Mark      `json:"marks"`
	Rules   []stateRule `json:"rules"`

	// Print is the fingerprint of the secret. Counts of keys under another secret are not used.
	Print string `json:"print"`
}

// stateRule is a rule in the state file.
type stateRule struct {
	Domain  string `json:"domain"`
	Name    string `json:"name"`
	Catalog bool   `json:"catalog,omitempty"`
	Counts
	First   time.Time      `json:"first"`
	Last    time.Time      `json:"last"`
	Since   time.Time      `json:"seen_since"`
	Limit   string         `json:"limit"` // whose peaks are measured
	Peaks   measured       `json:"peaks"`
	Minutes []sketch.Chunk `json:"minutes"`
	Tens    []sketch.Chunk `json:"tens"`
	Ten     Counts         `json:"ten"`
	TenAt   time.Time      `json:"ten_at"`
	Tried   *stateTried    `json:"tried,omitempty"`
}

// stateTried are the facts of a candidate in the state file.
type stateTried struct {
	Limit    string `json:"limit"`
	Now      Counts `json:"now"`
	Then     Counts `json:"then"`
	KeysNow  []byte `json:"keys_now"` // registers of the denied keys
	KeysThen []byte `json:"keys_then"`
}

// StateError is a state file that cannot be used.
type StateError struct {
	File string
	Err  error
}

// Error returns what is wrong.
func (e *StateError) Error() string { return "facts in " + e.File + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *StateError) Unwrap() error { return e.Err }

// saveLocked writes the state file.
func (f *Facts) saveLocked() error {
	s := state{Version: stateVersion, Since: f.since, Saved: f.now(), Marks: f.marks, Print: f.print}
	b := f.board.Load()
	for _, r := range b.all() {
		s.Rules = append(s.Rules, r.stateLocked(f.counted))
	}
	for _, r := range f.retired {
		s.Rules = append(s.Rules, r.stateLocked(f.counted))
	}
	return system.ReplaceFile(f.options.State, func(w io.Writer) error {
		out := bufio.NewWriter(w)
		if err := json.NewEncoder(out).Encode(s); err != nil {
			return err
		}
		return out.Flush()
	})
}

func (r *ruleFacts) stateLocked(counted func(domain, rule string) Counts) stateRule {
	peaks := r.peaks.current()
	peaks.add(&r.peaks.before)
	return stateRule{
		Domain: r.name.domain, Name: r.name.name, Catalog: r.rule.Load() == nil,
		Counts: r.countsLocked(counted), First: r.first, Last: r.last, Since: r.since, Limit: r.peaks.limit, Peaks: peaks,
		Minutes: r.history.Minutes.Chunks, Tens: r.history.Tens.Chunks, Ten: countsFrom(r.history.Ten), TenAt: r.history.TenAt,
		Tried: r.tried.Load().state(),
	}
}

// load reads the state file. Its rules wait among the retired ones until the table has them.
func (f *Facts) load() error {
	body, err := os.ReadFile(f.options.State)
	if err != nil {
		return err
	}
	var s state
	if err = json.Unmarshal(body, &s); err != nil {
		return &StateError{f.options.State, err}
	}
	if s.Version != stateVersion {
		return &StateError{f.options.State, fmt.Errorf("version %d of the file, and this program reads %d", s.Version, stateVersion)}
	}
	catalogs := map[string]*ruleFacts{}
	for i := range s.Rules {
		one := &s.Rules[i]
		r := newRuleFacts(ruleName{one.Domain, one.Name}, len(f.shards))
		r.kept, r.recorded, r.first, r.last = one.Counts, one.Counts, one.First, one.Last
		if f.now().Sub(s.Saved) < maxPause {
			r.since = one.Since
		}
		r.asked = one.Allowed + one.Denied + one.Looks
		r.peaks.limit, r.peaks.before = one.Limit, one.Peaks
		r.history = sketch.History{Minutes: sketch.Series{Chunks: one.Minutes}, Tens: sketch.Series{Chunks: one.Tens}, Ten: one.Ten.numbers(), TenAt: one.TenAt}
		if err = r.history.Check(); err == nil && one.Tried != nil {
			err = r.restore(one.Tried, s.Print == f.print)
		}
		if err != nil {
			return &StateError{f.options.State, err}
		}
		if one.Catalog && one.Name == CatalogRule {
			catalogs[one.Domain] = r
		} else {
			f.retired[r.name] = r
		}
	}
	f.since, f.marks = s.Since, s.Marks
	f.board.Load().catalogs.Store(&catalogs)
	return nil
}
