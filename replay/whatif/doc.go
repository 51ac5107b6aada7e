// Package whatif computes from the takes of a replay what other limits would do: a [Sweep] finds for
// one limit which numbers would deny how many keys, and a [Difference] finds which keys two sets of
// rules deny differently.
package whatif
