package rule

// AppendPlace appends to dst what says where a key of the rule stands in a store of
// several servers or partitions (see stint.Take): the entries that `shard_by` names,
// so that all limits of one user can meet on one server. Nothing where the rule is
// silent: then the whole key says it.
func (r *Rule) AppendPlace(dst []byte, entries []Entry) []byte {
	for _, i := range r.placed {
		dst = AppendEntry(dst, entries[i].Key, entries[i].Value)
	}
	return dst
}
