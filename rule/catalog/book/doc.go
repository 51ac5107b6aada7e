// Package book keeps the rules of a catalog together with their source: files, or a store on disk
// that is changed while the service runs.
//
// Files are CSV, JSON Lines and ratelimiter4j files. All three are parsed strictly. CSV and JSON
// Lines are read as a stream, so a file of a million rules needs the memory of one line. One pass
// finds all faults and reports each with file, line and a hint, up to [MaxFaults] of them. The
// caller gets them as one [*rule.Errors] at the end, so a file with a fault is never used in part.
// A CSV file has one rule in each line,
//
//	7,all,/v1/orders/{id},minute,5
//
// with the columns id, uid, url, time and requests, and optionally algorithm, burst, domain and
// policy. A header line may list them in any order. Values with commas need double quotes; empty
// lines and lines that begin with # are ignored. A JSON Lines file has an object with the same
// names in each line:
//
//	{"id": "7", "uid": "all", "url": "/v1/orders/{id}", "time": "minute", "requests": 5}
//
// The store is one file ([Disk]). A change is on disk when the call that made it returns. A change
// that was interrupted by kill -9 or a power failure has no effect: the file is a tree of pages, and
// pages in use are never overwritten (bbolt). Each rule has a checksum, so damaged data is detected
// when the rules are read. Only one process at a time can open the file; it is locked while open.
package book
