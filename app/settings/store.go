package settings

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"stint/internal/config"
	"stint/internal/text"
	"stint/server/access"
	"stint/store/memcached"
	"stint/store/redis"
	"stint/store/redis/connect"
)

// ReadToken sets AdminToken and RESPToken to the content of their files.
func (c *Config) ReadToken() error {
	if err := c.readToken("admin-token-file", c.AdminTokenFile, &c.AdminToken); err != nil {
		return err
	}
	return c.readToken("resp-token-file", c.RESPTokenFile, &c.RESPToken)
}

// readToken sets a token to the content of its file, if there is one.
func (c *Config) readToken(setting, file string, token *string) error {
	if file == "" {
		return nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return c.Fault(setting, "cannot read the token: "+text.Cause(err), "check the path and its permissions")
	}
	if *token = strings.TrimSpace(string(data)); *token == "" {
		return c.Fault(setting, file+" holds no token", "put the token there, in one line")
	}
	return nil
}

// LoadAccess reads the file of the callers of admin; it returns nil if there is none. The error is an
// [*Error] or an [*access.Error].
func (c *Config) LoadAccess() (*access.List, error) {
	if c.AdminAccess == "" {
		return nil, nil //nolint:nilnil // no file, no list
	}
	data, err := os.ReadFile(c.AdminAccess)
	if err != nil {
		return nil, c.Fault("admin-access", "cannot read the callers of admin: "+text.Cause(err), "check the path and its permissions")
	}
	return access.Parse(c.AdminAccess, data)
}

// AutoDrainDelay is the default of DrainDelay: the service accepts no new connections, and answers
// on open HTTP connections for a second, or less if all have ended before. The answers ask clients
// to close the connection, so that no call is lost on a connection that its client uses within that
// second.
const AutoDrainDelay time.Duration = -1

// Linger is how long the service goes on answering with AutoDrainDelay.
const Linger = time.Second

// TryFolder writes into the folder of a file and removes what it wrote, to find an error before
// counts are first saved.
func (c *Config) TryFolder(file string) error {
	probe, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".try-*")
	if err == nil {
		err = errors.Join(probe.Close(), os.Remove(probe.Name()))
	}
	if err != nil {
		return c.NoFolder(filepath.Dir(file), err)
	}
	return nil
}

// NoFolder returns the fault of a folder that cannot be written.
func (c *Config) NoFolder(folder string, err error) error {
	return c.Fault("state", "cannot write in the folder "+folder+": "+text.Cause(err), "make the folder, and let this user write in it")
}

// StoreServers returns the servers of the setting store, each with a URL of its own. The error is one
// that StoreError understands.
func (c *Config) StoreServers() ([]connect.Server, error) { return storeServers(c.Store) }

func storeServers(text string) ([]connect.Server, error) {
	if !memcached.IsURL(text) {
		return connect.Servers(text)
	}
	list, err := memcached.Servers(text)
	servers := make([]connect.Server, len(list))
	for i, one := range list {
		servers[i] = connect.Server(one)
	}
	return servers, err
}

// StoreError returns err as a fault of the setting store, if it is one.
func (c *Config) StoreError(err error) error {
	if problem, hint, ok := storeFault(err); ok {
		return c.Fault("store", problem, hint)
	}
	return err
}

// storeFault returns what is wrong with the URL of a store, and what to do; false if err is about
// something else.
func storeFault(err error) (problem, hint string, ok bool) {
	if fault, ok := errors.AsType[*redis.ConfigError](err); ok {
		return fault.Problem, fault.Hint, true
	}
	if fault, ok := errors.AsType[*memcached.ConfigError](err); ok {
		return fault.Problem, fault.Hint, true
	}
	return "", "", false
}

// IsStoreURL reports whether a text is the URL of a store on the network.
func IsStoreURL(text string) bool { return connect.IsURL(text) || memcached.IsURL(text) }

// RedactStore returns the URL of a store without its passwords.
func RedactStore(text string) string {
	if memcached.IsURL(text) {
		return memcached.RedactURL(text)
	}
	return connect.RedactURL(text)
}

// StoreName returns the name of the store, without a password.
func (c *Config) StoreName() string {
	if !IsStoreURL(c.Store) {
		return c.Store
	}
	list, err := c.StoreServers()
	if err != nil || len(list) == 1 {
		return RedactStore(c.Store)
	}
	names := make([]string, len(list))
	for i, one := range list {
		names[i] = one.Name
	}
	scheme, _, _ := strings.Cut(c.Store, "://")
	return scheme + "://" + strings.Join(names, ",")
}

func checkStore(s string) error {
	switch {
	case s == "memory":
		return nil
	case IsStoreURL(s):
		_, err := storeServers(s)
		if problem, hint, ok := storeFault(err); ok {
			return config.Fault(problem, hint)
		}
		return err
	}
	// The error shows only its first part: it may contain a password.
	return config.Fault("unknown store "+firstPart(s), "use memory, or redis://HOST:PORT, or memcached://HOST:PORT")
}

func checkNamespace(s string) error {
	if problem, hint := text.CheckNamespace(s); problem != "" {
		return config.Fault(problem, hint)
	}
	return nil
}
