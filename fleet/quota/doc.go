// Package quota gives each process a fixed share of a limit, and leaves the rest to the store. The
// share works while the store is away, for however long. All shares and the rest together never
// admit more than the limit.
//
// A [Node] holds the shares of one process. It never blocks, starts no goroutine and has no clock,
// so that package fleet/sim can simulate hundreds of nodes over long times. A [Store] is a Node
// with a clock, around the store that has the rest.
//
// # Why it is exact
//
// The limit is divided once, by its rule (see package internal/limits): all shares and the rest
// are together no more than the limit, in every window. No process needs to know which others
// live. What remains is that no share is spent twice:
//
//   - A share that this process does not know counts as used up when it first got the share, because
//     an earlier process in its place may have used it. It fills up from then on. Processes may
//     come and go if there are never more of them than the rule says.
//   - A share is counted by a clock that nobody sets. If the process drops a share because there
//     are too many keys, it counts as used up at that time.
//   - When the rule changes, the use of a share stays counted, see Node.Change.
//
// # Which of the two is spent first
//
// The share. Units that come back there are of use to this process only, units that come back at
// the store are of use to all. A key that needs less than its share never asks the store, and
// nothing is wasted while the store has units. Therefore a process whose store goes away has the
// rate of its share, but not always its full burst.
//
// A take is never divided: it is charged to the share as a whole, or to the rest. A take larger
// than either never passes.
package quota
