// Package book holds the rules of a catalog together with where they come from: files,
// or a store on disk that is changed while the service runs.
package book
