package pacehttp

// HostsForTest returns how many hosts are remembered.
func (t *Transport) HostsForTest() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.hosts)
}
