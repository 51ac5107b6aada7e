// Package summaries lets nodes show each other what they know, through Redis or Valkey. Summaries are bytes
// here.
package summaries
