// Package samples makes what tests decide by: records in a file, API keys, and sets of rules per API of
// any size.
package samples
