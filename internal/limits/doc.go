// Package limits derives limits from others, and formats them: Divide divides one between several
// processes, CountingDenied returns one that charges denied takes too, and Format writes one in a
// line.
package limits
