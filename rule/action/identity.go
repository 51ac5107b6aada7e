package action

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"slices"
	"strings"
	"unicode/utf8"
)

// Connection is implemented by Attributes that know the connection. Host returns the name that the
// client asked for, with its port if it has one. Values returns all values of a header in order.
// PeerCertificate returns the client's certificate if the server verified it, else nil. TrustedPeer
// reports whether a trusted proxy forwarded the request.
//
// Without Connection, the host is the header Host, a header has one value, there is no certificate
// and no proxy is trusted.
type Connection interface {
	Host() string
	Values(header string) []string
	PeerCertificate() *x509.Certificate
	TrustedPeer() bool
}

// Authenticated is implemented by Attributes of a server that authenticates its clients. Identity
// returns the name that authentication proved; "" if there is none, and never a name that is only
// claimed. Without Authenticated nobody is identified.
type Authenticated interface {
	Identity() string
}

// identity returns the name that authentication proved.
func identity(a Attributes) (string, bool) {
	if by, ok := a.(Authenticated); ok {
		name := by.Identity()
		return name, name != ""
	}
	return "", false
}

// ReadsIdentity reports whether an action reads the name that authentication proved. Such a list can
// make its descriptor only after authentication.
func (l *List) ReadsIdentity() bool { return anyIdentity(l.actions) }

func anyIdentity(actions []action) bool {
	return slices.ContainsFunc(actions, func(a action) bool { return a.authenticated || anyIdentity(a.first) })
}

// AnyValue calls use with each value of a header until use returns true, and reports whether it
// did.
func AnyValue(a Attributes, name string, use func(value string) bool) bool {
	if c, ok := a.(Connection); ok {
		return slices.ContainsFunc(c.Values(name), use)
	}
	value, ok := a.Header(name)
	return ok && use(value)
}

// hashed returns a function that returns the SHA-256 of read's value, in hexadecimal. So a secret
// never appears in keys, logs or metrics.
func hashed(read func(Attributes) (string, bool)) func(Attributes) (string, bool) {
	return func(a Attributes) (string, bool) {
		secret, ok := read(a)
		if !ok {
			return "", false
		}
		return fingerprint(secret), true
	}
}

func fingerprint[T string | []byte](secret T) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// cookie returns a function that reads the first non-empty cookie of that name.
func cookie(name string) func(Attributes) (string, bool) {
	return func(a Attributes) (found string, ok bool) {
		cookies(a, name, func(value string) bool {
			found = value
			return value != ""
		})
		return found, found != ""
	}
}

// cookies calls use with the value of each cookie of that name until use returns true.
func cookies(a Attributes, name string, use func(value string) bool) {
	AnyValue(a, "Cookie", func(line string) bool {
		for pair := range strings.SplitSeq(line, ";") {
			key, value, _ := strings.Cut(strings.Trim(pair, " \t"), "=")
			if key == name && use(unquoted(value)) {
				return true
			}
		}
		return false
	})
}

// unquoted removes the quotes around the value of a cookie, which are not part of the value.
func unquoted(value string) string {
	if len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
		return value[1 : len(value)-1]
	}
	return value
}

