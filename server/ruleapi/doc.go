// Package ruleapi is the part of the admin API that lists and changes rules per API: /v1/rules and
// /v1/rules/{id}.
//
// docs/openapi.yaml describes it, and docs/catalog.md how to use it. Errors have the same form as
// in all of Stint's endpoints.
package ruleapi
