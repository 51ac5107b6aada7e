// Package index has what is held in memory for look-ups of records: a [Table] of banned networks, and a
// [Cache] of the values that were used last. [Reach] says what a ban of a network would deny.
package index
