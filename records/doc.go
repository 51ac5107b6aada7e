// Package records keeps what operators set for single clients while a service runs: subjects with
// their plans, overrides of rules, bans, API keys, and grants.
//
// A subject is an entry of a descriptor, written KEY=VALUE, such as user=42. An [Override] gives a
// subject, or all subjects that match a pattern, other numbers for one rule. A [Ban] denies all
// requests of a subject, an address or a network. A [Grant] gives a subject units beside its plan.
// Overrides, bans and API keys can have an end, and grants have one. A
// record is in force until that second, and every function takes the current time as an argument.
//
// Records are in one file ([File]). A change writes or deletes any number of them, all or none, and
// gives the file its next revision. A writer who sends the revision that it has read cannot overwrite
// the change of another. A writer who sends an idempotency key cannot make its own change twice.
//
// Each change writes entries of the audit trail, which says who changed what, and when ([File.Trail]).
// Its entries are linked by hashes, and [File.Verify] finds those that somebody changed or removed. All
// that is kept of one subject can be read ([File.Export]) and erased ([File.Erase]).
//
// Overrides, bans, API keys and grants are deleted seven days after their end, some with each change. The
// audit trail keeps its entries for 400 days.
//
// Nodes can share records by a log ([replication.Log]). Then the file of each node is a full copy, and
// [File.Follow] keeps it up to date. A change is made on all nodes or refused with [ErrUnavailable].
//
// A decision asks three things: what is known of a subject ([File.Lookup]), whether an address is
// banned ([File.BannedAddress]), and whose an API key is ([File.Key]). All are answered by this
// process alone, mostly from memory.
//
// A record with a fault is refused with an [*Error], which says what is wrong, where, and what to
// do. Then nothing is written.
package records
