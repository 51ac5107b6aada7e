// Package transport carries Envoy's rate limit protocol over gRPC: it takes the bytes of
// a call to package rls and its answer back.
//
// All that knows grpc-go is in grpc.go and arrival.go. Whoever replaces it by another way
// to speak HTTP/2 writes those files anew, and nothing else.
package transport
