package script

import (
	"fmt"

	"stint"
)

// Plain is the first part of the quick scripts for takes whose answer no lost loan changes.
func Plain() string { return Text("plain") }

// In returns the first part of the quick scripts for takes of keys that may be lent. They decide only
// in an epoch, began, below 0 if it follows a loss, and in a server's process, the address of its
// interpreter.
func In(began stint.Instant, process int64) string {
	here := fmt.Sprintf("table: 0x%x", process)
	epoch := fmt.Sprintf("%d ", max(began, -began))
	return fmt.Sprintf("local process, mark, epoch, lost = '%s', '%s%d %s', '%s', %t\n", here, epoch, Flag(began < 0), here, epoch, began < 0)
}
