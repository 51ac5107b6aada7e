package limitjson

import "time"

// Loss is that counts of a durable rule were lost, so that its takes follow its failure policy.
type Loss struct {
	Place string    `json:"place"` // where: a server, or the state file
	Since time.Time `json:"since"` // when that was noticed
	Until time.Time `json:"until"` // when the period of the loss ends
}
