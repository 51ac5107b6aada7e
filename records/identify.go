package records

import (
	"bytes"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"

	"stint/records/apikey"
)

// Identify returns the subject of an API key, such as user=42, and the name of its plan, "" for the
// default plan. The subject is "" if the key is mistyped or invented, unknown, expired or revoked.
// Mistyped and invented keys need no look-up. The error means that the file could not be read.
func (f *File) Identify(text string, now time.Time) (subject, plan string, err error) {
	parsed, err := apikey.Parse(text)
	if err != nil {
		return "", "", nil //nolint:nilerr // it is no key: nobody is identified
	}
	k, err := f.Key(parsed.Hash(), now)
	if err != nil || k == nil {
		return "", "", err
	}
	key, value, _ := strings.Cut(k.Subject, "=")
	known, err := f.Lookup(key, value)
	if err != nil {
		return "", "", err
	}
	if known.Subject != nil {
		plan = known.Subject.PlanAt(now)
	}
	return k.Subject, plan, nil
}

// CountOverrides returns the number of overrides of each rule, by its name.
func (f *File) CountOverrides() (map[string]int, error) {
	count := map[string]int{}
	err := f.view(func(tx *bolt.Tx) error {
		c := tx.Bucket(bucketOf(Overrides)).Cursor()
		for name, _ := c.First(); name != nil; name, _ = c.Next() {
			_, rule, _ := bytes.Cut(name, []byte(separator))
			count[string(rule)]++
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return count, nil
}
