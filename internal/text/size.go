package text

import (
	"strconv"
	"strings"
)

// sizeUnits are the units of a size; longer names come first.
var sizeUnits = []struct {
	suffix string
	bytes  int64
}{
	{"KiB", 1 << 10},
	{"MiB", 1 << 20},
	{"GiB", 1 << 30},
	{"TiB", 1 << 40},
	{"KB", 1e3},
	{"kB", 1e3},
	{"MB", 1e6},
	{"GB", 1e9},
	{"TB", 1e12},
	{"B", 1},
	{"", 1},
}

// ParseSize parses a number of bytes, for example 512MiB. It refuses negative ones.
func ParseSize(text string) (bytes int64, ok bool) {
	for _, u := range sizeUnits {
		digits, has := strings.CutSuffix(text, u.suffix)
		if !has {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if err != nil || n < 0 || n > (1<<62)/u.bytes {
			return 0, false
		}
		return n * u.bytes, true
	}
	return 0, false
}

// FormatSize returns the shortest text that ParseSize parses as that many bytes, for example 512MiB.
func FormatSize(bytes int64) string {
	for i := 3; i >= 0; i-- {
		if u := sizeUnits[i]; bytes >= u.bytes && bytes%u.bytes == 0 {
			return strconv.FormatInt(bytes/u.bytes, 10) + u.suffix
		}
	}
	return strconv.FormatInt(bytes, 10)
}
