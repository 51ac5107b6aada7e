package facts

import (
	"encoding/json"
	"errors"
)

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
