// Package recordapi is the part of the admin API that shows and changes records: subjects,
// overrides, bans and API keys, and the audit trail of their changes.
//
// It also shows the receivers of webhooks and their deliveries, and retries them ([NewWebhooks]).
//
// docs/openapi.yaml describes it, and docs/records.md how to use it. Errors have the same form as in
// all of Stint's endpoints.
//
// The listener lets in whoever may read. What else a caller may do depends on the call: support may
// ban, and may give an override that ends; all other changes need write.
package recordapi
