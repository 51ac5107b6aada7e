// Package catalog keeps rules per API by the million: compact, matched in less than a
// microsecond, and changed one by one while requests are decided.
//
// A [Rule] says how often a user, each user, or all together may call what a url
// pattern describes. A [Catalog] holds any number of them and answers which apply to
// a request. The rules of YAML files ([stint/rule.Table]) say more, and are written by
// hand; both are decided as one.
package catalog
