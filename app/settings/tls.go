package settings

import (
	"stint/internal/config"
	"stint/internal/web"
)

// tlsSettings returns the settings of a listener's certificate files.
func tlsSettings(listener string, f *web.CertFiles) []Setting {
	return []Setting{
		{listener + "-tls-cert", "`FILE` of the certificate of " + listener + ", read again when it changes", config.Path(&f.Cert)},
		{listener + "-tls-key", "`FILE` of its private key", config.Path(&f.Key)},
		{listener + "-tls-client-ca", "`FILE` of the certificates that may sign those of " + listener + " clients", config.Path(&f.ClientCA)},
		{listener + "-tls-client-name", "DNS `NAME` that the certificate of a client of " + listener + " must be for", config.Text(&f.ClientName, nil)},
	}
}

// Encrypted returns the listeners that can be encrypted.
func (c *Config) Encrypted() []TLSListener {
	return []TLSListener{
		{"http", c.HTTP, &c.HTTPTLS, "http/1.1"}, {"admin", c.Admin, &c.AdminTLS, "http/1.1"}, {"grpc", c.GRPC, &c.RLS.TLS, "h2"}, {"resp", c.RESP, &c.RESPTLS, ""},
	}
}

// TLSListener is a listener that can be encrypted.
type TLSListener struct {
	Listener, Address string
	Files             *web.CertFiles
	Protocol          string
}

// checkTLS returns an error about certificate settings that cannot be combined.
func (c *Config) checkTLS() error {
	for _, e := range c.Encrypted() {
		switch which, problem := e.Files.Check(); which {
		case "":
		case "client-name":
			return c.Fault(e.Listener+"-tls-client-name", problem, "give "+e.Listener+"-tls-client-ca too")
		default:
			return c.Fault(e.Listener+"-tls-"+which, problem, "give "+e.Listener+"-tls-cert and "+e.Listener+"-tls-key, or neither")
		}
	}
	return nil
}
