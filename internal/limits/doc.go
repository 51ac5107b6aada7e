// Package limits derives limits from others, and formats them: Divide divides one between several
// processes, CountingDenied returns one that charges denied takes too, and
// ApplyTally reads its decisions, RefillTime returns how long one
// takes to be whole again, and Format writes one in a line.
package limits
