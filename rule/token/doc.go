// Package token verifies signed tokens (JWT) and reads the sender of a request from them. It
// rejects every token that it cannot verify.
package token
