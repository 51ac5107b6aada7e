package client

import (
	"errors"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// errEarly is the error for a request in the early data of a connection.
var errEarly = errors.New("the address of the client is not verified before the TLS handshake is complete")

// Verify returns an error with the status 425 for a request that came before the TLS handshake was complete
// (early data of HTTP/3). The address of its sender may be forged, and the request may be a copy of an earlier
// one. Clients send such a request again after the handshake.
func Verify(r *http.Request) error {
	if r.TLS != nil && !r.TLS.HandshakeComplete {
		return caddyhttp.Error(http.StatusTooEarly, errEarly)
	}
	return nil
}
