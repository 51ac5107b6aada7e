package permission

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddytls"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"

	"stint"
	"stint/gateway/service"
	"stint/store/memory"
)

func init() { caddy.RegisterModule(new(Permission)) }

// Permission allows a certificate on demand if its name has an allowed suffix, and as long as neither
// all names nor the names of its registered domain have reached their number of certificates. Each
// attempt counts, whether the issuer answers with a certificate or not; a refused name costs nothing.
//
// A name with a certificate in the storage is always allowed and counts nothing, because Caddy asks
// for it again after a restart and at each renewal.
//
// Gateways whose app has one Redis as its store share the counts. Otherwise the counts are those of this
// process: they outlive a reload, not a restart, and n gateways together allow n times the numbers.
type Permission struct {
	// Suffixes are the domains whose names are allowed: example.com allows example.com and
	// www.example.com. None: any name.
	Suffixes []string `json:"suffixes,omitempty"`

	// Total limits the certificates of all names; the zero Rate means 300 in any 3 hours, which
	// Let's Encrypt allows an account.
	Total Rate `json:"total,omitzero"`

	// PerDomain limits the certificates of a registered domain, such as example.co.uk, with all its
	// subdomains; the zero Rate means 50 in any 7 days, which Let's Encrypt allows.
	PerDomain Rate `json:"per_domain,omitzero"`

	// Place is the place of the directive in the configuration file, for errors.
	Place string `json:"place,omitempty"`

	suffixes         []string // in lower case and ASCII, with a dot before each
	total, perDomain *stint.Limit
	counts           *counts
	shared           *shared // nil: gateways share no counts
	sharedKey        string  // of shared in the pool
	stored           *stored
}

// Rate is a number of certificates in any period of a length.
type Rate struct {
	Certificates uint32         `json:"certificates"`
	Per          caddy.Duration `json:"per"`
}

var (
	_ caddytls.OnDemandPermission = (*Permission)(nil)
	_ caddy.Provisioner           = (*Permission)(nil)
	_ caddy.CleanerUpper          = (*Permission)(nil)
)

// CaddyModule returns the description of the module.
func (*Permission) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "tls.permission.stint", New: func() caddy.Module { return new(Permission) }}
}

const day = 24 * time.Hour

// Provision checks the limits.
func (p *Permission) Provision(ctx caddy.Context) error {
	p.Place = service.PlaceOf(p.Place, p)
	for _, suffix := range p.Suffixes {
		ascii, err := idna.Lookup.ToASCII(strings.Trim(suffix, "."))
		if err != nil || ascii == "" {
			return service.Fault(p.Place, fmt.Sprintf("the suffix %q is no domain", suffix), "write it such as example.com")
		}
		p.suffixes = append(p.suffixes, "."+ascii)
	}
	var err error
	if p.total, err = p.Total.limit(p.Place, "total", Rate{300, caddy.Duration(3 * time.Hour)}); err != nil {
		return err
	}
	if p.perDomain, err = p.PerDomain.limit(p.Place, "per_domain", Rate{50, caddy.Duration(7 * day)}); err != nil {
		return err
	}
	kept, _, err := pool.LoadOrNew(poolKey, func() (caddy.Destructor, error) { return newCounts(), nil })
	if err != nil {
		return err
	}
	p.counts = kept.(*counts) //nolint:forcetypeassert // the only kind in the pool
	if err := p.provisionShared(ctx); err != nil {
		return err
	}
	p.stored = &stored{storage: ctx.Storage()}
	if registry := ctx.GetMetricsRegistry(); registry != nil {
		return registry.Register(p.counts.asked)
	}
	return nil
}

// limit returns the limit of a rate, which counts exactly in any period.
func (r Rate) limit(place, option string, unless Rate) (*stint.Limit, error) {
	if r == (Rate{}) {
		r = unless
	}
	limit, err := stint.NewLimit(stint.Spec{Algorithm: stint.SlidingLog, Requests: r.Certificates, Per: time.Duration(r.Per)})
	if err != nil {
		return nil, service.Fault(place, option+": "+err.Error(), "write a number and a period, such as "+option+" 100 1h")
	}
	return limit, nil
}

// Cleanup releases the counts. They stay while another configuration has them.
func (p *Permission) Cleanup() error {
	if p.counts == nil {
		return nil
	}
	_, err := pool.Delete(poolKey)
	if p.shared != nil {
		_, sharedErr := pool.Delete(p.sharedKey)
		err = errors.Join(err, sharedErr)
	}
	return err
}

// counts are the counts of this process.
type counts struct {
	store *memory.Store
	asked *prometheus.CounterVec // by outcome
}

// pool keeps the counts while at least one configuration uses them, so that they outlive a reload.
var pool = caddy.NewUsagePool()

const poolKey = "counts"

func newCounts() *counts {
	return &counts{memory.New(memory.Options{}), prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "stint_certificate_permissions_total", Help: "Names for which Caddy asked whether it may obtain a certificate on demand, by outcome: allowed, stored, suffix, limited.",
	}, []string{"outcome"})}
}

// Destruct implements caddy.Destructor.
func (*counts) Destruct() error { return nil }

// CertificateAllowed returns nil if a certificate of this name may be obtained, or loaded from the
// storage.
func (p *Permission) CertificateAllowed(ctx context.Context, name string) error {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if !p.allows(name) {
		p.count("suffix")
		return refuse(name, "it has none of the allowed suffixes")
	}
	if p.stored.has(ctx, name) {
		p.count("stored")
		return nil
	}
	call := stint.Call{Takes: []stint.Take{
		{Key: stint.Key("certificates:domain=" + registered(name)), Limit: p.perDomain, Cost: 1},
		{Key: "certificates:total", Limit: p.total, Cost: 1},
	}}
	if err := p.decide(ctx, &call); err != nil {
		return fmt.Errorf("%s: the limit of certificates could not be asked: %w", name, err)
	}
	for i, limited := range []string{"its domain has", "all domains together have"} {
		if d := &call.Results[i]; !d.Allowed {
			p.count("limited")
			return refuse(name, fmt.Sprintf("%s reached the limit of certificates; again in %v", limited, d.RetryAfter.Round(time.Second)))
		}
	}
	p.count("allowed")
	return nil
}

func (p *Permission) count(outcome string) { p.counts.asked.WithLabelValues(outcome).Inc() }

// refuse returns the error for a name.
func refuse(name, why string) error {
	return fmt.Errorf("%s: %w: %s", name, caddytls.ErrPermissionDenied, why)
}

// allows reports whether a name has an allowed suffix.
func (p *Permission) allows(name string) bool {
	for _, suffix := range p.suffixes {
		if strings.HasSuffix(name, suffix) || name == suffix[1:] {
			return true
		}
	}
	return len(p.suffixes) == 0
}

// registered returns the registered domain of a name, or the name itself if it has none, such as an
// address.
func registered(name string) string {
	domain, err := publicsuffix.EffectiveTLDPlusOne(name)
	if err != nil {
		return name
	}
	return domain
}
