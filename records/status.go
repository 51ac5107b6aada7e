package records

import (
	"time"

	"stint/records/replication"
)

// Status is the state of the records, for those who operate them.
type Status struct {
	Revision uint64        // of the last change that is in force here
	Age      time.Duration // how long ago this was certainly the last change; 0 for a file without a shared log
	Nodes    []NodeStatus  // all that share the records, by name; none for a file without a shared log
	Error    string        // why no change can be made now; "" if it can
}

// NodeStatus is what a node has of the records.
type NodeStatus = replication.Node

// Status returns the state of the records at a time. A file without a shared log has the last revision
// always. Its Error is that of the last change, if the disk did not take it.
func (f *File) Status(now time.Time) Status {
	shared := f.copy.Status(now)
	s := Status{Revision: f.memory.Load().revision, Age: shared.Age, Nodes: shared.Nodes}
	if err := f.failed.Load(); err != nil {
		s.Error = err.Error()
	}
	if shared.Err != nil {
		s.Error = shared.Err.Error()
	}
	return s
}
