package transaction

import (
	"encoding/binary"
	"errors"
	"time"

	"stint"
)

// The flags of an encoded spec.
const (
	flagStep = 1 << iota
	flagFromFirst
	flagCountDenied
	flagOverdraw
	flagHold
	flagStartFull
	flagCarryDebt
	allFlags = 1<<iota - 1
)

// anchorShift is the first bit of the anchor day in the byte of the calendar period.
const anchorShift = 3

// AppendSpec appends the numbers of a limit: algorithm, flags, calendar period and anchor (a byte each),
// requests, burst, blocks, per, max_wait, min_interval (uvarints, times in nanoseconds), and the
// name of the time zone after its length, "" for none. A penalty has decay in nanoseconds and jitter
// (uvarints), and its ladder after its length.
func AppendSpec(b []byte, s *stint.Spec) []byte {
	flags := byte(0)
	for i, set := range []bool{s.Step, s.FromFirst, s.CountDenied, s.Overdraw, s.Reserve, s.StartUsedUp, s.CarryDebt} {
		if set {
			flags |= 1 << i
		}
	}
	b = append(b, byte(s.Algorithm), flags, byte(s.Calendar)|s.Anchor<<anchorShift)
	for _, n := range []uint64{
		uint64(s.Requests), uint64(s.Burst), uint64(s.Blocks),
		uint64(s.Per), uint64(s.MaxWait), uint64(s.MinInterval),
	} {
		b = binary.AppendUvarint(b, n)
	}
	zone := ""
	if s.Zone != nil {
		zone = s.Zone.String()
	}
	b = appendText(b, zone)
	if s.Algorithm == stint.Penalty {
		b = binary.AppendUvarint(b, uint64(s.Decay))
		b = binary.AppendUvarint(b, uint64(s.Jitter))
		b = appendText(b, s.Ladder)
	}
	return b
}

// Errors of ReadSpec.
var (
	errNumbers = errors.New("numbers of a limit are cut or too large")
	errUnknown = errors.New("numbers of a limit are cut or unknown")
	errPenalty = errors.New("numbers of a penalty are cut or too large")
)

// ReadSpec reads the numbers of a limit that AppendSpec wrote at the beginning of b, and returns the
// limit and the rest of b.
func ReadSpec(b []byte) (*stint.Limit, []byte, error) {
	if len(b) < 3 {
		return nil, nil, errNumbers
	}
	var s stint.Spec
	flags := b[1]
	s.Algorithm = stint.Algorithm(b[0])
	s.Calendar, s.Anchor = stint.Period(b[2]&(1<<anchorShift-1)), b[2]>>anchorShift
	s.Step, s.FromFirst = flags&flagStep != 0, flags&flagFromFirst != 0
	s.CountDenied, s.Overdraw = flags&flagCountDenied != 0, flags&flagOverdraw != 0
	s.Reserve, s.StartUsedUp = flags&flagHold != 0, flags&flagStartFull != 0
	s.CarryDebt = flags&flagCarryDebt != 0
	c := cursor{left: b[3:]}
	var numbers [6]uint64
	for i := range numbers {
		most := uint64(stint.MaxCost)
		if i >= 3 {
			most = uint64(stint.MaxFill)
		}
		numbers[i] = c.number(most)
	}
	if c.wrong {
		return nil, nil, errNumbers
	}
	s.Requests, s.Burst, s.Blocks = uint32(numbers[0]), uint32(numbers[1]), int(numbers[2])
	s.Per, s.MaxWait, s.MinInterval = time.Duration(numbers[3]), time.Duration(numbers[4]), time.Duration(numbers[5])
	name := c.text()
	if c.wrong || flags > allFlags {
		return nil, nil, errUnknown
	}
	if name != "" {
		zone, err := time.LoadLocation(name)
		if err != nil {
			return nil, nil, err
		}
		s.Zone = zone
	}
	if s.Algorithm == stint.Penalty && !c.penalty(&s) {
		return nil, nil, errPenalty
	}
	s.RoundRate = true // a running store accepted the rate before
	limit, err := stint.NewLimit(s)
	return limit, c.left, err
}

// penalty reads the further numbers of a penalty. It returns false if they are cut or too large.
func (c *cursor) penalty(s *stint.Spec) bool {
	s.Decay, s.Jitter, s.Ladder = time.Duration(c.number(uint64(stint.MaxPer))), uint32(c.number(stint.MaxCost)), c.text()
	return !c.wrong
}
