package redis

import (
	"context"

	"github.com/redis/rueidis"

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
	name := s.namespace + ":" + secretKey
	if own != "" {
		err := client.Do(ctx, client.B().Set().Key(name).Value(own).Nx().Build()).Error()
		if err == nil {
			return own, true, nil
		}
		if !rueidis.IsRedisNil(err) {
			return "", false, connect.Explain("keep the fingerprint of the namespace secret", err)
		}
	}
	kept, err = client.Do(ctx, client.B().Get().Key(name).Build()).ToString()
	if err != nil && !rueidis.IsRedisNil(err) {
		return "", false, connect.Explain("read the fingerprint of the namespace secret", err)
	}
	return kept, false, nil
}
