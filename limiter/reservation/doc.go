// Package reservation lets a caller take the units of a request now and say later, on any node, how the
// request was answered: limits with `count: responses` then keep their units or give them back.
//
// [Reservations.Issue] turns a verdict into a text that the caller keeps. It is signed and names every
// take whose units are reserved, so no node has to remember it. [Reservations.Settle] ends it.
//
// # Once
//
// A reservation is settled once, by its first status, however often and on whichever nodes it is settled.
// The store that decides has the record of this, as a take of a limit of its own: it is tested and charged
// in the same call, with the same all or none, as the units are given back. The charge is the status, so
// whoever settles again reads the first one from what remains. Where several nodes decide without a
// store (gossip), only the node that settled has the record.
//
// # Time
//
// A reservation can be settled for [stint.MaxReservation]. After that its units stay charged. The record
// lives for twice as long, so that clocks of nodes may differ by some minutes.
package reservation
