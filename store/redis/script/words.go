package script

import (
	"encoding/binary"
	"math"
	"strconv"
)

// Flag returns 1 for true, as scripts take it.
func Flag(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

// smallTexts are the texts of the numbers below 256.
var smallTexts = func() (words [256]string) {
	for i := range words {
		words[i] = strconv.Itoa(i)
	}
	return words
}()

// Number returns the decimal text of n. It allocates nothing for n below 256.
func Number(n int64) string {
	if n >= 0 && n < int64(len(smallTexts)) {
		return smallTexts[n]
	}
	return strconv.FormatInt(n, 10)
}

// Doubles appends numbers of at most 2^53 in the encoding of quick.lua and few.lua.
func Doubles(bytes []byte, numbers ...int64) []byte {
	for _, n := range numbers {
		bytes = binary.LittleEndian.AppendUint64(bytes, math.Float64bits(float64(n)))
	}
	return bytes
}
