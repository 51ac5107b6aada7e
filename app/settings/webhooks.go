package settings

import (
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"

	"stint/internal/config"
	"stint/internal/strictyaml"
	"stint/internal/text"
	"stint/notify"
	"stint/store/redis/connect"
)

// receivers parses the part webhooks of a config file: a list of receivers.
func (p *configParser) receivers(v strictyaml.Value) {
	names := map[string]bool{}
	for _, one := range v.List() {
		r := p.receiver(one)
		if r == nil {
			continue
		}
		if names[r.Name] {
			one.Fail("two receivers have the name "+r.Name, "give each a name of its own")
			continue
		}
		names[r.Name] = true
		p.webhooks = append(p.webhooks, *r)
	}
}

// receiver parses a receiver. It returns nil after a fault.
func (p *configParser) receiver(v strictyaml.Value) *notify.Receiver {
	r := new(notify.Receiver)
	lines := false
	ok := true
	path := func(to *string) func(strictyaml.Value) {
		return func(v strictyaml.Value) {
			if *to = v.NonEmpty(); *to != "" && *to != "-" && !filepath.IsAbs(*to) {
				*to = filepath.Join(filepath.Dir(p.name), *to)
			}
		}
	}
	known := v.Object("a receiver of webhooks", strictyaml.Words{
		"name": func(v strictyaml.Value) { r.Name = v.NonEmpty() },
		"type": func(v strictyaml.Value) {
			kind, found := v.OneOf("webhook", "lines")
			lines, ok = kind == 1, ok && found
		},
		"url":         func(v strictyaml.Value) { r.URL = v.NonEmpty() },
		"secret_file": path(&r.SecretFile),
		"file":        path(&r.File),
		"rules": func(v strictyaml.Value) {
			for _, one := range v.OneOrList() {
				r.Rules = append(r.Rules, one.NonEmpty())
			}
		},
		"thresholds": func(v strictyaml.Value) {
			for _, one := range v.OneOrList() {
				n, valid := parsePercent(one)
				r.Thresholds, ok = append(r.Thresholds, n), ok && valid
			}
		},
		"allow_private": func(v strictyaml.Value) {
			for _, one := range v.OneOrList() {
				network, valid := parseNetwork(one)
				r.Allow, ok = append(r.Allow, network), ok && valid
			}
		},
	})
	if !known || !ok {
		return nil
	}
	switch {
	case lines && r.File == "":
		v.Fail("receiver "+text.Quote(r.Name)+": file: missing", "write file: FILE, or file: - for standard output")
		return nil
	case !lines && r.File != "":
		v.Fail("receiver "+text.Quote(r.Name)+": file: only a receiver with type: lines has one", "write type: lines, or leave file out")
		return nil
	}
	if wrong := r.Check(); wrong != nil {
		v.Fail("receiver "+text.Quote(r.Name)+": "+wrong.Error(), wrong.Hint)
		return nil
	}
	return r
}

// parsePercent parses a threshold such as 80%.
func parsePercent(v strictyaml.Value) (int, bool) {
	written := v.Text()
	n, err := strconv.Atoi(strings.TrimSuffix(written, "%"))
	if err != nil {
		v.Fail(text.Quote(written)+" is no threshold", "write whole numbers from 1% to 100%")
		return 0, false
	}
	return n, true
}

// parseNetwork parses an address or a prefix.
func parseNetwork(v strictyaml.Value) (netip.Prefix, bool) {
	network, err := config.Prefix(v.Text())
	if err != nil {
		v.Fail("allow_private: "+err.Error(), "write addresses or networks such as 10.3.0.0/16; a name is not enough, because its addresses change")
		return network, false
	}
	return network, true
}

// WebhooksOnRedis reports whether deliveries of webhooks are kept in the Redis of the store.
func (c *Config) WebhooksOnRedis() bool { return connect.IsURL(c.Store) }

// webhooksSuffix is the end of the name of the file of deliveries, beside the file that it begins with.
const webhooksSuffix = ".webhooks"

// WebhooksFile returns the file of deliveries on a node that counts in memory: beside the state file, else beside the
// file of records; "" if there is neither. state is the path of the state file, with links resolved.
func (c *Config) WebhooksFile(state string) string {
	switch {
	case state != "":
		return state + webhooksSuffix
	case c.Records != "" && !c.SharesRecords():
		return c.Records + webhooksSuffix
	case c.RecordsCopy != "":
		return c.RecordsCopy + webhooksSuffix
	}
	return ""
}

// checkWebhooks checks the receivers together with the settings.
func (c *Config) checkWebhooks() error {
	for i := range c.Webhooks {
		r := &c.Webhooks[i]
		if wrong := r.Check(); wrong != nil { // those of a program, which has no config file
			return c.Fault("webhooks", "receiver "+text.Quote(r.Name)+": "+wrong.Error(), wrong.Hint)
		}
	}
	if len(c.Webhooks) > 0 && !c.WebhooksOnRedis() && c.WebhooksFile(c.State) == "" {
		return c.Fault("webhooks", "there is no place that keeps events until they are delivered", "give --state FILE, --records FILE or --store redis://HOST:PORT")
	}
	return nil
}

// WebhooksError returns err as a fault of the config file, if it is about a receiver or the file of deliveries.
func (c *Config) WebhooksError(err *notify.Error) error {
	fault := c.Fault("webhooks", err.Error(), err.Hint)
	fault.Err = err
	return fault
}
