package records

import (
	"bytes"

	bolt "go.etcd.io/bbolt"
)

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
