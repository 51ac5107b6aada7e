package wire

import (
	"encoding/binary"

	"stint"
)

// Writer writes one message. The zero Writer is ready for Begin.
type Writer struct {
	// Data is the message so far.
	Data []byte

	limits map[*stint.Limit]uint64 // those already in the message, and their numbers
}

// Begin starts a message of a kind, sent by the node with the number from.
func (w *Writer) Begin(kind byte, from uint64) {
	w.Data = append(make([]byte, 0, MaxPacket), format(kind), kind)
	w.Fixed64(from)
	w.limits = nil
}

// Number writes a number, small ones in fewer bytes.
func (w *Writer) Number(n uint64) { w.Data = binary.AppendUvarint(w.Data, n) }

// Fixed64 writes a number in eight bytes.
func (w *Writer) Fixed64(n uint64) { w.Data = binary.LittleEndian.AppendUint64(w.Data, n) }

// Bytes writes the length of b, and b.
func (w *Writer) Bytes(b string) {
	w.Number(uint64(len(b)))
	w.Data = append(w.Data, b...)
}

// Flag writes one byte, 1 or 0.
func (w *Writer) Flag(set bool) {
	b := byte(0)
	if set {
		b = 1
	}
	w.Data = append(w.Data, b)
}

// ago writes the time from at to now.
func (w *Writer) ago(at, now stint.Instant) { w.Number(uint64(max(0, now-at))) }

// anchorShift is the first bit of the anchor day in the number of the calendar period.
const anchorShift = 3

// Limit writes the number of a limit in this message, and the first time its parameters.
func (w *Writer) Limit(l *stint.Limit) {
	if n, ok := w.limits[l]; ok {
		w.Number(n)
		return
	}
	n := uint64(len(w.limits))
	if w.limits == nil {
		w.limits = make(map[*stint.Limit]uint64)
	}
	w.limits[l] = n
	w.Number(n)
	s := l.Spec()
	flags := uint64(0)
	for i, set := range []bool{s.Step, s.FromFirst, s.CountDenied, s.Overdraw, s.Reserve, s.StartUsedUp, s.CarryDebt} {
		if set {
			flags |= 1 << i
		}
	}
	zone := ""
	if s.Zone != nil {
		zone = s.Zone.String()
	}
	for _, n := range []uint64{
		uint64(s.Algorithm), flags, uint64(s.Calendar) | uint64(s.Anchor)<<anchorShift, uint64(s.Requests), uint64(s.Burst), uint64(s.Blocks),
		uint64(s.Per), uint64(s.MaxWait), uint64(s.MinInterval),
	} {
		w.Number(n)
	}
	w.Bytes(zone)
}
