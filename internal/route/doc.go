// Package route says which pattern a request's method and path belong to, with the
// patterns of net/http's ServeMux, and brings different spellings of one path
// together.
package route
