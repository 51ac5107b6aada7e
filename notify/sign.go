package notify

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Secret is a key that a receiver and this service share. Its text is never printed.
type Secret struct{ key []byte }

// String returns a text without the key, so that no log line and no error can contain it.
func (Secret) String() string { return "whsec_***" }

// GoString is String.
func (s Secret) GoString() string { return s.String() }

const (
	secretPrefix = "whsec_"

	// leastKey and mostKey are the bounds of a key in bytes, as Standard Webhooks requires.
	leastKey, mostKey = 24, 64

	// mostSecrets is the most secrets of a receiver: the old one and the new one, and some more.
	mostSecrets = 8
)

// SecretHint says how to make a secret.
const SecretHint = `put a secret there: echo "whsec_$(openssl rand -base64 32)" > FILE`

// ParseSecrets parses the content of a secret file: secrets such as whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw, one a
// line. With several of them each message has a signature for each, so a receiver can change to a new secret
// while the old one is still valid. An error does not contain a secret.
func ParseSecrets(content []byte) ([]Secret, error) {
	var all []Secret
	for i, line := range bytes.Split(content, []byte("\n")) {
		text := strings.TrimSpace(string(line))
		if text == "" {
			continue
		}
		encoded, known := strings.CutPrefix(text, secretPrefix)
		if !known {
			return nil, fmt.Errorf("line %d is no secret: it does not begin with %s", i+1, secretPrefix)
		}
		key, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return nil, fmt.Errorf("line %d is no secret: %s is not followed by base64", i+1, secretPrefix)
		}
		if len(key) < leastKey || len(key) > mostKey {
			return nil, fmt.Errorf("the secret in line %d has %d bytes, and must have %d to %d", i+1, len(key), leastKey, mostKey)
		}
		all = append(all, Secret{key})
	}
	switch {
	case len(all) == 0:
		return nil, fmt.Errorf("it holds no secret")
	case len(all) > mostSecrets:
		return nil, fmt.Errorf("it holds %d secrets, at most %d are used at a time", len(all), mostSecrets)
	}
	return all, nil
}

// signatures returns the value of the header webhook-signature: a signature by each secret.
func signatures(secrets []Secret, id string, at time.Time, body []byte) string {
	signed := make([]string, len(secrets))
	for i, secret := range secrets {
		mac := hmac.New(sha256.New, secret.key)
		// A hash never returns an error.
		_, _ = mac.Write([]byte(id + "." + stamp(at) + "."))
		_, _ = mac.Write(body)
		signed[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return strings.Join(signed, " ")
}

// stamp returns the value of the header webhook-timestamp.
func stamp(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }
