package rule

// AppendPlace appends to dst the entries named by `shard_by`. In a store of several servers or
// partitions they choose where the key is kept (see stint.Take), so that all limits of one user
// can be on one server. It appends nothing for a rule without `shard_by`: then the whole key
// chooses.
func (r *Rule) AppendPlace(dst []byte, entries []Entry) []byte {
	for _, i := range r.placed {
		dst = AppendEntry(dst, entries[i].Key, entries[i].Value)
	}
	return dst
}
