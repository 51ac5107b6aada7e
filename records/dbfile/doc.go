// Package dbfile has what a bbolt file of records needs beside the records.
//
// [Open] opens and checks it; a [Fault] says what is wrong with it, and what to do.
//
// A stored value is a checksum of its name and of everything that follows, and then the value in JSON
// ([Encode], [Decode]), so that a damaged file is noticed where it is read.
//
// Outcomes of changes are kept by their idempotency keys ([PutOutcome]), so that a repeat has the
// outcome of the first change.
//
// bbolt never changes a page in place: a change writes new pages, and the old ones stay in the file as
// they were until another change uses their room. So what was deleted can still be read there, until
// [OverwriteFree] overwrites it.
package dbfile
