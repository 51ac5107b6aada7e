package cli

import (
	"cmp"
	"crypto/tls"
	"errors"
	"os"
	"strings"

	"stint/app/settings"
	"stint/internal/web"
)

// adminTarget is the address of an admin listener.
type adminTarget struct {
	*web.Target
	name string // the flag's value
}

// target returns the address of the service. The connection uses TLS if the address begins with
// https:// or if --admin-ca or --admin-cert is given.
func (c *adminCall) target() (*adminTarget, error) {
	name := cmp.Or(c.addr, os.Getenv("STINT_ADMIN"), settings.Default().Admin)
	secure := c.ca != "" || c.cert != "" || c.key != ""
	t := &adminTarget{web.NewTarget(name, secure), name}
	switch {
	case secure && strings.HasPrefix(name, "http://"):
		return nil, Usage("--admin: "+name+" is http, but other flags require TLS", "write https://HOST:PORT")
	case (c.cert == "") != (c.key == ""):
		return nil, Usage("--admin-cert and --admin-key need each other", "give both or none")
	}
	if problem, hint := t.Trust(c.ca); problem != "" {
		return nil, Refuse("--admin-ca: "+problem, hint)
	}
	if problem, hint := t.Present(c.cert, c.key); problem != "" {
		return nil, Refuse("--admin-cert: "+problem, hint)
	}
	return t, nil
}

// unreachable returns the error for a target that did not respond.
func (t *adminTarget) unreachable(err error) error {
	hint := "is the service running, and is this its --admin address?"
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		hint = "give the authority of its certificate as --admin-ca, and a host name of the certificate as --admin"
	} else if _, ok := errors.AsType[*tls.AlertError](err); ok {
		hint = "give a certificate that the service accepts as --admin-cert and --admin-key"
	}
	return Refuse("cannot ask "+t.name+": "+err.Error(), hint)
}
