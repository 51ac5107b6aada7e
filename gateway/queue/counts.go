package queue

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Counts counts what happened since the start. The zero Counts is ready to use.
type Counts struct {
	Delivered  atomic.Uint64 // records with an answer
	Retried    atomic.Uint64 // tries after which another one follows
	Dead       atomic.Uint64 // records that were tried too often
	Failed     atomic.Uint64 // records that were refused before they were sent
	Unreadable atomic.Uint64 // claims of records that could not be decrypted or read
	Lost       atomic.Uint64 // outcomes that could not be stored
}

// statsTimeout is how long the storage may take for the metrics.
const statsTimeout = 2 * time.Second

// Collector makes metrics of a storage and of counts.
type Collector struct {
	Storage Records
	Counts  *Counts
}

var _ prometheus.Collector = (*Collector)(nil)

var (
	waitingDesc = desc("waiting", "Records that wait or are being sent.", "rule")
	deadDesc    = desc("dead", "Records that were tried too often, and wait for somebody.", "rule")
	bytesDesc   = desc("bytes", "Bytes of the requests of waiting and dead records.", "rule")
	oldestDesc  = desc("oldest_seconds", "Age of the oldest record that waits or is being sent.", "rule")
	keptDesc    = desc("kept", "Finished records that are still kept.", "rule")
	upDesc      = desc("up", "1 if the storage of the queue answers.")
	events      = []struct {
		desc  *prometheus.Desc
		count func(*Counts) *atomic.Uint64
	}{
		{desc("delivered_total", "Records that the upstream answered."), func(c *Counts) *atomic.Uint64 { return &c.Delivered }},
		{desc("retried_total", "Tries after which another one follows."), func(c *Counts) *atomic.Uint64 { return &c.Retried }},
		{desc("died_total", "Records that were tried too often."), func(c *Counts) *atomic.Uint64 { return &c.Dead }},
		{desc("failed_total", "Records that were refused before they were sent."), func(c *Counts) *atomic.Uint64 { return &c.Failed }},
		{desc("unreadable_total", "Claims of records that could not be decrypted or read."), func(c *Counts) *atomic.Uint64 { return &c.Unreadable }},
		{desc("outcomes_lost_total", "Outcomes that could not be stored; such records may be sent again."), func(c *Counts) *atomic.Uint64 { return &c.Lost }},
	}
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("stint_queue_"+name, help, labels, nil)
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{waitingDesc, deadDesc, bytesDesc, oldestDesc, keptDesc, upDesc} {
		to <- d
	}
	for _, e := range events {
		to <- e.desc
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, e := range events {
		to <- prometheus.MustNewConstMetric(e.desc, prometheus.CounterValue, float64(e.count(c.Counts).Load()))
	}
	ctx, cancel := context.WithTimeout(context.Background(), statsTimeout)
	defer cancel()
	stats, err := c.Storage.Stats(ctx)
	if err != nil {
		gauge(upDesc, 0)
		return
	}
	gauge(upDesc, 1)
	for rule, s := range stats {
		gauge(waitingDesc, float64(s.Waiting), rule)
		gauge(deadDesc, float64(s.Dead), rule)
		gauge(bytesDesc, float64(s.Bytes), rule)
		gauge(keptDesc, float64(s.Kept), rule)
		age := 0.0
		if !s.Oldest.IsZero() {
			age = time.Since(s.Oldest).Seconds()
		}
		gauge(oldestDesc, age, rule)
	}
}
