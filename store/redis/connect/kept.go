package connect

import (
	"context"

	"github.com/redis/rueidis"
)

// KeepFirst returns the fingerprint of a secret that a key has; "" if it has none. If there is none it
// stores own, unless own is empty, and returns first as true.
func KeepFirst(ctx context.Context, client rueidis.Client, name, own string) (kept string, first bool, err error) {
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

// ReadWarnings reads the settings of all servers of a client, and returns those that are dangerous for
// limits.
func ReadWarnings(ctx context.Context, client rueidis.Client) ([]Warning, error) {
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
