// Package file keeps the records of the queue in a bbolt file. A change is in the file, and synced,
// before its method returns.
//
// The buckets of the file:
//
//	stint queue   format: the version of the format
//	entries       ID of a record: its [queue.Entry]
//	data          ID: the request
//	answers       ID: the answer
//	lines         line, 0, number: ID of an unfinished record; the first of a line is sent first
//	heads         line: how many unfinished records it has, and the last number given
//	due           time, ID: the first record of each line; the time to send it, or the end of its claim
//	states        state, 0, time, ID: all records, in the order of List
//	rules         rule: its numbers
//
// Each value begins with a checksum, so that damage is noticed. bbolt locks the file: a second process gets
// an error.
package file
