package samples

import (
	"path/filepath"
	"testing"
	"time"

	"stint/internal/testkit"
	"stint/records"
	"stint/records/apikey"
	"stint/records/inforce"
)

// Records returns records for a limiter in a file of the test.
func Records(t testing.TB, all ...records.Record) *inforce.Records {
	t.Helper()
	file := File(t, all...)
	return inforce.NewRecords(file, inforce.RecordsOptions{OnError: func(err error) { t.Error(err) }})
}

// File returns a file of the test with these records.
func File(t testing.TB, all ...records.Record) *records.File {
	t.Helper()
	file, err := records.Open(filepath.Join(t.TempDir(), "records.db"), records.Options{})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = file.Close() })
	if len(all) > 0 {
		Put(t, file, all...)
	}
	return file
}

// Put writes records, also those that need force.
func Put(t testing.TB, file *records.File, all ...records.Record) {
	t.Helper()
	c := records.Change{Force: true}
	for _, r := range all {
		c.Edits = append(c.Edits, records.Edit{Put: r})
	}
	_, err := file.Apply(t.Context(), c, time.Now())
	testkit.Must(t, err)
}

// Key returns a new API key of a subject, and its record.
func Key(t testing.TB, subject string) (text string, record records.APIKey) {
	t.Helper()
	secret, err := apikey.New("test")
	testkit.Must(t, err)
	return secret.Reveal(), records.APIKey{Hash: secret.Key().Hash(), Last: secret.Key().LastFour(), Subject: subject}
}
