// Package transfer writes records as JSON and as CSV, and reads them back. It exports the records of a
// file, and imports records into it.
//
// # Files
//
// A body of the admin API has the fields of one record ([Fields]). A file has any number of records,
// as JSON Lines or as CSV:
//
//	{"record":"ban","network":"192.0.2.0/24","until":"2030-01-01T00:00:00Z","why":"ticket 7"}
//	{"record":"end","count":1}
//
//	record,subject,address,network,until,why
//	ban,,,192.0.2.0/24,2030-01-01T00:00:00Z,ticket 7
//	end,1,,,,
//
// A rule per API has the fields id, uid, url, time, requests, algorithm, burst, domain and policy.
//
// The last line of a file says how many records stand before it. A file without it was cut, and is
// refused. In CSV the groups of a subject stand in one cell, one in each line.
//
// Spreadsheets take a cell that begins with = + - @ for a formula, and some begin a cell behind a semicolon
// or a tab inside of it. [Writer] puts an apostrophe before such a sign, and [Reader] removes it.
//
// # Export and import
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
