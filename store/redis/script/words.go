package script

import (
	"encoding/binary"
	"math"
	"strconv"
)

// Flag is how scripts are told yes and no.
func Flag(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

// small are the words of small numbers.
var small = func() (words [256]string) {
	for i := range words {
		words[i] = strconv.Itoa(i)
	}
	return words
}()

// Number returns the word of a number. Those below 256 take no memory.
func Number(n int64) string {
	if n >= 0 && n < int64(len(small)) {
		return small[n]
	}
	return strconv.FormatInt(n, 10)
}

// Doubles appends numbers of at most 2^53 as quick.lua and few.lua read them.
func Doubles(bytes []byte, numbers ...int64) []byte {
	for _, n := range numbers {
		bytes = binary.LittleEndian.AppendUint64(bytes, math.Float64bits(float64(n)))
	}
	return bytes
}
