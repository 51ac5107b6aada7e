package action

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

const (
	// minSecret is how many bytes a secret must have: as many as its signatures.
	minSecret = sha256.Size

	// maxSecrets bounds what a forged cookie costs us.
	maxSecrets = 10

	idSize   = 16
	timeSize = 8
	size     = 1 + idSize + timeSize + sha256.Size // version, id, time of issue, signature
	version  = 1
)

// deviceIDLength is how long every cookie is.
var deviceIDLength = base64.RawURLEncoding.EncodedLen(size)

// DeviceSigner signs and checks the cookies of one name, by which a device is known again. It is immutable and safe for
// concurrent use. A check costs about a microsecond for each secret that is tried.
type DeviceSigner struct {
	name    string
	secrets [][]byte
	maxAge  time.Duration
}

// NewDeviceSigner returns a signer. The first secret signs, all of them are believed. A cookie is
// good for maxAge after it was issued, by this clock; a name has its own, so that the
// cookie of one is none of another.
func NewDeviceSigner(name string, secrets [][]byte, maxAge time.Duration) *DeviceSigner {
	return &DeviceSigner{name: name, secrets: secrets, maxAge: maxAge}
}

// ParseDeviceSecrets reads a file of secrets: one a line, each of 32 bytes or more, where
// empty lines and those that begin with # do not count. Errors never show a secret.
func ParseDeviceSecrets(data []byte) (secrets [][]byte, err error) {
	n := 0
	for line := range bytes.Lines(data) {
		n++
		line = bytes.TrimSpace(line)
		switch {
		case len(line) == 0 || line[0] == '#':
		case len(line) < minSecret:
			return nil, fmt.Errorf("line %d has %d bytes, and a secret at least %d", n, len(line), minSecret)
		case len(secrets) == maxSecrets:
			return nil, fmt.Errorf("more than %d secrets", maxSecrets)
		default:
			secrets = append(secrets, bytes.Clone(line))
		}
	}
	if len(secrets) == 0 {
		return nil, errors.New("no secret")
	}
	return secrets, nil
}

// MaxAge returns how long a cookie is good.
func (s *DeviceSigner) MaxAge() time.Duration { return s.maxAge }

// Issue returns the cookie of a new device.
func (s *DeviceSigner) Issue(now time.Time) string {
	var id [idSize]byte
	_, _ = rand.Read(id[:]) // never fails: it ends the program instead
	return s.seal(id[:], now)
}

// seal returns the cookie of a device.
func (s *DeviceSigner) seal(id []byte, now time.Time) string {
	b := make([]byte, 0, size)
	b = append(b, version)
	b = append(b, id...)
	b = binary.BigEndian.AppendUint64(b, uint64(now.Unix()))
	b = append(b, s.sign(0, b)...)
	return base64.RawURLEncoding.EncodeToString(b)
}

// sign returns the signature by the secret of that number.
func (s *DeviceSigner) sign(i int, text []byte) []byte {
	mac := hmac.New(sha256.New, s.secrets[i])
	mac.Write([]byte(s.name))
	mac.Write([]byte{0}) // no name has one
	mac.Write(text)
	return mac.Sum(nil)
}

// Read returns the id of the device that a cookie is of, and false where the cookie
// is not one of ours, or too old. renewed is the cookie that the device shall have in
// its place, "" where that may stay: one that is half as old as it may become, or that
// another secret than the first has signed, is replaced, so that a device which comes
// now and then remains the same, and a secret can be taken out in the end.
func (s *DeviceSigner) Read(cookie string, now time.Time) (id, renewed string, ok bool) {
	if len(cookie) != deviceIDLength {
		return "", "", false
	}
	b, err := base64.RawURLEncoding.DecodeString(cookie)
	if err != nil || len(b) != size || b[0] != version { // it reads over line ends
		return "", "", false
	}
	text, signature := b[:size-sha256.Size], b[size-sha256.Size:]
	// One that a faster clock than ours has issued is new.
	issued := time.Unix(int64(binary.BigEndian.Uint64(text[1+idSize:])), 0)
	age := now.Sub(issued)
	if age >= s.maxAge {
		return "", "", false
	}
	for i := range s.secrets {
		if !hmac.Equal(signature, s.sign(i, text)) {
			continue
		}
		device := text[1 : 1+idSize]
		if i > 0 || age >= s.maxAge/2 {
			renewed = s.seal(device, now)
		}
		return base64.RawURLEncoding.EncodeToString(device), renewed, true
	}
	return "", "", false
}
