package stream

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"stint/gateway/queue"
)

// errForm is the error about an answer of another form.
var errForm = errors.New("redis: an answer of another form; is this another program's key?")

// listed are the fields of a record without its request and answer.
var listed = []string{
	"id", "line", "rule", "who", "state", "at", "made", "ended", "keep", "tries", "claimer", "reason", "size", "sending", "rev",
}

// fields returns the fields of a record that change, without its state and time.
func fields(e *queue.Entry) []string {
	return []string{
		"ended", micros(e.Ended), "keep", strconv.FormatInt(e.Keep.Microseconds(), 10), "tries", strconv.Itoa(e.Tries),
		"claimer", e.Claimer, "reason", e.Reason, "sending", flag(e.Sending),
	}
}

// parse reads the hash of a record, and its revision.
func parse(hash map[string]string) (*queue.Entry, string, error) {
	if hash["state"] == "" {
		return nil, "", queue.ErrUnknown
	}
	e := &queue.Entry{
		ID: hash["id"], Line: hash["line"], Rule: hash["rule"], Who: hash["who"], State: queue.State(hash["state"]),
		At: timeOf(hash["at"]), Made: timeOf(hash["made"]), Ended: timeOf(hash["ended"]), Claimer: hash["claimer"], Reason: hash["reason"],
		Sending: hash["sending"] == "1",
	}
	keep, err1 := strconv.ParseInt(hash["keep"], 10, 64)
	var err2, err3 error
	e.Keep = time.Duration(keep) * time.Microsecond
	e.Tries, err2 = strconv.Atoi(hash["tries"])
	e.Size, err3 = strconv.Atoi(hash["size"])
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, "", fmt.Errorf("redis: record %q of the queue is damaged: %w", e.ID, err)
	}
	if data, ok := hash["data"]; ok {
		e.Data = []byte(data)
	}
	if answer, ok := hash["answer"]; ok {
		e.Answer = []byte(answer)
	}
	return e, hash["rev"], nil
}

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// micros returns a time as the scripts read it; 0 for the zero time.
func micros(t time.Time) string {
	if t.IsZero() {
		return "0"
	}
	return strconv.FormatInt(t.UnixMicro(), 10)
}

func timeOf(text string) time.Time {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(n)
}
