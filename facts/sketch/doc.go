// Package sketch estimates facts about streams of keys in bounded memory: the most frequent keys, and
// how many different keys there are.
package sketch
