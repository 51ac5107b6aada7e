package accesslog

import (
	"bytes"
	"math"
	"strconv"
	"time"

	"stint"
)

// stampCache parses the time stamps of Apache and nginx, such as 17/May/2015:10:05:03 +0000, and
// caches the last minute.
type stampCache struct {
	minute [len("17/May/2015:10:05:")]byte
	zone   [len(" +0000")]byte
	start  int64 // Unix microseconds of the beginning of the cached minute
	known  bool
}

// parse parses the time stamp at the beginning of s and returns its length. A fraction of a second
// and the zone are optional.
func (c *stampCache) parse(s []byte) (at stint.Instant, n int, ok bool) {
	const seconds = len("17/May/2015:10:05:")
	if len(s) < seconds+2 {
		return 0, 0, false
	}
	sec, ok := number(s[seconds:seconds+2], 60)
	if !ok {
		return 0, 0, false
	}
	n = seconds + 2
	micros, digits := fraction(s[n:])
	n += digits
	if len(s) >= n+len(c.zone) && c.known && bytes.Equal(s[:seconds], c.minute[:]) && bytes.Equal(s[n:n+len(c.zone)], c.zone[:]) {
		return stint.Instant(c.start + int64(sec)*1e6 + micros), n + len(c.zone), true
	}
	start, ok := minute(s)
	if !ok {
		return 0, 0, false
	}
	if zone, ok := offset(s[n:], ' '); ok {
		start -= zone
		copy(c.minute[:], s)
		copy(c.zone[:], s[n:])
		c.start, c.known = start, start > 0 && start < int64(stint.MaxInstant)-61e6
		n += len(c.zone)
	}
	at, ok = instant(start + int64(sec)*1e6 + micros)
	return at, n, ok
}

// instant returns a time as an Instant; false if it is not between 1970 and 2112.
func instant(micros int64) (stint.Instant, bool) {
	return stint.Instant(micros), micros > 0 && micros <= int64(stint.MaxInstant)
}

const months = "JanFebMarAprMayJunJulAugSepOctNovDec"

// minute parses "17/May/2015:10:05:" as UTC and returns microseconds.
func minute(s []byte) (int64, bool) {
	if s[2] != '/' || s[6] != '/' || s[11] != ':' || s[14] != ':' || s[17] != ':' {
		return 0, false
	}
	month := bytes.Index([]byte(months), s[3:6])
	day, ok1 := number(s[0:2], 31)
	year, ok2 := number(s[7:11], 9999)
	hour, ok3 := number(s[12:14], 23)
	min, ok4 := number(s[15:17], 59)
	if month < 0 || month%3 != 0 || !ok1 || !ok2 || !ok3 || !ok4 {
		return 0, false
	}
	return date(year, month/3+1, day, hour, min)
}

// date returns the time of a minute in UTC, in microseconds; false if the day does not exist.
func date(year, month, day, hour, min int) (int64, bool) {
	t := time.Date(year, time.Month(month), day, hour, min, 0, 0, time.UTC)
	return t.UnixMicro(), t.Day() == day && month >= 1 && month <= 12
}

// number parses a number of digits only.
func number(s []byte, most int) (int, bool) {
	n := 0
	for _, c := range s {
		if !isDigit(c) {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, n <= most
}

// fraction parses a fraction of a second such as .125, rounded down to microseconds, and returns
// its length.
func fraction(s []byte) (micros int64, n int) {
	if len(s) < 2 || s[0] != '.' && s[0] != ',' || !isDigit(s[1]) {
		return 0, 0
	}
	unit := int64(100_000)
	for n = 1; n < len(s) && isDigit(s[n]); n++ {
		micros += unit * int64(s[n]-'0')
		unit /= 10
	}
	return micros, n
}

// offset parses a zone such as " +0200" after the byte lead, in microseconds.
func offset(s []byte, lead byte) (int64, bool) {
	if len(s) < 6 || s[0] != lead || s[1] != '+' && s[1] != '-' {
		return 0, false
	}
	hours, ok1 := number(s[2:4], 23)
	minutes, ok2 := number(s[4:6], 59)
	east := (int64(hours)*60 + int64(minutes)) * 60e6
	if s[1] == '-' {
		east = -east
	}
	return east, ok1 && ok2
}

// anyTime parses a time as in JSON logs: RFC 3339, also with a space in the middle and without a
// zone, the time stamp of Apache and nginx, or a number of seconds, milli-, micro- or nanoseconds
// since the epoch.
func (c *stampCache) anyTime(s []byte) (stint.Instant, bool) {
	if len(s) > 2 && s[0] == '[' {
		s = s[1:]
	}
	if at, _, ok := c.parse(s); ok {
		return at, true
	}
	if t, ok := isoTime(s); ok {
		return instant(t)
	}
	if t, ok := epochTime(s); ok {
		return instant(t)
	}
	return 0, false
}

// isoTime parses 2015-05-17T10:05:03.125+02:00 and its variants.
func isoTime(s []byte) (int64, bool) {
	const seconds = len("2015-05-17T10:05:03")
	if len(s) < seconds || s[4] != '-' && s[4] != '/' || s[7] != s[4] || s[13] != ':' || s[16] != ':' {
		return 0, false
	}
	if s[10] != 'T' && s[10] != 't' && s[10] != ' ' {
		return 0, false
	}
	year, ok1 := number(s[0:4], 9999)
	month, ok2 := number(s[5:7], 12)
	day, ok3 := number(s[8:10], 31)
	hour, ok4 := number(s[11:13], 23)
	min, ok5 := number(s[14:16], 59)
	sec, ok6 := number(s[17:19], 60)
	if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 || !ok6 {
		return 0, false
	}
	t, ok := date(year, month, day, hour, min)
	micros, n := fraction(s[seconds:])
	zone, known := isoZone(bytes.TrimLeft(s[seconds+n:], " "))
	return t + int64(sec)*1e6 + micros - zone, ok && known
}

// isoZone parses Z, +02:00, +0200, +02 or nothing, in microseconds.
func isoZone(s []byte) (int64, bool) {
	switch {
	case len(s) == 0, len(s) == 1 && s[0]|0x20 == 'z', string(s) == "UTC":
		return 0, true
	case len(s) != 3 && len(s) != 5 && (len(s) != 6 || s[3] != ':'):
		return 0, false
	}
	zone := [6]byte{' ', 0, '0', '0', '0', '0'}
	copy(zone[1:], s[:3])
	if len(s) > 3 {
		copy(zone[4:], s[len(s)-2:])
	}
	return offset(zone[:], ' ')
}

// epochTime parses a decimal number since the epoch. Its size determines the unit: seconds reach
// 10^11 in the year 5138.
func epochTime(s []byte) (int64, bool) {
	n := 0
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	whole, err := strconv.ParseInt(string(s[:n]), 10, 64)
	if err != nil || n == 0 {
		return 0, false
	}
	micros, digits := fraction(s[n:])
	if n+digits < len(s) { // exponent notation: 1.431857103e9
		f, err := strconv.ParseFloat(string(s), 64)
		if err != nil || f < 0 || f > math.MaxInt64/2 {
			return 0, false
		}
		whole = int64(f)
		micros = int64((f - float64(whole)) * 1e6)
	}
	switch {
	case whole < 1e11:
		return whole*1e6 + micros, true
	case whole < 1e14:
		return whole*1e3 + micros/1e3, true
	case whole < 1e17:
		return whole, true
	}
	return whole / 1e3, true
}
