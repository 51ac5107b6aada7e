package httplimit

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"stint/limiter/response"
)

// isGRPC reports whether the client makes a gRPC or gRPC-Web call. It reads the status of the call
// from grpc-status.
func isGRPC(r *http.Request) bool {
	values := r.Header["Content-Type"]
	if len(values) == 0 || r.Method != http.MethodPost {
		return false
	}
	rest, ok := strings.CutPrefix(values[0], "application/grpc")
	return ok && (rest == "" || rest[0] == '+' || rest[0] == ';' || strings.HasPrefix(rest, "-web"))
}

// The codes of grpc-status.
const (
	grpcInvalidArgument   = 3
	grpcPermissionDenied  = 7
	grpcResourceExhausted = 8
	grpcUnavailable       = 14
	grpcUnauthenticated   = 16
)

// grpcStatus returns the grpc-status of a refusal with an HTTP status.
func grpcStatus(status int) int {
	switch status {
	case http.StatusBadRequest:
		return grpcInvalidArgument
	case http.StatusUnauthorized:
		return grpcUnauthenticated
	case http.StatusForbidden:
		return grpcPermissionDenied
	case http.StatusServiceUnavailable:
		return grpcUnavailable
	}
	return grpcResourceExhausted
}

// writeGRPC sends a refusal as a response that consists of trailers only: HTTP status 200, and the
// status of the call in the header. grpc-retry-pushback-ms is not sent: Retry-After holds the time.
func writeGRPC(w http.ResponseWriter, r *http.Request, refusal *response.Refusal) {
	header := w.Header()
	header.Set("Content-Type", r.Header["Content-Type"][0])
	header.Set("Grpc-Status", strconv.Itoa(grpcStatus(refusal.Status)))
	header.Set("Grpc-Message", strings.ReplaceAll(url.PathEscape(refusal.Text()), "%20", " "))
	w.WriteHeader(http.StatusOK)
}