// host returns the normalized name that the client asked for: in lower case, without port and
// without trailing dot.
func host(a Attributes) (string, bool) {
	var name string
	if c, ok := a.(Connection); ok {
		name = c.Host()
	} else {
		name, _ = a.Header("Host")
	}
	if end := strings.IndexByte(name, ']'); strings.HasPrefix(name, "[") && end > 0 {
		name = name[:end+1]
	} else if i := strings.IndexByte(name, ':'); i >= 0 {
		name = name[:i]
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return name, name != ""
}

// basicUser returns the user name of HTTP basic authentication. The password is not verified.
func basicUser(a Attributes) (user string, ok bool) {
	ok = AnyValue(a, "Authorization", func(value string) (ok bool) {
		token, ok := credentials(value, "Basic")
		if ok {
			user, ok = basicName(token)
		}
		return ok
	})
	return user, ok
}

// credentials returns what follows the scheme in the value of Authorization. Servers differ in what they
// take as space, so anything counts that no name of a scheme has, also the spaces beyond ASCII.
func credentials(value, scheme string) (rest string, ok bool) {
	value = strings.TrimLeft(value, " \t")
	if len(value) <= len(scheme) || !strings.EqualFold(value[:len(scheme)], scheme) {
		return "", false
	}
	value = value[len(scheme):]
	spaces := 0
	for spaces < len(value) && (value[spaces] == ' ' || value[spaces] == '\t' || value[spaces] >= utf8.RuneSelf) {
		spaces++
	}
	return strings.TrimRight(value[spaces:], " \t"), spaces > 0
}

// maxBasic is the most bytes of basic authentication that are read. Servers that skip what is not base64
// accept no longer header.
const maxBasic = 64 << 10

// basicName returns the text before the first colon in base64. It reads what servers accept: padding or
// none, both alphabets, and other bytes between, which many skip. Many skip - and _ too, the letters of the URL
// alphabet. A client can put these so that both readings give a name in UTF-8. Then the one without them counts:
// few names have these letters, so there is little to hide from the other.
func basicName(token string) (name string, ok bool) {
	if len(token) > maxBasic {
		return "", false
	}
	name, ok = decodeName(token, '+', '/')
	if ok && utf8.ValidString(name) || !strings.ContainsAny(token, "-_") {
		return name, ok
	}
	if other, found := decodeName(token, '-', '_'); found && (!ok || utf8.ValidString(other)) {
		return other, true
	}
	return name, ok
}

// decodeName returns the text before the first colon in base64, in which c62 and c63 stand for 62 and 63
// beside + and /. It skips all other bytes.
func decodeName(token string, c62, c63 byte) (name string, ok bool) {
	var plain []byte
	var bits uint32
	held := 0
	for i := range len(token) {
		var value byte
		switch c := token[i]; {
		case 'A' <= c && c <= 'Z':
			value = c - 'A'
		case 'a' <= c && c <= 'z':
			value = c - 'a' + 26
		case '0' <= c && c <= '9':
			value = c - '0' + 52
		case c == '+', c == c62:
			value = 62
		case c == '/', c == c63:
			value = 63
		default:
			continue
		}
		bits, held = bits<<6|uint32(value), held+6
		if held < 8 {
			continue
		}
		held -= 8
		c := byte(bits >> held)
		if c == ':' {
			return string(plain), len(plain) > 0
		}
		plain = append(plain, c)
	}
	return "", false
}

// bearerClaim returns a function that reads a claim of the first bearer token that can be verified.
func bearerClaim(v Verifier, name string) func(Attributes) (string, bool) {
	return func(a Attributes) (claim string, ok bool) {
		tries := 0
		ok = AnyValue(a, "Authorization", func(value string) (ok bool) {
			token, ok := credentials(value, "Bearer")
			if !ok || tries == maxTokens {
				return false
			}
			tries++
			claim, ok = v.Claim(token, name)
			return ok
		})
		return claim, ok
	}
}

// maxTokens is the number of tokens that are verified in one request, because verification is slow.
const maxTokens = 2

// apiKey returns a function that reads the key from a header or, if it is missing there, from a
// query parameter. An empty name is skipped.
func apiKey(inHeader, inQuery string) func(Attributes) (string, bool) {
	fromHeader, fromQuery := header(inHeader), query(inQuery)
	return func(a Attributes) (string, bool) {
		if inHeader != "" {
			if key, ok := fromHeader(a); ok {
				return key, true
			}
		}
		if inQuery != "" {
			return fromQuery(a)
		}
		return "", false
	}
}

// certificate returns a function that reads part of the client's verified certificate.
func certificate(part func(*x509.Certificate) string) func(Attributes) (string, bool) {
	return func(a Attributes) (string, bool) {
		c, ok := a.(Connection)
		if !ok {
			return "", false
		}
		cert := c.PeerCertificate()
		if cert == nil {
			return "", false
		}
		value := part(cert)
		return value, value != ""
	}
}

// parts are the parts of a certificate, by their names in the rule file.
var parts = map[string]func(*x509.Certificate) string{
	"common_name": func(c *x509.Certificate) string { return c.Subject.CommonName },
	"san_uri": func(c *x509.Certificate) string {
		if len(c.URIs) == 0 {
			return ""
		}
		return c.URIs[0].String()
	},
	"fingerprint": func(c *x509.Certificate) string { return fingerprint(c.Raw) },
}
