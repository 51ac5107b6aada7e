// Package ruleapi is the part of the admin API that shows and changes rules per API:
// /v1/rules and /v1/rules/{id}.
//
// docs/openapi.yaml describes it, docs/catalog.md says how it is used. Errors are the
// envelope of all of Stint's endpoints.
package ruleapi
