// Package codec writes records as JSON and as CSV, and reads them back.
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
// The last line of a file says how many records stand before it. A file without it was cut, and is
// refused. In CSV the groups of a subject stand in one cell, one in each line.
//
// Spreadsheets take a cell that begins with = + - @ for a formula. [Writer] puts an apostrophe before
// such a text, and before one that begins with an apostrophe and would be taken for the result.
// [Reader] removes it.
package codec
