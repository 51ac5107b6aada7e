// Package inforce puts the records of a file in force: it joins them with those who decide, who know no
// records themselves.
//
// [Records] let a limiter decide by bans and overrides, and identify clients by their API keys.
//
// [Rules] keep the rules per API of a book among the records of a file. So the nodes that share the
// records share these rules, and the audit trail has their changes.
package inforce
