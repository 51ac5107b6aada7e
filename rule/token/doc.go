// Package token reads who sent a request out of a signed token (JWT), and believes
// no token that it cannot verify.
package token
