package auth

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"stint/gateway/internal/filewatch"
	"stint/rule/token"
)

func init() { caddy.RegisterModule(App{}) }

// App keeps the keys of all stint_jwt of a configuration up to date while it runs. It needs no
// configuration: the providers load it.
type App struct {
	log       *slog.Logger
	files     map[string][]*JWT
	addresses []*token.Address
	watch     filewatch.Watch
}

var (
	_ caddy.App         = (*App)(nil)
	_ caddy.Provisioner = (*App)(nil)
)

// appName is the name of the module.
const appName = "stint_tokens"

// CaddyModule returns the description of the module.
func (App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: appName, New: func() caddy.Module { return new(App) }}
}

// Provision prepares the App. Providers add themselves afterwards.
func (a *App) Provision(ctx caddy.Context) error {
	a.log, a.files = ctx.Slogger(), map[string][]*JWT{}
	return nil
}

// use gives a provider its keys. It opens no connection.
func (a *App) use(j *JWT) error {
	if !token.IsAddress(j.Keys) {
		a.files[j.Keys] = append(a.files[j.Keys], j)
		_, err := j.load()
		if f, ok := errors.AsType[*fault](err); ok {
			return j.keysFault(f.file+": "+f.problem, f.hint)
		}
		return err
	}
	address, err := token.NewAddress(j.Keys, j.AllowHTTP)
	if err != nil {
		return j.keysFault("keys "+withoutUser(j.Keys)+": "+err.Error(), "write an https:// address of a key set (JWKS) without a user; allow_http allows http:// in a network where nobody can replace the keys")
	}
	a.addresses = append(a.addresses, address)
	j.set(address, "")
	return nil
}

// withoutUser returns an address without its user name and password.
func withoutUser(address string) string {
	scheme, rest, _ := strings.Cut(address, "://")
	return scheme + "://" + rest[strings.LastIndexByte(rest, '@')+1:]
}

// Start watches the key files and fetches the key sets.
func (a *App) Start() error {
	if err := a.watch.Start(slices.Collect(maps.Keys(a.files)), a.log, func() {
		for _, providers := range a.files {
			for _, j := range providers {
				j.reload(a.log)
			}
		}
	}); err != nil {
		return err
	}
	if len(a.addresses) > 0 {
		fetches.add(a)
	}
	return nil
}

// Stop ends both. The keys stay usable for requests that are being served.
func (a *App) Stop() error {
	a.watch.Stop()
	if len(a.addresses) > 0 {
		fetches.remove(a)
	}
	return nil
}

// fetches are the key sets that this process fetches. They outlive a configuration, so that the keys
// of an address are there from the first request of the next configuration on.
var fetches fetching

// fetching fetches the key sets of several apps: on a reload the new one starts before the old one
// stops.
type fetching struct {
	mu      sync.Mutex
	apps    []*App
	fetcher *token.Fetcher // nil while no app needs one
	failed  sync.Map       // addresses whose last fetch failed
}

// add fetches the key sets of an app, too.
func (f *fetching) add(a *App) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.apps = append(f.apps, a)
	if f.fetcher == nil {
		f.fetcher = token.NewFetcher(token.FetchOptions{Report: f.report})
	}
	f.use()
}

// remove stops fetching the key sets that only this app has.
func (f *fetching) remove(a *App) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.apps = slices.DeleteFunc(f.apps, func(one *App) bool { return one == a })
	if f.fetcher == nil {
		return
	}
	if f.use(); len(f.apps) == 0 {
		f.fetcher.Close()
		f.fetcher = nil
	}
}

// use fetches the key sets of all apps. The caller holds mu.
func (f *fetching) use() {
	var all []*token.Address
	for _, a := range f.apps {
		all = append(all, a.addresses...)
	}
	f.fetcher.Use(all)
}

// report logs the first failed fetch of an address, and the first success after it.
func (f *fetching) report(address string, err error) {
	log := caddy.Log().Named(appName)
	if err == nil {
		if _, failed := f.failed.LoadAndDelete(address); failed {
			log.Info("key set fetched again", zap.String("address", address))
		}
		return
	}
	if _, again := f.failed.Swap(address, true); !again {
		log.Error("cannot fetch a key set: keeping its last keys, without which no token is accepted; hint: check the address, and that this machine reaches it",
			zap.String("address", address), zap.Error(err))
	}
}
