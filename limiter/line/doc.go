// Package line keeps requests that wait for a limit in lines: one for each rule and key.
//
// Only the first request of a line asks the limit, at the time when it has room; so waiting costs
// the store no calls, and nobody overtakes in a line. Lines are independent: a long one delays no
// other. How many requests may wait is bounded for each rule and for each key.
//
// A request waits in one line at a time. If a limit of another line denies it, it goes there, behind
// those who came to that line before; if it comes back to a line, it gets its old place again. As the
// first of every line asks when its time has come, no two lines ever wait for each other.
//
// Order holds within a process: other nodes have lines of their own.
package line
