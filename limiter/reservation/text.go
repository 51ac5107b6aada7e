package reservation

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"time"

	"stint"
	"stint/internal/transaction"
)

// The first byte of a reservation says its version, for nodes of other releases.
const (
	version = 3
	granted = 4 // some take was charged to grants or a rollover: each has what it spent
)

// The lengths of the parts of a reservation, in bytes.
const (
	idLen   = 16 // random
	signLen = sha256.Size
	least   = 1 + idLen + 1 + 1 + 1 + signLen
)

// note is a reservation, as its text has it.
type note struct {
	id     string
	made   time.Time
	domain string
	takes  []reserved
}

// reserved is a take whose units are reserved.
type reserved struct {
	rule       string // Terms.Rule of the limit, which identifies it across its versions
	plan       string // the plan that the limit is of; "" for none
	key, place stint.Key
	cost       uint32

	// What a refund needs of the decision.
	at    stint.Instant
	reset time.Duration
	own   bool

	spent string // see stint.Decision

	// The names of the key in its history; nil: it has none.
	meter *transaction.Meter
}

// seal returns the text of a reservation.
func (r *Reservations) seal(n *note) string {
	data := append([]byte{version}, n.id...)
	spends := slices.ContainsFunc(n.takes, func(t reserved) bool { return t.spent != "" })
	if spends {
		data[0] = granted
	}
	data = binary.AppendVarint(data, n.made.UnixMilli())
	data = appendText(data, n.domain)
	data = binary.AppendUvarint(data, uint64(len(n.takes)))
	for i := range n.takes {
		t := &n.takes[i]
		data = appendText(appendText(data, t.rule), t.plan)
		data = appendText(appendText(data, string(t.key)), string(t.place))
		data = binary.AppendVarint(binary.AppendUvarint(data, uint64(t.cost)), int64(t.at))
		data = binary.AppendVarint(data, int64(t.reset))
		data = appendBool(appendBool(data, t.own), t.meter != nil)
		if m := t.meter; m != nil {
			data = binary.AppendVarint(appendText(appendText(appendText(data, m.Subject), m.Plan), m.Limit), m.Of)
		}
		if spends {
			data = appendText(data, t.spent)
		}
	}
	return base64.RawURLEncoding.EncodeToString(r.sign(data, data))
}

// sign appends the signature of data to dst.
func (r *Reservations) sign(dst, data []byte) []byte {
	mac := hmac.New(sha256.New, r.secret)
	mac.Write(data)
	return mac.Sum(dst)
}

func appendBool(dst []byte, yes bool) []byte {
	if yes {
		return append(dst, 1)
	}
	return append(dst, 0)
}

func appendText(dst []byte, text string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// open reads the text of a reservation. It returns false if no node with this secret made it.
func (r *Reservations) open(text string) (*note, bool) {
	data, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(data) < least {
		return nil, false
	}
	data, sign := data[:len(data)-signLen], data[len(data)-signLen:]
	if !hmac.Equal(sign, r.sign(nil, data)) || data[0] != version && data[0] != granted {
		return nil, false
	}
	// What follows is as seal wrote it.
	from := reader(data[1+idLen:])
	n := &note{id: string(data[1 : 1+idLen]), made: time.UnixMilli(from.signed()), domain: from.text()}
	n.takes = make([]reserved, from.unsigned())
	for i := range n.takes {
		n.takes[i] = reserved{
			rule: from.text(), plan: from.text(), key: stint.Key(from.text()), place: stint.Key(from.text()),
			cost: uint32(from.unsigned()), at: stint.Instant(from.signed()), reset: time.Duration(from.signed()), own: from.unsigned() == 1,
		}
		if from.unsigned() == 1 {
			n.takes[i].meter = &transaction.Meter{Subject: from.text(), Plan: from.text(), Limit: from.text(), Of: from.signed()}
		}
		if data[0] == granted {
			n.takes[i].spent = from.text()
		}
	}
	return n, true
}

// reader reads what seal wrote.
type reader []byte

func (r *reader) unsigned() uint64 {
	v, n := binary.Uvarint(*r)
	*r = (*r)[n:]
	return v
}

func (r *reader) signed() int64 {
	v, n := binary.Varint(*r)
	*r = (*r)[n:]
	return v
}

func (r *reader) text() string {
	n := r.unsigned()
	text := string((*r)[:n])
	*r = (*r)[n:]
	return text
}
