// Package transport serves Envoy's rate limit protocol over gRPC: it passes the bytes of a call to
// package rls and returns the answer.
//
// Only grpc.go and arrival.go use grpc-go. To replace it by another HTTP/2 implementation, rewrite
// these two files.
package transport
