package action

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"stint/internal/strictyaml"
	"stint/internal/text"
)

// Responder is implemented by Attributes whose answer can still carry cookies. Without it no cookie
// is set.
type Responder interface {
	// SetCookie adds a cookie to the answer, unless the answer has one of that name. The cookie
	// must be sent only if the request passes; otherwise new devices would be free and could be
	// used to escape other limits.
	SetCookie(c *http.Cookie)
}

const (
	// maxDeviceCookies is the number of cookies of that name that are checked in one request,
	// because a client can send many.
	maxDeviceCookies = 3

	// maxDeviceID is the maximum length of a device ID from a proxy, in bytes.
	maxDeviceID = 256
)

// Cookie is the name of a device cookie and the file of its secrets.
type Cookie struct{ Name, File string }

// deviceCookie is a signed cookie that identifies a device.
type deviceCookie struct {
	signer *DeviceSigner
	name   string
	file   string // file of the secrets
	plain  bool   // cookie without Secure, sent over http too
}

// value returns the ID of the device if the request has a cookie that we signed. Otherwise it sets
// a new cookie and returns no ID. The device is identified only when it sends the cookie back;
// otherwise a client could get a new bucket for each request by discarding the cookie.
func (d *deviceCookie) value(a Attributes) (id string, ok bool) {
	now, tries, fresh := time.Now(), 0, ""
	cookies(a, d.name, func(value string) bool {
		tries++
		id, fresh, ok = d.signer.Read(value, now)
		return ok || tries == maxDeviceCookies
	})
	r, answers := a.(Responder)
	if !ok && answers {
		fresh = d.signer.Issue(now)
	}
	if fresh != "" && answers {
		r.SetCookie(d.cookie(fresh))
	}
	return id, ok
}

// cookie returns the cookie to set.
func (d *deviceCookie) cookie(value string) *http.Cookie {
	return &http.Cookie{
		Name: d.name, Value: value, Path: "/", MaxAge: int(d.signer.MaxAge() / time.Second),
		Secure: !d.plain, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	}
}

// deviceHeader returns a function that reads the device ID from a header of a trusted proxy. It
// ignores a header with two values, because one may be the client's own.
func deviceHeader(name string) func(Attributes) (string, bool) {
	return func(a Attributes) (string, bool) {
		c, ok := a.(Connection)
		if !ok || !c.TrustedPeer() {
			return "", false
		}
		values := c.Values(name)
		if len(values) != 1 || len(values[0]) > maxDeviceID {
			return "", false
		}
		return values[0], values[0] != ""
	}
}

// deviceHint lists the three ways to identify a device.
const deviceHint = "write device: {cookie: {secret_file: FILE}}, or device: {header: NAME}, or device: {certificate: {}}"

func readDevice(v strictyaml.Value, a *action) {
	ways := 0
	way := func(read func(v strictyaml.Value)) func(v strictyaml.Value) {
		return func(v strictyaml.Value) { ways++; read(v) }
	}
	a.object(v, strictyaml.Words{
		"cookie": way(func(v strictyaml.Value) { readDeviceCookie(v, a) }),
		"header": way(func(v strictyaml.Value) { a.value = deviceHeader(HeaderName(v)) }),
		"certificate": way(func(v strictyaml.Value) {
			v.Object("certificate", strictyaml.Words{})
			a.value = certificate(parts["fingerprint"])
		}),
		"skip_if_absent": func(v strictyaml.Value) { a.optional = v.Bool() },
	})
	if ways != 1 && (v.IsObject() || v.IsNull()) {
		v.Fail("a device needs exactly one of cookie, header and certificate", deviceHint+"; first_of tries several")
	}
}

// The range of a cookie's maximum age; browsers drop a cookie after 400 days.
const (
	defaultDeviceAge = 365 * 24 * time.Hour
	minDeviceAge     = time.Minute
	maxDeviceAge     = 400 * 24 * time.Hour
)

func readDeviceCookie(v strictyaml.Value, a *action) {
	d := deviceCookie{name: "stint_device"}
	age := defaultDeviceAge
	var secrets *strictyaml.Value
	known := v.Object("cookie", strictyaml.Words{
		"name":        func(v strictyaml.Value) { d.name = cookieName(v) },
		"secret_file": func(v strictyaml.Value) { secrets = &v },
		"max_age":     func(v strictyaml.Value) { age = readAge(v) },
		"secure":      func(v strictyaml.Value) { d.plain = !v.Bool() },
	}, func(word string) string {
		switch word {
		case "secret", "key", "secrets":
			return "write secret_file: FILE; a rule file must not contain secrets"
		}
		return ""
	})
	switch {
	case !known:
		return
	case secrets == nil:
		v.Fail("a device's cookie without secret_file", "add `secret_file: FILE`, with a line from `openssl rand -base64 32`")
		return
	case d.plain && (strings.HasPrefix(d.name, "__Host-") || strings.HasPrefix(d.name, "__Secure-")):
		v.Fail(fmt.Sprintf("name: browsers drop %s if secure is false", d.name), "choose a name without that prefix, or remove `secure: false`")
		return
	case secrets.NonEmpty() == "":
		return
	}
	data, ok := a.outside.Open(*secrets)
	if !ok {
		return
	}
	keys, err := ParseDeviceSecrets(data)
	if err != nil {
		secrets.Fail(fmt.Sprintf("secret_file: %s: %v", secrets.Text(), err),
			"write one secret a line, such as `openssl rand -base64 32` makes; the first one signs, all are accepted")
		return
	}
	d.signer, d.file = NewDeviceSigner(d.name, keys, age), secrets.Text()
	a.value, a.device = d.value, &d
}

func readAge(v strictyaml.Value) time.Duration {
	age, err := text.ParseDuration(v.Text())
	if err != nil {
		v.Fail(fmt.Sprintf("max_age: %q is %v", v.Text(), err), "write a duration such as 365d")
	} else if age < minDeviceAge || age > maxDeviceAge {
		v.Fail("max_age: "+v.Text(), "write 1m to 400d, after which browsers drop a cookie")
	}
	return age
}
