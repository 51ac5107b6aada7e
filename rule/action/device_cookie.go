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
	// minSecret is the minimum length of a secret in bytes: the length of a signature.
	minSecret = sha256.Size

	// maxSecrets is the maximum number of secrets. It limits the work for a forged cookie.
	maxSecrets = 10

	idSize   = 16
	timeSize = 8
	size     = 1 + idSize + timeSize + sha256.Size // version, id, time of issue, signature
	version  = 1
)

// deviceIDLength is the length of every cookie value.
var deviceIDLength = base64.RawURLEncoding.EncodedLen(size)

// DeviceSigner issues and checks the cookies of one name, which identify a device. It is immutable
// and safe for concurrent use. A check costs about a microsecond for each secret tried.
type DeviceSigner struct {
	name    string
	secrets [][]byte
	maxAge  time.Duration
}

// NewDeviceSigner returns a signer. It signs with the first secret and accepts signatures of all of
// them. A cookie is valid for maxAge after it was issued. The name is part of the signature, so a
// cookie of one name is invalid under another.
func NewDeviceSigner(name string, secrets [][]byte, maxAge time.Duration) *DeviceSigner {
	return &DeviceSigner{name: name, secrets: secrets, maxAge: maxAge}
}

// ParseDeviceSecrets reads a file with one secret of at least 32 bytes in each line. It ignores
// empty lines and lines that begin with #. Its errors never contain a secret.
func ParseDeviceSecrets(data []byte) (secrets [][]byte, err error) {
	n := 0
	for line := range bytes.Lines(data) {
		n++
		line = bytes.TrimSpace(line)
		switch {
		case len(line) == 0 || line[0] == '#':
		case len(line) < minSecret:
			return nil, fmt.Errorf("line %d has %d bytes, but a secret needs at least %d", n, len(line), minSecret)
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

// MaxAge returns how long a cookie is valid.
func (s *DeviceSigner) MaxAge() time.Duration { return s.maxAge }

// Issue returns a cookie for a new device.
func (s *DeviceSigner) Issue(now time.Time) string {
	var id [idSize]byte
	_, _ = rand.Read(id[:]) // rand.Read never returns an error
	return s.seal(id[:], now)
}

// seal returns the cookie of the device with this ID.
func (s *DeviceSigner) seal(id []byte, now time.Time) string {
	b := make([]byte, 0, size)
	b = append(b, version)
	b = append(b, id...)
	b = binary.BigEndian.AppendUint64(b, uint64(now.Unix()))
	b = append(b, s.sign(0, b)...)
	return base64.RawURLEncoding.EncodeToString(b)
}

// sign returns the signature of text with secret number i.
func (s *DeviceSigner) sign(i int, text []byte) []byte {
	mac := hmac.New(sha256.New, s.secrets[i])
	mac.Write([]byte(s.name))
	mac.Write([]byte{0}) // a separator that no name contains
	mac.Write(text)
	return mac.Sum(nil)
}

// Read returns the device ID of a cookie; false if we did not sign the cookie or it is too old.
// renewed is a new cookie for the same device, or "" if the old one may stay. A cookie is renewed
// when it has reached half of its maximum age or was not signed with the first secret. So a device
// that returns now and then keeps its ID, and an old secret can be removed in the end.
func (s *DeviceSigner) Read(cookie string, now time.Time) (id, renewed string, ok bool) {
	if len(cookie) != deviceIDLength {
		return "", "", false
	}
	b, err := base64.RawURLEncoding.DecodeString(cookie)
	if err != nil || len(b) != size || b[0] != version { // DecodeString ignores line breaks
		return "", "", false
	}
	text, signature := b[:size-sha256.Size], b[size-sha256.Size:]
	// A cookie with an issue time in the future comes from a faster clock and counts as new.
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
