package pace

// HostsForTest returns the number of hosts in memory.
func (t *Transport) HostsForTest() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.hosts)
}
