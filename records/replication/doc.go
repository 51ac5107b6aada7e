// Package replication keeps copies of a database on several nodes the same, by a log that they share
// (see [Log]). It knows buckets, keys and values, not what they mean.
//
// Each node has a full copy in a local bbolt file, and reads from it alone. A change is made in a
// transaction of the copy. Right before it is committed, its writes are appended to the log, if the
// copy has all entries before. Otherwise the transaction is rolled back, the copy applies the missing
// entries, and the change is tried again. The other nodes read the log and apply its entries in order.
//
// The copy contains the place of its last entry in the same transaction, and its last entries. So
// after a crash it continues at the right entry. An entry whose commit failed here comes back from the
// log.
//
// When the copy and the log differ, Follow does one of these:
//
//   - The log has more entries: it applies them.
//   - The log no longer has the next entry, or this node is new: it reads the whole state into a new
//     file, and replaces the old one by it.
//   - The server has lost the last entries, and what it has is the beginning of this copy's history:
//     it appends them again. Several nodes may do so at once.
//   - The server has lost everything: one of the nodes restores the state from its copy.
//   - The histories differ: the server's is taken. The old file is kept as FILE.lost, and the log names
//     what was in it.
//
// A server that has nothing may have lost it a moment ago. So a node that has nothing either waits a
// moment before it makes a first change, and other nodes can restore.
package replication
