// Package catalog keeps millions of rules per API: in little memory, matched in less than a
// microsecond, and changed one by one while requests are decided.
//
// A [Rule] limits how often one user, each user, or all users together may call the APIs that a url
// pattern matches. A [Catalog] holds any number of rules and returns which of them apply to a
// request. The rules of YAML files ([stint/rule.Table]) have more features and are written by hand.
// If both apply to a request, they are decided together.
package catalog
