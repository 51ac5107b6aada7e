// Package book holds the rules of a catalog together with where they come from: files,
// or a store on disk that is changed while the service runs.
//
// Files are CSV, JSON Lines and the files of ratelimiter4j. All three are read strictly and as
// they come, so that a file of a million rules needs the memory of one line. Whatever is wrong
// is found in one pass and reported with file, line and a hint, up to [MaxFaults] of them; a
// reader of the rules gets them as one [*rule.Errors] in the end, so that nothing of a file with
// a fault is ever used. A CSV file has a rule in each line,
//
//	7,all,/v1/orders/{id},minute,5
//
// of the columns id, uid, url, time and requests, and after them, where wanted,
// algorithm, burst, domain and policy. A first line that names them may put them in
// any order. Values with commas stand in double quotes; empty lines and lines that
// begin with # are skipped. A JSON Lines file has an object of the same names in each line:
//
//	{"id": "7", "uid": "all", "url": "/v1/orders/{id}", "time": "minute", "requests": 5}
//
// The store is one file ([Disk]). A change is on the disk once the call that made it has
// returned, and a change that was cut short, by a kill -9 or by a machine that lost its power,
// never happened: the file is a tree of pages of which none in use is ever written over (bbolt).
// Each rule carries a checksum, so that a disk that returns wrong bytes is noticed when the rules
// are read. One process at a time may use the file; it is locked while it is open.
package book
