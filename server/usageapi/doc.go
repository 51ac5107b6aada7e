// Package usageapi shows who used how much: to operators, by subject, rule and plan, and as a billing
// export; to a customer with her own API key, her own.
package usageapi
