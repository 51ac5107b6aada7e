// Package transfer exports the records of a file, and imports records into it.
//
// An export has what is in force: no record that has ended, and of a subject whose plan has ended no
// plan. Its order is fixed, so that two files with equal records have equal exports, byte by byte.
//
// An import is read twice. First it is compared with the records: that finds every fault, and the
// [Difference]. A dry run ends here. Then the difference is applied. Records that are equal already
// are not written. Up to [MaxAtOnce] records are one change, all or none; more are several changes of
// that size. If a later one of these fails, the records before it stay, [PartError] says how many
// they are, and the same import can be repeated: it continues where it ended.
package transfer
