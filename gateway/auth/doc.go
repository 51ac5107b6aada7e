// Package auth lets a Caddy site authenticate clients by the API keys of the records, by signed
// tokens (JWT) and by client certificates, and send the proven identity to the upstream: the
// authentication providers stint_keys, stint_jwt and stint_mtls, and the handlers stint_identity and
// stint_user.
package auth
