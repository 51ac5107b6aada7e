package grpclimit

import (
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"stint/limiter/response"
)

// reserved is a call whose limits count answers, until its status is known. The
// scratch, and the verdict in it, is its own until then.
type reserved struct {
	server  *Server
	call    *call
	scratch *scratch
}

// serve lets the call go on, and settles before the caller can know how it ended.
func (r *reserved) serve(next func() error) error {
	answered := http.StatusInternalServerError // where the handler panics
	defer func() { r.settle(answered) }()
	err := next()
	answered = httpStatus(err)
	return err
}

// settle ends what the call has reserved, even if the caller is gone.
func (r *reserved) settle(answered int) {
	if err := response.Settle(r.call.ctx, r.server.limiter, &r.scratch.Verdict, answered); err != nil {
		r.server.report(r.call, err)
	}
	r.server.release(r.scratch)
}

// canceled is the status of a client that closed its request, as proxies write it.
const canceled = 499

// statuses are the codes of gRPC as statuses of HTTP, by what gateways between the
// two have agreed on.
var statuses = [...]int{
	codes.OK:                 http.StatusOK,
	codes.Canceled:           canceled,
	codes.Unknown:            http.StatusInternalServerError,
	codes.InvalidArgument:    http.StatusBadRequest,
	codes.DeadlineExceeded:   http.StatusGatewayTimeout,
	codes.NotFound:           http.StatusNotFound,
	codes.AlreadyExists:      http.StatusConflict,
	codes.PermissionDenied:   http.StatusForbidden,
	codes.ResourceExhausted:  http.StatusTooManyRequests,
	codes.FailedPrecondition: http.StatusBadRequest,
	codes.Aborted:            http.StatusConflict,
	codes.OutOfRange:         http.StatusBadRequest,
	codes.Unimplemented:      http.StatusNotImplemented,
	codes.Internal:           http.StatusInternalServerError,
	codes.Unavailable:        http.StatusServiceUnavailable,
	codes.DataLoss:           http.StatusInternalServerError,
	codes.Unauthenticated:    http.StatusUnauthorized,
}

// httpStatus returns the status of HTTP for what a call ended with. As a server
// does, it takes an error without a code for that of a context, or for UNKNOWN.
func httpStatus(err error) int {
	st, ok := status.FromError(err)
	if !ok {
		st = status.FromContextError(err)
	}
	if code := int(st.Code()); code < len(statuses) {
		return statuses[code]
	}
	return http.StatusInternalServerError
}
