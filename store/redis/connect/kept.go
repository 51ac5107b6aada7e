package connect

import (
	"context"

	"github.com/redis/rueidis"
)

// secretKey is the name of KeepSecret's key, after the namespace.
const secretKey = "secret"

// KeepSecret returns the fingerprint of the secret with which nodes hash values in keys.
// NAMESPACE:secret holds it and never expires; "" means that there is none. If there is none,
// KeepSecret stores own, unless own is empty, and returns first as true.
func (s *Side) KeepSecret(ctx context.Context, own string) (kept string, first bool, err error) {
	client, err := s.client(ctx)
	if err != nil {
		return "", false, err
	}
	name := s.name(secretKey)
	if own != "" {
		err := client.Do(ctx, client.B().Set().Key(name).Value(own).Nx().Build()).Error()
		if err == nil {
			return own, true, nil
		}
		if !rueidis.IsRedisNil(err) {
			return "", false, Explain("keep the fingerprint of the namespace secret", err)
		}
	}
	kept, err = client.Do(ctx, client.B().Get().Key(name).Build()).ToString()
	if err != nil && !rueidis.IsRedisNil(err) {
		return "", false, Explain("read the fingerprint of the namespace secret", err)
	}
	return kept, false, nil
}

// Warnings reads the settings of all servers and returns those that are dangerous for limits: a
// maxmemory policy by which a full server evicts keys, and with them the counts; and no append-only
// file, without which a crash loses them.
func (s *Side) Warnings(ctx context.Context) ([]Warning, error) {
	client, err := s.client(ctx)
	if err != nil {
		return nil, err
	}
	var all []Warning
	for address, node := range client.Nodes() {
		text, err := node.Do(ctx, node.B().Info().Section("memory").Build()).ToString()
		if err != nil {
			return all, Explain("look at "+address, err)
		}
		all = append(all, MemoryWarnings(address, text)...)
		text, err = node.Do(ctx, node.B().Info().Section("persistence").Build()).ToString()
		if err != nil {
			return all, Explain("look at "+address, err)
		}
		all = append(all, SavingWarnings(address, text)...)
	}
	return all, nil
}
