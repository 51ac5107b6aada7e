// Package notify tells the owner of a service when a subject has used a part of its limit.
//
// An [Engine] takes events from the outbox of a store, and delivers each to its receivers, at least once, from
// a [Queue].
//
// A [Client] sends one message to a receiver on the network, as Standard Webhooks 1.0.0 defines it.
// [Client.Send] signs a body with the secrets of the receiver ([ParseSecrets]) and posts it once. The [Answer]
// says what the receiver's answer means: only a status 2xx is a success. The engine decides when to try again.
//
// A request goes only to public addresses, and to those that the operator allowed. The check is made where the
// connection is made, on the address itself, so a name that changes its address between a check and a
// connection gains nothing. Redirects are not followed, and no proxy is used.
package notify
