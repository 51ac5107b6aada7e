package recordlog

import (
	"testing"
	"time"

	"stint/internal/testkit"
)

func openSummaries(t *testing.T, url string) *Summaries {
	t.Helper()
	s, err := OpenSummaries(url, "shop")
	testkit.Must(t, err)
	t.Cleanup(s.Close)
	return s
}

// Nodes read each other's summaries until these expire. A node that is gone leaves nothing but a name, which is removed.
func TestSummaries(t *testing.T) {
	server := testkit.StartRedis(t)
	a, b := openSummaries(t, server.URL()), openSummaries(t, server.URL())
	testkit.Must(t, a.Publish(t.Context(), "a", []byte("one"), time.Minute))
	testkit.Must(t, b.Publish(t.Context(), "b", []byte{0, 255}, 200*time.Millisecond))
	all, err := a.Read(t.Context())
	testkit.Must(t, err)
	if string(all["a"]) != "one" || string(all["b"]) != "\x00\xff" || len(all) != 2 {
		t.Fatalf("read %q", all)
	}
	testkit.Until(t, "b's summary expires", func() bool {
		all, err = a.Read(t.Context())
		testkit.Must(t, err)
		return len(all) == 1
	})
	if names := server.Do("HKEYS", "shop:{summaries}:nodes"); names != "a" {
		t.Errorf("names left: %q", names)
	}
	if ttl := server.Do("PTTL", "shop:{summaries}:of:a"); ttl == "-1" {
		t.Error("a summary never expires")
	}
}

// A server that is away is an error, not a wait without end.
func TestSummariesAway(t *testing.T) {
	s := openSummaries(t, "redis://127.0.0.1:1")
	if err := s.Publish(t.Context(), "a", nil, time.Minute); err == nil {
		t.Error("published to nobody")
	}
	if _, err := s.Read(t.Context()); err == nil {
		t.Error("read from nobody")
	}
}
