// Package mutants has no code. Its test changes the code of leases, shares and nodes that decide
// alone, one guard at a time, and fails if the simulator does not detect a change.
package mutants
