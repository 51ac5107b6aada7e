// Package whatif decides takes under other limits than those in force. [Columns] is a store that decides
// each call under several limits at once, for the comparison of algorithms. A [Sweep] finds for one
// limit which numbers would deny how many keys. [Differences] finds which keys two sets of rules deny
// differently.
package whatif
