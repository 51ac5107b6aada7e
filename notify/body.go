package notify

import (
	"encoding/json"
	"fmt"
	"time"
)

// message is the body of a webhook, and with an ID a line of a file.
type message struct {
	ID        string    `json:"id,omitempty"`
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"` // of the event
	Data      data      `json:"data"`
}

// data is what an event is about.
type data struct {
	Rule        string    `json:"rule"`
	Limit       string    `json:"limit,omitempty"`
	Subject     string    `json:"subject"`
	Plan        string    `json:"plan,omitempty"`
	Threshold   int       `json:"threshold"` // percent
	Used        uint64    `json:"used"`
	Of          uint64    `json:"of"`
	PeriodStart time.Time `json:"period_start"`
	PeriodEnd   time.Time `json:"period_end"`
}

// newMessage returns the message of an event.
func newMessage(e *Event) message {
	return message{Type: e.Type, Timestamp: e.At.UTC(), Data: data{
		Rule: e.Rule, Limit: e.Limit, Subject: e.Subject, Plan: e.Plan, Threshold: e.Threshold, Used: e.Used, Of: e.Of,
		PeriodStart: e.PeriodStart.UTC(), PeriodEnd: e.PeriodEnd.UTC(),
	}}
}

// encodeBody returns the body of a webhook. It is the same for all tries.
func encodeBody(e *Event) ([]byte, error) {
	body, err := json.Marshal(newMessage(e))
	if err == nil && len(body) > MaxBody {
		err = fmt.Errorf("the event has %d bytes, and a webhook at most %d", len(body), MaxBody)
	}
	return body, err
}

// encodeLine returns the line of an event in a file.
func encodeLine(e *Event) ([]byte, error) {
	m := newMessage(e)
	m.ID = e.ID
	line, err := json.Marshal(m)
	return append(line, '\n'), err
}
