// Package queue keeps requests that a limit denied, and sends them when the limit allows.
//
// A [Queue] accepts a request: it makes a [Record] of it, puts it into a [Storage], and answers 202 when
// the storage has it safely. A [Worker] claims the records one by one, asks the limit again, and sends
// them to the upstream. The client asks for the outcome at the status resource of its record,
// /.stint/queue/ID, which [Queue.ServeStatus] serves.
//
// Records of one rule and key are a line. They are sent in their order, one at a time. While a key has a
// record, its later requests queue behind it.
//
// A record is sent at least once, and always with the same Idempotency-Key. It is sent twice if a gateway
// or the upstream ends before the outcome is stored.
//
// The storages are in packages of their own: file keeps records in a bbolt file, stream in Redis.
// Package seal encrypts them.
package queue
