package sketch

import (
	"errors"
	"math"
	"math/bits"
	"sync/atomic"
)

const (
	// registerBits is the number of bits of a hash that choose a register.
	registerBits = 12

	// Registers is the number of registers of a Distinct. The standard error of its estimate is
	// 1.04/sqrt(Registers), 1.6 %.
	Registers = 1 << registerBits
)

// Distinct estimates how many different keys it has seen, by HyperLogLog: P. Flajolet, É. Fusy, O.
// Gandouet, F. Meunier, "HyperLogLog: the analysis of a near-optimal cardinality estimation algorithm",
// AofA 2007. Its estimate is the one of O. Ertl, "New cardinality estimation algorithms for
// HyperLogLog sketches", 2017, which is as good for few keys as for many.
//
// It takes 4 KiB. The zero Distinct has seen none. It is safe for concurrent use.
type Distinct struct {
	words [Registers / 4]atomic.Uint32 // four registers each
}

// rankOf returns the place of the first bit that is set behind those that choose the register.
func rankOf(hash uint64) uint32 {
	return uint32(bits.LeadingZeros64(hash<<registerBits|1<<(registerBits-1))) + 1
}

// Counted reports whether Add would change nothing, which is so for nearly all hashes. It is quick.
func (d *Distinct) Counted(hash uint64) bool {
	return d.words[hash>>(66-registerBits)].Load()>>(hash>>(61-registerBits)&24)&0xff >= rankOf(hash)
}

// Add adds a key by its hash, which must be uniform.
func (d *Distinct) Add(hash uint64) {
	register := hash >> (64 - registerBits)
	rank := rankOf(hash)
	word, shift := &d.words[register/4], register%4*8
	for {
		old := word.Load()
		if old>>shift&0xff >= rank {
			return
		}
		if word.CompareAndSwap(old, old&^(0xff<<shift)|rank<<shift) {
			return
		}
	}
}

// Merge adds the keys that another one has seen. Both must have got hashes of the same function.
func (d *Distinct) Merge(other *Distinct) {
	for i := range d.words {
		was, more := d.words[i].Load(), other.words[i].Load()
		merged := uint32(0)
		for shift := 0; shift < 32; shift += 8 {
			merged |= max(was>>shift&0xff, more>>shift&0xff) << shift
		}
		d.words[i].Store(merged)
	}
}

// Reset forgets all keys.
func (d *Distinct) Reset() {
	for i := range d.words {
		d.words[i].Store(0)
	}
}

// Estimate returns how many different keys there were.
func (d *Distinct) Estimate() uint64 {
	const q = 64 - registerBits
	var counts [q + 2]float64 // registers by their value
	for i := range d.words {
		word := d.words[i].Load()
		for shift := 0; shift < 32; shift += 8 {
			counts[min(word>>shift&0xff, q+1)]++
		}
	}
	z := Registers * tau(1-counts[q+1]/Registers)
	for k := q; k >= 1; k-- {
		z = 0.5 * (z + counts[k])
	}
	z += Registers * sigma(counts[0]/Registers)
	if math.IsInf(z, 1) {
		return 0
	}
	return uint64(math.Round(Registers * Registers / (2 * math.Ln2) / z))
}

// sigma is the share of empty registers in Ertl's estimate.
func sigma(x float64) float64 {
	if x == 1 {
		return math.Inf(1)
	}
	y, z := 1.0, x
	for {
		x *= x
		before := z
		z += x * y
		y += y
		if z == before {
			return z
		}
	}
}

// tau is the share of full registers in Ertl's estimate.
func tau(x float64) float64 {
	if x == 0 || x == 1 {
		return 0
	}
	y, z := 1.0, 1-x
	for {
		x = math.Sqrt(x)
		before := z
		y *= 0.5
		z -= (1 - x) * (1 - x) * y
		if z == before {
			return z / 3
		}
	}
}

// MarshalBinary returns the registers.
func (d *Distinct) MarshalBinary() ([]byte, error) {
	b := make([]byte, 0, Registers)
	for i := range d.words {
		word := d.words[i].Load()
		b = append(b, byte(word), byte(word>>8), byte(word>>16), byte(word>>24))
	}
	return b, nil
}

// UnmarshalBinary reads what MarshalBinary returned.
func (d *Distinct) UnmarshalBinary(b []byte) error {
	if len(b) != Registers {
		return errors.New("a count of different keys needs 4096 bytes")
	}
	for _, rank := range b {
		if rank > 64-registerBits+1 {
			return errors.New("a register is larger than any hash makes it")
		}
	}
	for i := range d.words {
		d.words[i].Store(uint32(b[4*i]) | uint32(b[4*i+1])<<8 | uint32(b[4*i+2])<<16 | uint32(b[4*i+3])<<24)
	}
	return nil
}
