// Package stream keeps the records of the queue in Redis or Valkey, so that several gateways share them.
// A change is acknowledged by the server before its method returns; it is as durable as the server's AOF.
//
// All keys lie in one slot of a Cluster. Each script changes them all or none, and is in a file of its own:
//
//	NAMESPACE:{queue}:stream        stream of the records that may be sent now: fields id and record, the
//	                                name of the record's hash; consumer group gateways
//	NAMESPACE:{queue}:record:ID     hash: the fields of a [queue.Entry], data and answer
//	NAMESPACE:{queue}:line:LINE     list of the unfinished records of a line
//	NAMESPACE:{queue}:due           sorted set of times: first records of lines that wait for their time,
//	                                and claims with their end
//	NAMESPACE:{queue}:state:STATE   sorted set of the records in a state
//	NAMESPACE:{queue}:rules         hash: numbers of each rule
//	NAMESPACE:{queue}:results       stream of what workers of one's own report
//
// Only the first record of a line is ever in the stream, so whoever reads the stream keeps the order.
package stream
