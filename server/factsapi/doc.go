// Package factsapi serves what is known about rules and their keys as JSON, and live.
//
// [NewUsage] shows operators who used how much, by subject, rule and plan, and as a billing export; [NewMe] shows a
// customer with her own API key her own use.
package factsapi
