// Package trail makes and verifies an audit trail: entries that say who changed what, each with the
// hash of the one before it.
//
// An entry that was changed, removed or moved breaks the chain, and [Verify] finds the place. Whoever
// can write the file can also make a new chain, or cut off its end. So operators keep heads of the
// chain elsewhere: the number and the hash of the last entry at some time. Verify compares the chain
// with these.
//
// A [Writer] writes the entries into a bbolt file, beside other content, each in the transaction of the
// change that it is about.
//
// # Format of the chain
//
// The chain part of an entry is a text of eleven lines. Each ends with a newline:
//
//	stint trail 1
//	PREVIOUS   hash of the previous entry, 64 hexadecimal digits; zeros for the first entry
//	NUMBER     decimal; the first entry has number 1
//	REVISION   decimal; of the records, after the change
//	TIME       UTC with six digits of a second, such as 2026-07-30T12:00:00.000000Z
//	ACTION     such as put
//	KIND       of the object, such as ban
//	UNTIL      end of what the entry sets, such as 2026-08-01T00:00:00Z; empty if there is none
//	ACTOR      name of the caller; empty if it has none
//	TEXTS      HMAC-SHA256 of the texts under the key of the entry, 64 hexadecimal digits
//	ORIGIN     HMAC-SHA256 of the caller's address under a second key, 64 hexadecimal digits
//
// The hash of the entry is the SHA-256 of this text.
//
// # Personal texts
//
// The texts are object, before, after, why, and each subject, in this order. Each is written as its
// length in bytes in decimal, a colon, the text, and a comma, such as "7:user=42,". The HMAC of TEXTS
// is over all of them together. The address of the caller is not written in this way: the HMAC of
// ORIGIN is over the address alone.
//
// The texts and the keys are stored beside the chain. Each key has 16 random bytes and belongs to one
// entry. Where the texts and their key are erased, the chain still verifies. Nobody can then find out
// a text by guessing it, because they would have to guess the key as well.
package trail
