package app

import (
	"log/slog"

	"stint/server/rls/transport"
)

// rlsServer returns the server of the grpc address.
func (a *App) rlsServer(log *slog.Logger) answerer {
	r := &a.config.RLS
	options := transport.Options{
		MaxMessage: int(r.MaxMessage), MaxStreams: uint32(r.MaxStreams),
		Keepalive: r.Keepalive, KeepaliveTimeout: r.KeepaliveTimeout, MaxAge: r.MaxAge, MaxAgeGrace: r.MaxAgeGrace,
		Reflection: r.Reflection, Log: log, Trace: a.otlp.Incoming(),
	}
	options.TLS = a.tls("grpc")
	a.grpcServer = transport.New(a.rls, options)
	return a.grpcServer
}
