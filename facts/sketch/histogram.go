package sketch

import (
	"encoding/json"
	"errors"
	"math"
)

const (
	// The steps of a histogram are 16 to a power of two, from 2^-10 on.
	stepsPerOctave = 16
	octavesBelow   = 10
	histogramSteps = 20 * stepsPerOctave
)

// Histogram counts shares by their logarithm. Quantiles are at most 2.2 % off. Its zero value is empty. An
// assignment does not copy it: add it to an empty one.
type Histogram struct {
	counts []uint32 // nil: empty
}

// Observe adds a share.
func (h *Histogram) Observe(share float64) {
	if h.counts == nil {
		h.counts = make([]uint32, histogramSteps)
	}
	step := 0
	if share > 0 {
		step = min(max(int((math.Log2(share)+octavesBelow)*stepsPerOctave), 0), histogramSteps-1)
	}
	h.counts[step]++
}

// Add adds the shares of another one.
func (h *Histogram) Add(other *Histogram) {
	if other.counts == nil {
		return
	}
	if h.counts == nil {
		h.counts = make([]uint32, histogramSteps)
	}
	for i, n := range other.counts {
		h.counts[i] += n
	}
}

// Quantile returns a quantile of the shares; 0 if there are none.
func (h *Histogram) Quantile(q float64) float64 {
	total := uint64(0)
	for _, n := range h.counts {
		total += uint64(n)
	}
	rank := uint64(math.Ceil(q * float64(total)))
	for i, n := range h.counts {
		if uint64(n) >= rank && rank > 0 {
			if i == 0 {
				return 0
			}
			return math.Exp2((float64(i)+0.5)/stepsPerOctave - octavesBelow)
		}
		rank -= min(uint64(n), rank)
	}
	return 0
}

// MarshalJSON writes pairs of a step and its count, as most are 0.
func (h Histogram) MarshalJSON() ([]byte, error) { return marshalPairs(h.counts) }

// UnmarshalJSON reads what MarshalJSON wrote.
func (h *Histogram) UnmarshalJSON(b []byte) error {
	return unmarshalPairs(b, histogramSteps, &h.counts)
}

// marshalPairs writes the index and the value of each element that is not 0.
func marshalPairs(counts []uint32) ([]byte, error) {
	pairs := [][2]uint32{}
	for i, n := range counts {
		if n > 0 {
			pairs = append(pairs, [2]uint32{uint32(i), n})
		}
	}
	return json.Marshal(pairs)
}

// unmarshalPairs reads what marshalPairs wrote.
func unmarshalPairs(b []byte, length int, counts *[]uint32) error {
	var pairs [][2]uint32
	if err := json.Unmarshal(b, &pairs); err != nil {
		return err
	}
	*counts = nil
	if len(pairs) == 0 {
		return nil
	}
	*counts = make([]uint32, length)
	for _, pair := range pairs {
		if int64(pair[0]) >= int64(length) {
			return errors.New("a histogram has a step that is out of range")
		}
		(*counts)[pair[0]] = pair[1]
	}
	return nil
}
