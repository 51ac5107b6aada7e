// Package docs_test runs every command of the README and of the documents, in a shell,
// against the real service, and compares what they print with what the page says they print.
//
// A block of sh is run as it stands and must end well: with status 0, and every answer to its
// curl with a status below 400. Of a block of console each line after a "$ " is run, and must
// print the lines below it. What a block of sh prints stands in a block right below it, or
// after the word "answers". A block that cannot run has the reason right above it:
//
//	<!-- not run: it needs Docker -->
//
// and one that ends with another status than 0 says so in the same way:
//
//	<!-- status: 99 -->
//
// Output is compared so: "..." stands for anything, dates and versions are any, of a JSON
// object the fields that the page prints must be there, and what is left of a time (fields that
// end in _ms, t= of RateLimit, Retry-After) may be less than it says, but is none only where the
// page says none.
//
// Every page has a network, a folder and a service of its own. The folder looks like the
// repository, with the files of testdata/pages beside it for rules that pages presuppose;
// paths below /etc/stint, /var/lib/stint and /run/stint are moved into it. Until the page starts
// a service that of `make run` answers; what a page starts goes on until the page ends, or
// starts the next of its kind.
package docs_test
