// Package source reads rules of a catalog from files: CSV, JSON Lines and the files
// of ratelimiter4j.
//
// All three are read strictly and as they come, so that a file of a million rules
// needs the memory of one line. Whatever is wrong is found in one pass and reported
// with file, line and a hint, up to [MaxFaults] of them; a reader of the rules gets
// them as one [*rule.Errors] in the end, so that nothing of a file with a fault is
// ever used.
//
// A CSV file has a rule in each line,
//
//	7,all,/v1/orders/{id},minute,5
//
// of the columns id, uid, url, time and requests, and after them, where wanted,
// algorithm, burst, domain and policy. A first line that names them may put them in
// any order. Values with commas stand in double quotes; empty lines and lines that
// begin with # are skipped.
//
// A JSON Lines file has an object of the same names in each line:
//
//	{"id": "7", "uid": "all", "url": "/v1/orders/{id}", "time": "minute", "requests": 5}
package source
