package grpclimit

import (
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"stint/limiter/response"
)

// reserved is an allowed call whose limits count responses, until its status is known. It uses the
// scratch, and the verdict in it, until then.
type reserved struct {
	server  *Server
	call    *call
	scratch *scratch
}

// serve runs the handler, and settles before the final status is sent.
func (r *reserved) serve(next func() error) error {
	answered := http.StatusInternalServerError // if the handler panics
	defer func() { r.settle(answered) }()
	err := next()
	answered = httpStatus(err)
	return err
}

// settle settles the reservations, even if the caller has disconnected.
func (r *reserved) settle(answered int) {
	if err := response.Settle(r.call.ctx, r.server.limiter, &r.scratch.Verdict, answered); err != nil {
		r.server.report(r.call, err)
	}
	r.server.release(r.scratch)
}

// canceled is the status that proxies log for a client that closed its request.
const canceled = 499

// statuses are the HTTP statuses of gRPC codes, as common gateways map them.
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

// httpStatus returns the HTTP status for the final error of a call. As a server does, it treats an
// error without a code as that of a context, or as UNKNOWN.
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
