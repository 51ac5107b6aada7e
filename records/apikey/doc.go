// Package apikey makes and checks API keys such as
//
//	acme_live_000SYW7RiJxkEgOGusQGwp32ADLa
//
// A key is a prefix, an underscore, 22 base62 digits of random data (128 bits) and a check part of 6
// base62 digits. The check part is the CRC-32 of all that stands before it. [Parse] refuses a
// mistyped key by its check part, without a look-up: always if one character is wrong, and else with
// a probability of 1 - 2^-32, as for invented keys. The check part is no secret: whoever knows this
// comment can compute it. It saves look-ups; the 128 bits make a key secure.
//
// Store the [Hash] of a key, never its text. A slow hash such as bcrypt protects passwords, because
// people choose passwords that can be guessed. Nobody can guess 128 random bits, and a slow hash
// would let anybody keep the server busy with invented keys.
//
// [New] returns a [Secret], from which a program can print the text once. All else works with a
// [Key], which does not contain the text.
package apikey
