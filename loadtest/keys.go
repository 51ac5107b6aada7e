package loadtest

import (
	"fmt"
	"math/rand/v2"
)

// Spread is how calls are spread over keys.
type Spread uint8

// The spreads.
const (
	Uniform Spread = iota // all keys equally often
	Zipf                  // few keys often and many rarely
	Hot                   // one key gets a share of all calls, the others are equal
)

var spreadNames = [...]string{"uniform", "zipf", "hot"}

// String returns the name of the spread, such as "zipf".
func (s Spread) String() string {
	if int(s) < len(spreadNames) {
		return spreadNames[s]
	}
	return fmt.Sprintf("Spread(%d)", uint8(s))
}

// ParseSpread returns the spread of a name.
func ParseSpread(name string) (Spread, error) {
	for i, n := range spreadNames {
		if n == name {
			return Spread(i), nil
		}
	}
	return 0, fmt.Errorf("unknown spread %q", name)
}

// Keys chooses the keys of calls: numbers from 0.
type Keys struct {
	Count  int
	Spread Spread

	// Exponent of Zipf's law, above 1.
	Exponent float64

	// Share of the calls that Hot gives to key 0, from 0 to 1.
	Share float64
}

func (k Keys) check() error {
	switch {
	case k.Count < 1 || k.Count > MaxKeys:
		return fmt.Errorf("loadtest: %d keys are not between 1 and %d", k.Count, MaxKeys)
	case int(k.Spread) >= len(spreadNames):
		return fmt.Errorf("loadtest: unknown spread %v", k.Spread)
	case k.Spread == Zipf && !(k.Exponent > 1 && k.Exponent <= 10):
		return fmt.Errorf("loadtest: exponent %v of Zipf's law is not above 1 and at most 10", k.Exponent)
	case k.Spread == Hot && !(k.Share >= 0 && k.Share <= 1):
		return fmt.Errorf("loadtest: share %v of the hot key is not between 0 and 1", k.Share)
	}
	return nil
}

// chooser returns a function that chooses the key of each call.
func (k Keys) chooser(random *rand.Rand) func() int {
	switch {
	case k.Count == 1:
		return func() int { return 0 }
	case k.Spread == Zipf:
		z := rand.NewZipf(random, k.Exponent, 1, uint64(k.Count-1))
		return func() int { return int(z.Uint64()) }
	case k.Spread == Hot:
		return func() int {
			if random.Float64() < k.Share {
				return 0
			}
			return 1 + random.IntN(k.Count-1)
		}
	}
	return func() int { return random.IntN(k.Count) }
}
