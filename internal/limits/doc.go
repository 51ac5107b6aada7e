// Package limits derives limits from others, and formats them: Divide divides one between several
// processes, CountingDenied returns one that charges denied takes too, and
// ApplyTally reads its decisions, RefillTime returns how long one
// takes to be whole again, and Format writes one in a line.
//
// It also decides about one key under a limit: a Record is the state of the key, whose numbers may have
// changed since, and Funds add what its subject has beside the limit, grants and a rollover. Rank and Evict
// choose the states that a full store evicts.
package limits
