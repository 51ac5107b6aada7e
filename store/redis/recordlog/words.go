package recordlog

import (
	cryptorand "crypto/rand"
	"errors"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"stint/records/replication"
	"stint/store/redis/connect"
)

// rand returns a random text.
func rand() string { return cryptorand.Text() }

func number(n uint64) string { return strconv.FormatUint(n, 10) }

// hashOf returns the hash of a head as Redis has it: "" before the first entry.
func hashOf(h replication.Head) string {
	if h.Number == 0 {
		return ""
	}
	return h.Hash.String()
}

// parseHead parses a head from its number and its hash.
func parseHead(n, hash rueidis.RedisMessage) (head replication.Head, err error) {
	text, err := n.ToString()
	if err == nil {
		head.Number, err = strconv.ParseUint(text, 10, 64)
	}
	if err == nil && head.Number > 0 {
		if text, err = hash.ToString(); err == nil {
			head.Hash, err = replication.ParseHash(text)
		}
	}
	if err != nil {
		return replication.Head{}, foreign("the head", err)
	}
	return head, nil
}

// parseID parses the ID of an entry of the stream.
func parseID(id string) (uint64, error) {
	digits, ok := strings.CutSuffix(id, "-0")
	if !ok {
		return 0, errors.New("its ID does not end with -0")
	}
	return strconv.ParseUint(digits, 10, 64)
}

// foreign returns the error about a value that is not of this package.
func foreign(what string, err error) error {
	return &connect.Error{
		Doing: "read changes of records", Problem: what + " in Redis is not of stint: " + err.Error(), Err: err,
		Hint: "somebody else writes into the namespace: delete the keys NAMESPACE:{records}:*, which a node then restores from its copy, or give this service another namespace",
	}
}
