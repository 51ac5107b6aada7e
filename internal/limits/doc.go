// Package limits makes other limits of a limit, and writes limits as text: Divide splits one
// into parts for several processes, CountingDenied returns one that charges denied takes too,
// and Format writes one in a line.
package limits
