package redis

import (
	"context"

	"stint/store/redis/connect"
)

// secretKey is the name of KeepSecret's key, after the namespace.
const secretKey = "secret"

// KeepSecret returns the fingerprint of the secret with which nodes hash values in keys.
// NAMESPACE:secret holds it and never expires; "" means that there is none. If there is none,
// KeepSecret stores own, unless own is empty, and returns first as true.
func (s *Store) KeepSecret(ctx context.Context, own string) (kept string, first bool, err error) {
	client, err := s.sideLink.Client(ctx)
	if err != nil {
		return "", false, connect.Explain("connect", err)
	}
	return connect.KeepFirst(ctx, client, s.namespace+":"+secretKey, own)
}
