package telemetry

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Collectors is a registerer that is itself a collector: a program that embeds the service registers
// it with a registry of its own, and with a new one whenever it makes one. It does not check that
// metrics differ; the registry does. The zero Collectors is empty and ready to use. It is safe for
// concurrent use.
type Collectors struct {
	mu  sync.RWMutex
	all []prometheus.Collector
}

var (
	_ prometheus.Registerer = (*Collectors)(nil)
	_ prometheus.Collector  = (*Collectors)(nil)
)

// Register adds a collector.
func (c *Collectors) Register(one prometheus.Collector) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, one)
	return nil
}

// MustRegister adds collectors.
func (c *Collectors) MustRegister(all ...prometheus.Collector) {
	for _, one := range all {
		_ = c.Register(one) // never fails
	}
}

// Unregister removes a collector, and reports whether it was there.
func (c *Collectors) Unregister(one prometheus.Collector) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.all)
	c.all = slices.DeleteFunc(c.all, func(other prometheus.Collector) bool { return other == one })
	return len(c.all) < n
}

// Describe sends nothing, because the metrics change with the rules.
func (c *Collectors) Describe(chan<- *prometheus.Desc) {}

// Collect sends the metrics of all collectors.
func (c *Collectors) Collect(to chan<- prometheus.Metric) {
	c.mu.RLock()
	all := slices.Clone(c.all)
	c.mu.RUnlock()
	for _, one := range all {
		one.Collect(to)
	}
}
