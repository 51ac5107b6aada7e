package settings

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"stint/internal/text"
)

// leastSecret is the shortest namespace secret, in bytes.
const leastSecret = 16

const secretHint = "put 32 random bytes there, the same on every node: openssl rand -hex 32 > FILE"

// Shares reports whether other processes may count under the keys of this one.
func (c *Config) Shares() bool { return c.Store != "memory" || c.Gossip.Addr != "" }

// NewSecret is a namespace secret that this process made and has to write to a file. The zero
// NewSecret is none.
type NewSecret struct {
	File   string
	secret []byte
}

// Secret returns the secret with which keys contain the hashes of api_key and cookie values; nil
// without one. It is in the configured file. A process that counts alone makes its own secret
// without one, and keeps it beside the state file, or in SecretFile, if there is one. Nodes that share counts without a
// file have no secret, as they could not agree on one. state is the path of the state file, with
// links resolved.
func (c *Config) Secret(state string) (secret []byte, made NewSecret, err error) {
	switch {
	case c.NamespaceSecretFile != "":
		secret, err = c.readSecret(c.NamespaceSecretFile, "namespace-secret-file")
		return secret, NewSecret{}, err
	case c.Shares() || c.SharesKeys:
		return nil, NewSecret{}, nil
	case c.State == "" && c.SecretFile == "":
		return newSecret(), NewSecret{}, nil
	}
	name := state + ".secret"
	if c.State == "" {
		name = c.SecretFile
	}
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		secret, err = c.readSecret(name, "state")
		return secret, NewSecret{}, err
	}
	made = NewSecret{name, newSecret()}
	return made.secret, made, nil
}

// Keep writes a new secret to its file, and reports whether it did.
func (s NewSecret) Keep(c *Config) (kept bool, err error) {
	if s.secret == nil {
		return false, nil
	}
	f, err := os.OpenFile(s.File, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		_, err = f.Write(s.secret)
		if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
			err = errors.Join(err, os.Remove(s.File))
		}
	}
	if err != nil {
		return false, c.Fault("state", "cannot keep the namespace secret in "+s.File+": "+text.Cause(err), "let this user write in its folder, or give --namespace-secret-file")
	}
	return true, nil
}

// newSecret returns a random secret as text.
func newSecret() []byte { return []byte(rand.Text() + rand.Text()) }

// readSecret returns the secret in a file. which is the setting to name in errors.
func (c *Config) readSecret(name, which string) ([]byte, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, c.Fault(which, "cannot read the namespace secret "+name+": "+text.Cause(err), "check the path and its permissions")
	}
	data = bytes.TrimSpace(data)
	if len(data) < leastSecret {
		return nil, c.Fault(which, fmt.Sprintf("the namespace secret in %s has %d bytes, and needs at least %d", name, len(data), leastSecret), secretHint)
	}
	return data, nil
}
